"""The plan of `miniqueue apply`: what differs between a file and a broker."""

import pytest

from miniqueue.access.rights import ROLES
from miniqueue.commands.applying.document import parse
from miniqueue.commands.applying.lines import lines_of, member_of, summary
from miniqueue.commands.applying.plan import plan
from miniqueue.commands.applying.resources import SCHEDULE_DEFAULTS, USER_DEFAULTS, Existing, Kind, Resource
from miniqueue.core.settings.settings import DEFAULTS
from miniqueue.errors import ConfigError


def topic(name, **settings):
    return {Resource(Kind.TOPIC, name): {**DEFAULTS, **settings}}


def group(topic, name, idle_seconds=0.0):
    return {Resource(Kind.GROUP, name, topic): {"idle_seconds": idle_seconds}}


def schedule(name, **values):
    return {Resource(Kind.SCHEDULE, name): {**SCHEDULE_DEFAULTS, **values}}


def user(name, **values):
    return {Resource(Kind.USER, name): {**USER_DEFAULTS, **dict.fromkeys(ROLES, ()), **values}}


def planned(text, *existing, prunes=False, **more):
    resources = {resource: values for each in existing for resource, values in each.items()}
    changes = plan(parse(text), Existing(resources, **more), prunes=prunes)
    return [line for change in changes for line in lines_of(change)]


FILE = """
[topics.orders]
partitions = 4
[topics.orders.groups.audit]
start = "latest"
[schedules.report]
topic = "reports"
cron = "0 9 * * *"
payload = "go"
"""


def test_what_is_missing_is_created_in_the_order_of_need():
    assert planned(FILE) == [
        "+ topic orders",
        "    partitions 4",
        "+ group orders audit",
        "    start latest",
        "+ schedule report",
        "    topic reports",
        "    cron 0 9 * * *",
        "    zone UTC",
        "    every_seconds 0",
        "    missed all",
        "    priority normal",
        "    payload go",
    ]


def test_nothing_is_done_twice():
    existing = topic("orders", partitions=4), group("orders", "audit")
    rule = schedule("report", topic="reports", cron="0 9 * * *", payload=b"go")
    assert planned(FILE, *existing, rule, prunes=True) == []


def test_only_values_that_differ_are_changed():
    text = '[topics.a]\nlease_seconds = 60\ntrace = true\nretry_delays = ["1s", "1m"]'
    assert planned(text, topic("a", lease_seconds=60.0, trace=False)) == [
        "~ topic a",
        "    trace false -> true",
        "    retry_delays none -> 1, 60",
    ]


def test_settings_that_the_file_does_not_name_are_left_alone():
    assert planned("[topics.a]", topic("a", partitions=8), prunes=True) == []


def test_the_start_of_a_group_matters_only_when_it_is_created():
    text = '[topics.a.groups.g]\nstart = "latest"\nidle_seconds = 60'
    assert planned(text, topic("a"), group("a", "g", 60.0)) == []
    assert planned(text, topic("a"), group("a", "g")) == ["~ group a g", "    idle_seconds 0 -> 60"]


def test_a_schedule_is_replaced_as_a_whole():
    text = '[schedules.s]\ntopic = "t"\nevery_seconds = 60'
    before = schedule("s", topic="t", every_seconds=60.0, key=b"k", headers=(("a", b"1"),))
    assert planned(text, before) == ["~ schedule s", "    key k -> none", "    headers a: 1 -> none"]


def test_a_user_loses_the_roles_that_the_file_does_not_name():
    text = '[users.ada]\npublisher = ["orders"]'
    assert planned(text, user("ada", publisher=("orders",), subscriber=("*",), max_topics=3)) == [
        "~ user ada",
        "    max_topics 3 -> none",
        "    subscriber * -> none",
    ]


def test_nothing_is_deleted_unless_it_is_asked_for():
    others = topic("old"), group("orders", "old"), schedule("old"), user("old")
    assert planned("[topics.orders]\ngroups = []\n[schedules]\n[users]", topic("orders"), *others) == []


def test_pruning_deletes_what_the_file_does_not_name():
    others = topic("old"), topic("older"), group("orders", "old"), schedule("old"), user("old")
    text = "[topics.orders]\ngroups = []\n[schedules]\n[users]"
    assert planned(text, topic("orders"), *others, prunes=True, message_counts={"old": 17, "older": 1}) == [
        "- user old",
        "- schedule old",
        "- group orders old",
        "- topic old (17 messages)",
        "- topic older (1 message)",
    ]


@pytest.mark.parametrize("text", ["", "[schedules]", "[users]", "[topics.orders]"])
def test_pruning_leaves_tables_alone_that_the_file_does_not_have(text):
    kinds = {line.split()[1] for line in planned(text, topic("orders"), group("orders", "old"), prunes=True)}
    assert "group" not in kinds
    assert "topic" not in kinds


def test_pruning_keeps_topics_that_the_file_names_in_another_way():
    text = '[topics.a]\n[topics.b]\ndead_letter_topic = "letters"\n[schedules.s]\ntopic = "ticks"\nevery_seconds = 5'
    others = topic("a.dlq"), topic("letters"), topic("ticks"), topic("b.dlq"), topic("c.dead")
    existing = topic("a"), topic("b", dead_letter_topic="letters"), schedule("s", topic="ticks", every_seconds=5.0)
    assert planned(text, *existing, *others, prunes=True) == ["- topic b.dlq", "- topic c.dead"]


def test_pruning_keeps_the_dead_letters_of_a_topic_whose_setting_the_broker_has():
    existing = topic("a", dead_letter_topic="letters"), topic("letters")
    assert planned("[topics.a]", *existing, prunes=True) == []


def test_pruning_keeps_topics_that_miniqueue_uses_itself():
    assert planned("[topics]", topic("miniqueue.copies"), topic("miniqueue"), prunes=True) == ["- topic miniqueue"]


def test_pruning_keeps_the_default_group_and_groups_that_end_by_themselves():
    groups = {**group("a", "default"), **group("a", "visitor"), **group("a", "old")}
    own_end = frozenset({Resource(Kind.GROUP, "visitor", "a")})
    lines = planned("[topics.a]\ngroups = []", topic("a"), groups, prunes=True, own_end=own_end)
    assert lines == ["- group a old"]


@pytest.mark.parametrize(
    ("text", "present", "problem"),
    [
        (
            "partitions = 2",
            {"partitions": 4},
            "topic a: partitions can only be increased; there are 4, the file has 2",
        ),
        ("default_group = false", {}, "topic a: default_group can be false only when the topic is created"),
        (
            "retention_messages = 5",
            {"retention": "forever"},
            "topic a: retention must be consumed where retention_seconds, retention_bytes, or retention_messages is"
            " set",
        ),
    ],
)
def test_impossible_changes_are_reported_before_anything_is_done(text, present, problem):
    with pytest.raises(ConfigError) as caught:
        planned(f"[topics.a]\n{text}", topic("a", **present))
    assert caught.value.problems == [problem]


def test_defaults_that_the_file_names_are_set_in_a_new_topic():
    assert planned('[topics.a]\nretry_delays = []\nlease_seconds = "default"') == [
        "+ topic a",
        "    retry_delays none",
        "    lease_seconds none",
    ]


def test_a_new_topic_may_be_without_the_default_group():
    assert planned("[topics.a]\ndefault_group = false") == ["+ topic a", "    default_group false"]


def test_a_plan_is_counted_and_shown_to_programs():
    changes = plan(parse("[topics.a]\ntrace = true\n[topics.b]"), Existing(topic("a")), prunes=False)
    assert summary(changes) == "1 to create, 1 to change"
    assert summary([]) == "nothing to do"
    assert [member_of(change) for change in changes] == [
        {"act": "change", "kind": "topic", "name": "a", "values": {"trace": {"before": False, "after": True}}},
        {"act": "create", "kind": "topic", "name": "b", "values": {}},
    ]


def test_control_characters_do_not_reach_the_terminal():
    text = '[schedules.s]\ntopic = "t"\nevery_seconds = 5\npayload = "\\u001b[2J"'
    assert "    payload \\x1b[2J" in planned(text)


def test_long_values_are_cut():
    text = f'[schedules.s]\ntopic = "t"\nevery_seconds = 5\npayload = "{"x" * 1000}"'
    assert max(map(len, planned(text))) < 250
