"""A plan that is carried out on a real broker."""

from miniqueue.commands.applying.carrying_out import carry_out
from miniqueue.commands.applying.document import parse
from miniqueue.commands.applying.export import render
from miniqueue.commands.applying.plan import plan
from miniqueue.commands.applying.reading import read_existing
from miniqueue.commands.applying.resources import Described
from miniqueue_client import Client
from tests.client.broker import RespBroker


def apply(client, text, *, prunes=False):
    """Apply a file; return the words of the changes."""
    described = parse(text)
    changes = plan(described, read_existing(client, described, everything=prunes), prunes=prunes)
    for change in changes:
        carry_out(client, change, described.resources)
    return [f"{change.act} {change.resource}" for change in changes]


def exported(client):
    return render(read_existing(client, Described({}, True, True), everything=True))


FILE = """
[topics.orders]
partitions = 4
retry_delays = ["1s", "10s"]
schema = '{"type": "object"}'
owner = "ada"
paused_out_until_ms = 2096-12-01T08:00:00Z

[topics.orders.groups.audit]
start = "latest"
idle_seconds = "14d"
[topics.orders.groups.billing]

[topics."Bücher;{}"]
max_rate = 0.5
trace = true

[schedules.report]
topic = "reports"
cron = "0 9 * * MON-FRI"
zone = "Europe/Berlin"
missed = "one"
until = 2096-01-01T00:00:00Z
key = {base64 = "/w=="}
headers = [["a", "1"], ["a", {base64 = "/g=="}]]
priority = "high"
ttl_seconds = "5m"
payload = "say \\"go\\"\\u007f"

[schedules.tick]
topic = "ticks"
every_seconds = "1h30m"
"""


def test_a_file_is_applied_once(client):
    assert len(apply(client, FILE)) == 6
    assert apply(client, FILE) == []
    assert apply(client, FILE, prunes=True) == []
    assert client.topic_settings("orders")["retry_delays"] == "1,10"
    assert {group.name: group.idle_seconds for group in client.groups("orders")} == {
        "default": 0.0,
        "audit": 1_209_600.0,
        "billing": 0.0,
    }


def test_an_export_describes_the_broker_and_recreates_it(client):
    apply(client, FILE)
    text = exported(client)
    assert apply(client, text, prunes=True) == []
    apply(client, "[topics]\n[schedules]", prunes=True)
    assert client.topics() == []
    assert client.schedules() == []
    apply(client, text)
    assert exported(client) == text


def test_an_export_leaves_out_topics_that_miniqueue_uses_itself(client):
    client.create_topic("miniqueue.copies")
    assert "copies" not in exported(client)


def test_an_export_can_be_read_by_people(client):
    apply(client, FILE)
    assert (
        exported(client)
        == """\
# Topics, groups, and schedules of a miniqueue broker; `miniqueue apply -f` reads this file.

[topics."Bücher;{}"]
max_rate = 0.5
trace = true

[topics.orders]
retry_delays = [1, 10]
schema = "{\\"type\\":\\"object\\"}"
partitions = 4
[topics.orders.groups.audit]
idle_seconds = 1209600
[topics.orders.groups.billing]

[schedules.report]
topic = "reports"
cron = "0 9 * * MON-FRI"
zone = "Europe/Berlin"
missed = "one"
until = 2096-01-01T00:00:00+00:00
priority = "high"
key = {base64 = "/w=="}
ttl_seconds = 300
headers = [["a", "1"], ["a", {base64 = "/g=="}]]
payload = "say \\"go\\"\\u007F"

[schedules.tick]
topic = "ticks"
every_seconds = 5400
"""
    )


def test_values_change_and_return_to_their_defaults(client):
    apply(client, FILE)
    text = """
    [topics.orders]
    retry_delays = "default"
    paused_out_until_ms = 0
    [topics.orders.groups.audit]
    idle_seconds = 0
    [topics.orders.groups.billing]
    idle_seconds = "2d"
    [schedules.tick]
    topic = "ticks"
    every_seconds = 60
    """
    assert apply(client, text) == [
        "change topic orders",
        "change group orders audit",
        "change group orders billing",
        "change schedule tick",
    ]
    assert apply(client, text) == []
    assert client.topic_settings("orders")["idle_groups"] == "billing 172800"
    assert client.topic_settings("orders")["retry_delays"] == "default"
    assert client.find_schedule("tick").every_seconds == 60.0


def test_a_file_is_applied_once_to_a_broker_with_other_defaults_of_new_topics(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text('[defaults]\nretry_delays = ["1s"]\nlease_seconds = 50\nmax_deliveries = 3\n')
    broker = RespBroker(tmp_path, "-storage", "memory", "-config", str(config))
    try:
        with Client(broker.url) as client:
            text = '[topics.a]\nretry_delays = []\nlease_seconds = "default"\nmax_deliveries = 0\n'
            assert apply(client, text) == ["create topic a"]
            assert apply(client, text) == []
    finally:
        broker.end()


def test_the_last_time_of_a_group_is_removed(client):
    apply(client, '[topics.a.groups.g]\nidle_seconds = "1d"')
    apply(client, "[topics.a.groups.g]\nidle_seconds = 0")
    assert client.topic_settings("a")["idle_groups"] == "default"


def test_pruning_deletes_topics_groups_and_schedules(client):
    apply(client, FILE)
    client.publish("old", b"x")
    assert apply(client, '[topics.orders]\ngroups = ["billing"]\n[schedules]', prunes=True) == [
        "delete schedule report",
        "delete schedule tick",
        "delete group orders audit",
        "delete topic Bücher;{}",
        "delete topic old",
    ]


def test_more_schedules_and_topics_than_a_page(client):
    text = "\n".join(f'[topics.t{n}]\n[schedules.s{n}]\ntopic = "t"\nevery_seconds = 60' for n in range(1100))
    assert len(apply(client, text)) == 2200
    assert apply(client, text) == []
    assert len(apply(client, "[topics]\n[schedules]", prunes=True)) == 2200
