"""One monitoring port shows all shards, whichever process answers."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.asgi.replies import json_reply
from miniqueue.server.shards.http import metrics
from miniqueue.server.shards.http.metrics import merge_metrics
from miniqueue.server.shards.http.scopes import MONITOR
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, fleet_in
from tests.server.shards.http.tunnels import Client, scope_of

SCRAPE = b"""# HELP a One.
# TYPE a gauge
a 1.0
# HELP b_total Two.
# TYPE b_total counter
b_total{topic="x\\"} {y"} 2.0
b_total{topic="a 1"} 3.0
"""


# --- metrics --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn_bytes", [1, 30, 10_000])
async def test_samples_get_the_label_and_families_are_whole(monkeypatch, turn_bytes):
    monkeypatch.setattr(metrics, "TURN_BYTES", turn_bytes)

    merged = await merge_metrics({0: SCRAPE, 2: SCRAPE.replace(b" 2.0", b" 5.0")}, 3)

    assert (
        merged
        == b"""# HELP miniqueue_shard_up Whether a shard answers.
# TYPE miniqueue_shard_up gauge
miniqueue_shard_up{shard="0"} 1
miniqueue_shard_up{shard="1"} 0
miniqueue_shard_up{shard="2"} 1
# HELP a One.
# TYPE a gauge
a{shard="0"} 1.0
a{shard="2"} 1.0
# HELP b_total Two.
# TYPE b_total counter
b_total{shard="0",topic="x\\"} {y"} 2.0
b_total{shard="0",topic="a 1"} 3.0
b_total{shard="2",topic="x\\"} {y"} 5.0
b_total{shard="2",topic="a 1"} 3.0
"""
    )


@pytest.mark.parametrize("path", ["/metrics", "/stats", "/readyz"])
async def test_monitoring_works_while_no_process_has_memory_left(path, fleet):
    for member in fleet.members:
        member.broker.memory.set_limit(1, "-max-memory")
        member.broker.memory.add(Purpose.OTHER, 2)
    assert [(await fleet.look(path, door=door)).status for door in range(COUNT)] == [200] * COUNT


async def test_families_that_only_some_shards_have_are_kept():
    merged = await merge_metrics({0: b"", 1: SCRAPE}, 2)

    assert b'\na{shard="1"} 1.0\n' in merged


@pytest.mark.parametrize("door", range(COUNT))
async def test_each_sample_has_its_shard_once(fleet, door):
    await fleet.publish(*TOPICS)

    scrape = await fleet.look("/metrics", door=door)
    families = {family.name: family for family in text_string_to_metric_families(scrape.body.decode())}

    published = {
        sample.labels["topic"]: sample.labels["shard"] for sample in families["miniqueue_messages_published"].samples
    }
    assert published == {topic: str(shard) for shard, topic in enumerate(TOPICS)}
    seen = [(sample.name, *sorted(sample.labels.items())) for family in families.values() for sample in family.samples]
    assert len(seen) == len(set(seen))
    assert {sample.labels["shard"] for sample in families["miniqueue_topics"].samples} == {"0", "1", "2"}
    assert scrape.headers[b"content-type"].startswith(b"text/plain; version=")


async def test_a_shard_that_does_not_answer_is_down_in_the_metrics_of_the_others(fleet):
    fleet.lose(1)

    scrape = (await fleet.look("/metrics")).body

    assert b'miniqueue_shard_up{shard="1"} 0\n' in scrape
    assert b'miniqueue_topics{shard="2"}' in scrape
    assert b'miniqueue_topics{shard="1"}' not in scrape


# --- statistics -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topics", [[], TOPICS[:1], TOPICS[1:], ['a"b,"topics":{', *TOPICS]])
async def test_statistics_are_those_of_all_topics(fleet, topics):
    await fleet.publish(*topics)

    stats = (await fleet.look("/stats")).json

    assert stats["topics"].keys() == set(topics)
    assert all(topic["published"] == 1 for topic in stats["topics"].values())
    assert [shard["shard"] for shard in stats["shards"]] == [0, 1, 2]
    assert stats["memory"]["used_bytes"] == sum(shard["memory"]["used_bytes"] for shard in stats["shards"])
    assert stats["refusal"] is None


async def test_statistics_need_all_shards(fleet):
    fleet.lose(1)

    assert (await fleet.look("/stats")).code == "TRYAGAIN"


# --- readiness ------------------------------------------------------------------------------------------------


async def test_a_broker_is_ready_when_all_shards_are(fleet):
    assert (await fleet.look("/readyz")).json == {"status": "ok"}


async def test_a_shard_that_does_not_answer_is_a_problem(fleet):
    fleet.lose(1)

    ready = await fleet.look("/readyz")

    assert ready.status == 200
    assert ready.json == {"status": "degraded", "reasons": ["shard 1 does not answer"]}
    assert (await fleet.look("/livez")).status == (await fleet.look("/healthz")).status == 200


async def test_reasons_of_a_shard_say_which_it_is(fleet):
    full = {"status": "degraded", "refused": ["publish"], "reasons": ["The disk is full"]}
    for member in fleet.members[1:]:
        member.serve_also({MONITOR: json_reply(200, full)})

    ready = await fleet.look("/readyz")

    assert ready.json == full | {"reasons": ["shard 1: The disk is full", "shard 2: The disk is full"]}


async def test_a_broker_that_stops_is_not_ready(fleet):
    await fleet.members[2].broker.stop()

    assert (await fleet.look("/readyz")).status == 503


async def test_reasons_are_for_users_who_may_monitor(tmp_path):
    async with fleet_in(tmp_path, sign_in_for(user("eve", monitor=("*",)), user("bob"))) as fleet:
        fleet.lose(1)

        shown = [
            "reasons" in (await fleet.look("/readyz", *headers)).json
            for headers in ([], [bearer("bob")], [bearer("eve")], [(b"authorization", b"Bearer wrong")])
        ]
    assert shown == [False, False, True, False]


def bearer(name: str) -> tuple[bytes, bytes]:
    return (b"authorization", b"Bearer " + token_of(name))


@pytest.mark.parametrize(
    ("lags", "merged"),
    [
        ([(0.5, 7), (2.0, 0), (0.0, 3)], {"lag_seconds": 2.0, "lag_bytes": 10}),
        ([(0.5, 7), (None, 0)], {"lag_seconds": None, "lag_bytes": 7}),
    ],
)
async def test_a_copy_of_all_shards_is_as_far_behind_as_that_of_one(fleet, lags, merged):
    for member, (seconds, size_bytes) in zip(fleet.members, lags, strict=False):
        follower = {"cafe0123": {"lag_seconds": seconds, "lag_bytes": size_bytes}}
        member.serve_also({MONITOR: json_reply(200, {"status": "ok", "followers": follower})})

    assert (await fleet.look("/readyz")).json["followers"] == {"cafe0123": merged}


# --- stores ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shard", range(COUNT))
async def test_the_store_of_each_shard_is_sent(fleet, shard):
    await fleet.publish(*TOPICS)

    backup = await fleet.look(f"/shards/{shard}/backup")

    assert backup.status == 200
    assert [topic.encode() in backup.body for topic in TOPICS] == [number == shard for number in range(COUNT)]


async def test_there_is_no_store_of_all(fleet):
    for path in ("/backup", "/changes"):
        refused = await fleet.look(path)
        assert (refused.status, refused.code) == (400, "CROSSSHARD")
        assert refused.json["shards"] == COUNT
        assert f"/shards/0{path} to /shards/2{path}" in refused.json["error"]
    assert (await fleet.look("/shards/0/changes?follower=x")).status == 400
    for path in ("/shards/3/backup", "/shards/00/backup", "/shards/x/backup", "/shards/0/stats", "/shards/0"):
        assert (await fleet.look(path)).status == 404


async def test_pages_require_the_rights_that_they_require_of_one_process(tmp_path):
    users = user("eve", monitor=("*",)), user("ada", admin=("*",)), user("bob")
    async with fleet_in(tmp_path, sign_in_for(*users)) as fleet:
        codes = {
            path: [(await fleet.look(path, bearer(name))).status for name in ("bob", "eve", "ada")]
            for path in ("/metrics", "/stats", "/shards/1/backup", "/backup", "/changes")
        }
        assert (await fleet.look("/metrics")).status == (await fleet.look("/shards/1/backup")).status == 401

    assert codes == {
        "/metrics": [403, 200, 200],
        "/stats": [403, 200, 200],
        "/shards/1/backup": [403, 403, 200],
        "/backup": [403, 403, 400],
        "/changes": [403, 403, 400],
    }


async def test_names_are_not_for_pages_of_other_hosts(fleet):
    scope = scope_of("GET", "/metrics") | {"headers": [(b"host", b"evil.example")]}
    client = Client(b"")
    await fleet.members[0].monitor_door(scope, client.receive, client.send)

    assert client.status == 403
