"""Which settings a new topic has: the most specific pattern wins, and its creator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.settings.defaults import NO_DEFAULTS, TopicDefaults, check_defaults
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, DEFAULTS, TopicSettings
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import InvalidSettingError

RETRIES = {"*": {"max_deliveries": 5, "ttl_seconds": "1d"}, "jobs.*": {"max_deliveries": 9}, "jobs.x": {"trace": True}}


def test_without_defaults_every_setting_is_built_in():
    assert NO_DEFAULTS.settings(b"t") is DEFAULT_SETTINGS


def test_each_setting_is_that_of_the_most_specific_pattern():
    defaults = TopicDefaults(RETRIES)
    assert defaults.settings(b"t") == TopicSettings(max_deliveries=5, ttl_seconds=86400)
    assert defaults.settings(b"jobs.mail") == TopicSettings(max_deliveries=9, ttl_seconds=86400)
    assert defaults.settings(b"jobs.x") == TopicSettings(max_deliveries=9, ttl_seconds=86400, trace=True)


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("*", [b"t", "\u00e9".encode()], []),
        ("jobs.*", [b"jobs.", b"jobs.a.b"], [b"jobs", b"xjobs.a"]),
        ("*.dlq", [b".dlq", b"a.dlq"], [b"a.dlqx", b"adlq"]),
        ("a*b**c", [b"abc", b"axbxc"], [b"ab", b"xabc"]),
        ("t", [b"t"], [b"tt"]),
    ],
)
def test_a_star_stands_for_any_characters(pattern, names, others):
    defaults = TopicDefaults({pattern: {"max_deliveries": 5}})
    assert [name for name in names + others if defaults.settings(name).max_deliveries] == names


@pytest.mark.parametrize(
    ("patterns", "wins"),
    [(["a*", "*"], "a*"), (["aa*", "aaaa"], "aaaa"), (["a*aaaaa", "aaaaaa"], "aaaaaa"), (["a*", "*a"], "*a")],
)
def test_the_most_other_characters_win_and_of_two_with_as_many_the_later(patterns, wins):
    defaults = TopicDefaults({pattern: {"max_deliveries": 1 + (pattern == wins)} for pattern in patterns})
    assert defaults.settings(b"aaaaaa" if "aaaaaa" in patterns else b"aaaa").max_deliveries == 2


def test_a_pattern_can_set_a_setting_back():
    defaults = TopicDefaults({"*": {"lease_seconds": 60}, "t": {"lease_seconds": None}})
    assert defaults.settings(b"t").lease_seconds is None


def test_settings_that_depend_on_each_other_come_from_one_pattern():
    defaults = TopicDefaults({"*": {"retention": "forever", "retry_delays": [1, 2]}, "t": {"retention_seconds": 60}})
    assert defaults.settings(b"t") == TopicSettings(retention_seconds=60, retry_delays=(1, 2))
    assert defaults.settings_with(b"u", {"retry_min_seconds": 1}) == TopicSettings(
        retention="forever", retry_min_seconds=1
    )


def test_the_creator_wins():
    defaults = TopicDefaults(RETRIES)
    assert defaults.settings_with(b"t", {"max_deliveries": 2}) == TopicSettings(max_deliveries=2, ttl_seconds=86400)
    assert defaults.settings_with(b"t", {"max_deliveries": None, "ttl_seconds": 0}) == DEFAULT_SETTINGS
    with pytest.raises(InvalidSettingError):
        defaults.settings_with(b"t", {"max_deliveries": -1})


def test_the_dead_letter_topic_of_all_topics_is_not_its_own():
    defaults = TopicDefaults({"*": {"dead_letter_topic": "dead", "max_deliveries": 5}})
    assert defaults.settings(b"t").dead_letter_topic == "dead"
    for settings in (defaults.settings(b"dead"), defaults.settings_with(b"dead", {})):
        assert settings == TopicSettings(max_deliveries=5)


def test_a_long_name_has_defaults_too():
    assert TopicDefaults({"*": {"max_deliveries": 5}}).settings(b"t" * 255).max_deliveries == 5


def test_topics_with_the_same_defaults_share_them():
    defaults = TopicDefaults(RETRIES)
    assert defaults.settings(b"t") is defaults.settings(b"u")


@pytest.mark.parametrize(
    ("pattern", "members", "text"),
    [
        ("*", {"max_deliveries": -1}, "max_deliveries must be a whole number"),
        ("*", {"colour": 1}, "colour is no setting"),
        ("*", {"owner": "ada"}, "owner is no default"),
        ("*", {"paused_in_until_ms": 1}, "paused_in_until_ms is no default"),
        ("*", {"retention": "forever", "retention_bytes": 1}, "retention must be consumed"),
    ],
)
def test_what_cannot_be_a_default_is_refused(pattern, members, text):
    with pytest.raises(InvalidSettingError, match=text):
        check_defaults(pattern, members)


@pytest.mark.parametrize(("pattern", "members"), [("a/*", {}), ("", {}), ("*", {"dead_letter_topic": ".."})])
def test_a_name_that_no_topic_can_have_is_refused(pattern, members):
    with pytest.raises(InvalidTopicError):
        check_defaults(pattern, members)


TABLES = st.fixed_dictionaries(
    {},
    optional={
        "max_deliveries": st.integers(0, 9),
        "dead_letter_topic": st.sampled_from(["a", "b", None]),
        "expired": st.sampled_from(["drop", "dead-letter"]),
        "retention": st.sampled_from(["consumed", "forever"]),
        "retention_seconds": st.sampled_from([1, None]),
        "retention_drops_unread": st.booleans(),
        "retry_delays": st.sampled_from([[1], None]),
        "retry_min_seconds": st.sampled_from([0, 2]),
        "retry_max_seconds": st.sampled_from([1, 3]),
        "partitions": st.integers(1, 3),
    },
)
NAMES = st.text("ab.", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))


def is_valid(members) -> bool:
    try:
        check_defaults("*", members)
    except InvalidSettingError:
        return False
    return True


@given(st.dictionaries(st.text("ab*", min_size=1, max_size=4), TABLES.filter(is_valid), max_size=4), NAMES, TABLES)
def test_valid_tables_are_valid_together_and_the_creator_is_refused_only_for_what_it_sets(tables, name, changes):
    defaults, topic = TopicDefaults(tables), name.encode()
    settings = defaults.settings(topic)
    for setting, value in settings._asdict().items():
        tables_with = [table for table in tables.values() if setting in table]
        assert tables_with or value == DEFAULTS[setting]
    try:
        DEFAULT_SETTINGS.with_changes(changes, topic)
    except InvalidSettingError:
        with pytest.raises(InvalidSettingError):
            defaults.settings_with(topic, changes)
    else:
        made = defaults.settings_with(topic, changes)
        expected = DEFAULT_SETTINGS.with_changes(changes, topic)
        assert all(getattr(made, setting) == getattr(expected, setting) for setting in changes)
