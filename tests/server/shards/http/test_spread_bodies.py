"""Transactions and schedules of spread topics: each act, and each schedule, is carried out by one part."""

import orjson
import pytest

from miniqueue.core.message.parts import part_for, part_name
from tests.server.shards.http.fleet import COUNT, PLACING, TOPICS, Fleet, topic_in
from tests.server.shards.http.test_spread import KEYS, PARTS, TOPIC, receive, spread


@pytest.fixture
async def fleet(fleet: Fleet) -> Fleet:
    await spread(fleet)
    return fleet


def shard_of(key: str) -> int:
    return PLACING.shard_of(part_name(TOPIC.encode(), part_for(key.encode(), PARTS)))


def lines(*acts: dict) -> bytes:
    return b"\n".join(map(orjson.dumps, acts))


def part_of(message_id: str) -> int:
    return int(message_id.split("-", maxsplit=1)[0]) >> 10


@pytest.mark.parametrize("door", range(COUNT))
async def test_a_transaction_is_carried_out_in_the_part_of_its_keys(fleet, door):
    key, beside = KEYS[0], topic_in(shard_of(KEYS[0]), "beside")
    await fleet.ask("POST", f"/publish/{TOPIC}?key={key}", b"first")
    [line] = await receive(fleet)
    answer = await fleet.ask(
        "POST",
        "/transactions",
        lines(
            {"ack": TOPIC, "receipts": [line["receipt"]]},
            {"publish": TOPIC, "text": "second", "key": key},
            {"publish": TOPIC, "batch": ["a", {"text": "b", "key": key}]},
            {"publish": TOPIC, "text": "without a key"},
            {"publish": beside, "text": "beside"},
        ),
        door=door,
    )
    assert answer.status == 200
    acked, second, batch, any_part, other = answer.lines
    assert acked == ["OK"]
    assert {part_of(each) for each in (second["id"], *batch["ids"])} == {part_for(key.encode(), PARTS)}
    assert PLACING.shard_of(part_name(TOPIC.encode(), part_of(any_part["id"]))) == shard_of(key)
    assert other["id"] == "0-0"


async def test_a_transaction_without_keys_is_carried_out_in_one_shard(fleet):
    answer = await fleet.ask("POST", "/transactions", lines(*[{"publish": TOPIC, "text": "x"}] * 10))
    assert answer.status == 200
    numbers = {part_of(line["id"]) for line in answer.lines}
    assert len({PLACING.shard_of(part_name(TOPIC.encode(), number)) for number in numbers}) == 1


async def test_a_transaction_of_several_shards_or_parts_is_refused_by_name(fleet):
    others = [key for key in KEYS if shard_of(key) != shard_of(KEYS[0])]
    for acts in (
        [{"publish": TOPIC, "text": "x", "key": key} for key in (KEYS[0], others[0])],
        [{"publish": TOPIC, "batch": [{"text": "x", "key": key} for key in KEYS]}],
    ):
        refused = await fleet.ask("POST", "/transactions", lines(*acts))
        assert (refused.status, refused.code) == (400, "CROSSSHARD")
        assert TOPIC in refused.json["error"]
    refused = await fleet.ask("POST", "/transactions", lines({"ack": TOPIC, "receipts": ["1-1"]}))
    assert (refused.code, refused.json["act"]) == ("NOLEASE", 1)
    assert await receive(fleet) == []
    named = await fleet.ask("POST", "/transactions", lines({"publish": f"{TOPIC}\x1f1", "text": "x"}))
    assert named.code == "BADTOPIC"


@pytest.mark.parametrize("members", [{"key": KEYS[3]}, {}])
async def test_a_schedule_is_set_in_one_part_and_fires_there(fleet, members):
    body = orjson.dumps({"topic": TOPIC, "every": 60, "text": "now", **members})
    assert (await fleet.ask("PUT", "/schedules/beat", body, door=1)).status == 201
    assert (await fleet.ask("PUT", "/schedules/beat", body, door=2)).status == 200
    assert (await fleet.ask("GET", "/schedules/beat")).json["topic"] == TOPIC
    assert [each["topic"] for each in (await fleet.ask("GET", "/schedules")).json["schedules"]] == [TOPIC]
    fired = await fleet.ask("POST", "/schedules/beat/fire")
    assert part_of(fired.json["id"]) == part_for(members.get("key", "beat").encode(), PARTS)
    assert [line["id"] for line in await receive(fleet)] == [fired.json["id"]]
    assert (await fleet.ask("DELETE", "/schedules/beat")).status == 200
    named = await fleet.ask("PUT", "/schedules/part", orjson.dumps({"topic": f"{TOPIC}\x1f1", "every": 1, "text": ""}))
    assert named.code == "BADTOPIC"


@pytest.mark.parametrize("name", ["to", "t%6F"])
async def test_no_part_is_the_target_of_a_redrive(fleet, name):
    for path in (
        f"/topics/{TOPICS[0]}/redrive",
        f"/topics/{TOPICS[2]}/redrive",
        f"/topics/{TOPIC}.dlq/redrive",
        f"/topics/{TOPIC}/messages/redrive",
        f"/topics/{TOPIC}/messages/0-0/redrive",
    ):
        for topic in (TOPIC, "none"):
            assert (await fleet.ask("POST", f"{path}?{name}={topic}%1F1")).code == "BADTOPIC"
