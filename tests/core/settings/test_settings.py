"""Settings of topics: written as words or JSON, checked by name, kept when they are not at their default."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors.requests import InvalidSettingError

WRONG = [
    ("color", 1, "color is no setting; there are lease_seconds, max_deliveries, dead_letter_topic, ttl_seconds"),
    ("lease_seconds", 0, "lease_seconds must be a number of seconds, or a duration such as 1h30m, from 0.001 to 43200"),
    ("lease_seconds", 43_201, "lease_seconds must be"),
    ("lease_seconds", "a minute", "lease_seconds must be"),
    ("lease_seconds", True, "lease_seconds must be"),
    ("lease_seconds", float("nan"), "lease_seconds must be"),
    ("max_deliveries", -1, "max_deliveries must be a whole number from 0, no limit, to 1000000"),
    ("max_deliveries", 1.5, "max_deliveries must be"),
    ("max_deliveries", True, "max_deliveries must be"),
    ("dead_letter_topic", "a b", "dead_letter_topic must be the name of a topic"),
    ("dead_letter_topic", 7, "dead_letter_topic must be the name of a topic"),
    ("dead_letter_topic", "letters", "dead_letter_topic must be another topic than the one it is set for"),
    (
        "ttl_seconds",
        -1,
        "ttl_seconds must be a number of seconds, or a duration such as 1h30m, from 0, unlimited",
    ),
    ("expired", "keep", "expired must be drop or dead-letter"),
    (
        "retry_delays",
        5,
        "retry_delays must be at most 100 numbers of seconds, or durations such as 1h30m, from 0 to 31622400",
    ),
    ("retry_delays", [1, "two"], "retry_delays must be"),
    ("retry_delays", [1] * 101, "retry_delays must be"),
    ("retry_min_seconds", 3601, "retry_max_seconds must be not below retry_min_seconds"),
    ("retry_factor", 0.5, "retry_factor must be a number from 1 to 100"),
    ("retry_jitter", 1.5, "retry_jitter must be a number from 0 to 1"),
]


@pytest.mark.parametrize(("name", "value", "text"), WRONG)
def test_what_cannot_be_is_refused_by_name(name, value, text):
    with pytest.raises(InvalidSettingError) as caught:
        DEFAULT_SETTINGS.with_changes({name: value}, b"letters")
    assert str(caught.value).startswith(text)


def test_delays_and_a_minimum_do_not_go_together():
    with pytest.raises(InvalidSettingError, match="retry_delays must be set, or retry_min_seconds; not both"):
        DEFAULT_SETTINGS.with_changes({"retry_delays": [1], "retry_min_seconds": 1}, b"t")


def test_a_topic_whose_name_is_too_long_needs_a_name_for_its_dead_letters():
    name = b"x" * 252
    with pytest.raises(InvalidSettingError, match="dead_letter_topic must be set: the name of the topic is too long"):
        DEFAULT_SETTINGS.with_changes({"max_deliveries": 1}, name)
    settings = DEFAULT_SETTINGS.with_changes({"max_deliveries": 1, "dead_letter_topic": "lost"}, name)
    assert settings.dead_letters_of(name) == b"lost"


def test_a_topic_whose_expired_messages_are_dead_letters_needs_a_name_for_them_too():
    with pytest.raises(InvalidSettingError, match="dead_letter_topic must be set"):
        DEFAULT_SETTINGS.with_changes({"expired": "dead-letter"}, b"x" * 252)


def test_a_time_to_live_is_at_least_a_millisecond():
    assert [TopicSettings(ttl_seconds=seconds).ttl_ms for seconds in (0, 0.0001, 1.5)] == [0, 1, 1500]


def test_changes_leave_the_others_and_none_is_the_default():
    settings = DEFAULT_SETTINGS.with_changes({"max_deliveries": 5, "lease_seconds": 60}, b"t")
    assert settings.with_changes({"lease_seconds": None}, b"t") == TopicSettings(max_deliveries=5)
    assert settings.members() == {"max_deliveries": 5, "lease_seconds": 60.0}
    assert topic_settings.of_members(settings.members()) == settings
    assert DEFAULT_SETTINGS.members() == {}


def test_words_say_the_same_as_json():
    words = ["lease_seconds", "60", "retry_delays", "1, 2.5,30", "dead_letter_topic", "lost", "max_deliveries", "5"]
    changes = topic_settings.parse_texts([*words, "retry_jitter", "Default"])
    assert changes == {
        **{"lease_seconds": 60.0, "retry_delays": [1.0, 2.5, 30.0], "dead_letter_topic": "lost"},
        **{"max_deliveries": 5, "retry_jitter": None},
    }


def test_names_in_words_have_any_case():
    assert topic_settings.parse_texts(["SPREAD", "8", "Partitions", "2"]) == {"spread": 8, "partitions": 2}
    with pytest.raises(InvalidSettingError, match="NONE is no setting"):
        topic_settings.parse_texts(["NONE", "8"])


@pytest.mark.parametrize(
    "words",
    [["max_deliveries"], ["color", "1"], ["max_deliveries", "1_0"], ["lease_seconds", "nan"], ["retry_delays", "1,,2"]],
)
def test_words_that_cannot_be_are_refused(words):
    with pytest.raises(InvalidSettingError, match=f"^{words[0]} "):
        topic_settings.parse_texts(words)


@given(
    st.none() | st.floats(0.001, 43_200),
    st.integers(0, 1_000_000),
    st.none() | st.just("lost"),
    st.lists(st.floats(0, 1000), max_size=3).map(tuple),
)
def test_stored_settings_are_read_as_they_were(lease_seconds, max_deliveries, dead_letter_topic, retry_delays):
    settings = TopicSettings(lease_seconds, max_deliveries, dead_letter_topic, retry_delays=retry_delays)
    assert topic_settings.of_members(settings.members()) == settings


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "default"), (60.0, "60"), (0.5, "0.5"), (5, "5"), ((1.0, 2.5), "1,2.5"), ("lost", "lost")],
)
def test_values_are_told_as_they_can_be_set(value, text):
    assert topic_settings.text_of(value) == text


def test_no_list_is_told_as_the_default():
    assert topic_settings.text_of(()) == "default"


def test_delays_by_the_list_and_the_last_over_and_over():
    settings = TopicSettings(retry_delays=(1.0, 5.0))
    assert [settings.retry_seconds(count, 0.0) for count in (1, 2, 3, 1000)] == [1, 5, 5, 5]


def test_delays_grow_by_the_factor_up_to_the_most():
    settings = TopicSettings(retry_min_seconds=1.0, retry_max_seconds=10.0, retry_factor=3.0)
    assert [settings.retry_seconds(count, 0.0) for count in (1, 2, 3, 4, 10**6)] == [1, 3, 9, 10, 10]


def test_jitter_takes_off_a_part_by_chance():
    settings = TopicSettings(retry_delays=(10.0,), retry_jitter=0.5)
    assert [settings.retry_seconds(1, chance) for chance in (0.0, 0.5, 1.0)] == [10, 7.5, 5]
