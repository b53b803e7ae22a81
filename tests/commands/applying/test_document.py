"""The file of `miniqueue apply`."""

import pytest

from miniqueue.commands.applying.document import parse
from miniqueue.commands.applying.resources import SCHEDULE_DEFAULTS, Kind, Resource
from miniqueue.errors import ConfigError


def problems_of(text):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return caught.value.problems


def test_values_have_one_form_however_they_are_written():
    described = parse(
        """
        [topics.orders]
        partitions = 4
        lease_seconds = "1m30s"
        retry_delays = ["1s", 10, "1m"]
        ttl_seconds = "default"
        paused_in_until_ms = 2096-12-01T08:00:00Z
        """
    )
    assert described.resources == {
        Resource(Kind.TOPIC, "orders"): {
            "partitions": 4,
            "lease_seconds": 90.0,
            "retry_delays": (1.0, 10.0, 60.0),
            "ttl_seconds": 0.0,
            "paused_in_until_ms": 4_005_187_200_000,
        }
    }
    assert described.has_topics
    assert not described.has_schedules
    assert described.topics_with_groups == frozenset()


def test_groups_are_names_or_tables():
    described = parse('[topics.a]\ngroups = ["x", "y"]\n[topics.b.groups.z]\nstart = "latest"\nidle_seconds = "14d"')
    assert described.resources[Resource(Kind.GROUP, "x", "a")] == {}
    assert described.resources[Resource(Kind.GROUP, "z", "b")] == {"start": "latest", "idle_seconds": 1_209_600.0}
    assert described.topics_with_groups == {"a", "b"}
    assert described.names(Kind.TOPIC) == ["a", "b"]


def test_a_topic_without_groups_is_not_one_with_an_empty_list_of_them():
    assert parse("[topics.a]\ngroups = []").topics_with_groups == {"a"}
    assert parse("[topics.a]").topics_with_groups == frozenset()


def test_a_schedule_has_all_its_values():
    described = parse(
        """
        [schedules.report]
        topic = "reports"
        every_seconds = "10m"
        until = 2096-01-01T00:00:00Z
        headers = {kind = "daily"}
        key = {base64 = "/w=="}
        payload = "go"
        """
    )
    assert described.resources[Resource(Kind.SCHEDULE, "report")] == {
        **SCHEDULE_DEFAULTS,
        "topic": "reports",
        "every_seconds": 600.0,
        "until": 3_976_214_400_000,
        "headers": (("kind", b"daily"),),
        "key": b"\xff",
        "payload": b"go",
    }


def test_headers_can_be_pairs_since_names_can_repeat():
    described = parse('[schedules.s]\ntopic = "t"\nevery_seconds = 5\nheaders = [["a", "1"], ["a", "2"]]')
    assert described.resources[Resource(Kind.SCHEDULE, "s")]["headers"] == (("a", b"1"), ("a", b"2"))


def test_a_user_has_every_role_and_quota():
    described = parse('[users.ada]\npublisher = ["orders", "orders.*"]\nmax_topics = 10')
    values = described.resources[Resource(Kind.USER, "ada")]
    assert values["publisher"] == ("orders", "orders.*")
    assert values["admin"] == ()
    assert values["max_topics"] == 10
    assert values["max_bytes"] is None


def test_all_problems_are_reported_with_their_place():
    assert problems_of(
        """
        topic = 1
        [topics.orders]
        partitons = 4
        lease_seconds = -1
        groups = {audit = {starts = "latest", start = 3}}
        [topics."no good"]
        [schedules.report]
        cron = "* * * * *"
        every_seconds = 5
        zone = 7
        """
    ) == [
        "unknown key topic; did you mean topics?",
        "topics.orders: unknown key partitons; did you mean partitions?",
        "topics.orders: invalid lease_seconds; must be a number of seconds, or a duration such as 1h30m,"
        " from 0.001 to 43200",
        "topics.orders.groups.audit: unknown key starts; did you mean start?",
        "topics.orders.groups.audit: invalid start; must be earliest, latest, the id of a message, or a time with an"
        " offset",
        "topics.\"no good\": A topic name is 1 to 255 bytes of UTF-8 without control characters, white space or '/'",
        "schedules.report: invalid zone; must be a time zone such as Europe/Berlin",
        "schedules.report: topic is missing",
        "schedules.report: requires cron or every_seconds, not both",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = ", "no TOML (at end of document)"),
        ("topics = 1", "topics: must be tables [topics.name]"),
        ("[topics]\norders = 1", "topics.orders: must be a table"),
        ("[topics.a]\ngroups = 1", "topics.a.groups: must be tables [topics.a.groups.name]"),
        ("[topics.a]\ngroups = [1]", "topics.a.groups: must be tables [topics.a.groups.name]"),
        ('[topics.a]\ngroups = [".."]', "topics.a.groups.\"..\": invalid name of a group: '..'; "),
        (
            "[topics.a]\nidle_groups = {}",
            "topics.a: idle_groups does not belong here; set idle_seconds of a group in the table"
            " [topics.name.groups.name]",
        ),
        ("[topics.a.groups.g]\nidle_seconds = 0.5", "topics.a.groups.g: invalid idle_seconds; must be 0, never, or a"),
        ('[topics."a\\nb"]', 'topics."a\\nb": A topic name is '),
        ("[topics.a]\ntrace = 1", "topics.a: invalid trace; must be true or false"),
        ("[topics.a]\npaused_in_until_ms = 2096-12-01T08:00:00", "topics.a: invalid paused_in_until_ms; must be ms"),
        ('[users.ada]\nsecret = "x"', "users.ada: secret does not belong here; `miniqueue user passwd` sets it"),
        ('[users.ada]\nadmins = ["*"]', "users.ada: unknown key admins; did you mean admin?"),
        ('[users.ada]\nadmin = ["a b"]', "users.ada: invalid admin; must be a list of patterns of topics"),
        ("[users.ada]\nmax_topics = 0", "users.ada: invalid max_topics; must be a whole number from 1 to 10^15"),
        ('[users."a b"]', "users.\"a b\": user 'a b': a user's name is 1 to 64 letters, digits, and . _ @ -"),
        (
            '[schedules.s]\ntopic = "t"\nevery_seconds = 5\npayload = {base64 = "?"}',
            'schedules.s: invalid payload; must be a text, or bytes as {base64 = "…"}',
        ),
        ('[schedules.s]\ntopic = "t"\nevery_seconds = nan', "schedules.s: invalid every_seconds; must be a number of"),
        ('[schedules.s]\ntopic = "t"\nevery_seconds = true', "schedules.s: invalid every_seconds; must be a number of"),
        ('[schedules.s]\ntopic = "t"\nevery_seconds = 5\nzone = "UTC"', "schedules.s: zone requires cron"),
    ],
)
def test_a_bad_file_is_refused(text, problem):
    [shown] = problems_of(text)
    assert shown.startswith(problem)


def test_a_deep_file_is_refused():
    [shown] = problems_of(f"a = {'[' * 5000}{']' * 5000}")
    assert shown.startswith("no TOML")
