"""Publishes over HTTP to a spread topic that are repeated after it got more parts."""

import orjson
import pytest

from tests.server.shards.http.fleet import TOPICS

TOPIC = TOPICS[1]
PARTS, MORE = 5, 8
IDS = [f"id{number}" for number in range(10)]


@pytest.fixture
async def grow(fleet):
    async def grow() -> None:
        assert (await fleet.ask("PATCH", f"/topics/{TOPIC}", b'{"spread":%d}' % MORE)).status == 200

    assert (await fleet.ask("PUT", f"/topics/{TOPIC}", b'{"spread":%d}' % PARTS)).status == 201
    return grow


async def count_in(fleet) -> int:
    count: int = (await fleet.ask("GET", f"/topics/{TOPIC}")).json["ready"]
    return count


@pytest.mark.parametrize("query", ["dedup={0}", "key=k&dedup={0}", "unique={0}"])
async def test_messages_that_are_repeated_after_a_growth_are_duplicates(fleet, grow, query):
    async def publish_all(door: int) -> list[tuple[bytes, bytes]]:
        paths = [f"/publish/{TOPIC}?{query.format(each)}" for each in IDS]
        answers = [await fleet.ask("POST", path, b"x", door=door) for path in paths]
        return [(each.headers[b"message-id"], each.headers.get(b"duplicate", b"")) for each in answers]

    first = await publish_all(0)
    await grow()
    for door in range(3):
        assert await publish_all(door) == [(message_id, b"true") for message_id, _ in first]
    assert await count_in(fleet) == len(IDS)


LINES = b"".join(orjson.dumps({"msg": "eA==", "dedup": each}) + b"\n" for each in IDS)
JSON_LINES = (b"content-type", b"application/x-ndjson")


async def test_lines_that_are_repeated_after_a_growth_are_duplicates(fleet, grow):
    first = (await fleet.ask("POST", f"/publish/{TOPIC}", LINES, JSON_LINES)).lines
    await grow()
    for door in range(3):
        again = (await fleet.ask("POST", f"/publish/{TOPIC}", LINES, JSON_LINES, door=door)).lines
        assert again == [{"id": line["id"], "duplicate": True} for line in first]
    assert await count_in(fleet) == len(IDS)


async def test_lines_are_refused_while_a_shard_that_may_know_them_does_not_answer(fleet, grow):
    await grow()
    await fleet.ask("POST", f"/publish/{TOPIC}", LINES, JSON_LINES)  # the shards are known to each other
    fleet.lose(2)
    answers = (await fleet.ask("POST", f"/publish/{TOPIC}", LINES, JSON_LINES)).lines
    assert [answer["code"] for answer in answers] == ["TRYAGAIN"] * len(IDS)
    fleet.find()
    assert await count_in(fleet) == len(IDS)


async def test_a_batch_that_is_repeated_after_a_growth_is_a_duplicate(fleet, grow):
    body = b'{"msg":"eA=="}\n{"msg":"eQ=="}\n'
    path = f"/publish/{TOPIC}?dedup="
    first = [(await fleet.ask("POST", path + each, body, JSON_LINES)).lines for each in IDS]
    await grow()
    again = [(await fleet.ask("POST", path + each, body, JSON_LINES, door=1)).lines for each in IDS]
    assert again == [[{"id": line["id"], "duplicate": True} for line in lines] for lines in first]
    assert await count_in(fleet) == 2 * len(IDS)


def transaction_of(name: str) -> bytes:
    """Return publishes of one key, each of which is recognized by an id."""
    acts = [
        {"publish": TOPIC, "text": "x", "key": name, "dedup": name},
        {"publish": TOPIC, "batch": [{"text": "x", "key": name}, {"text": "y", "key": name}], "dedup": f"{name}-b"},
        {"publish": TOPIC, "text": "x", "key": name, "unique": name},
    ]
    return b"\n".join(map(orjson.dumps, acts))


async def test_a_transaction_that_is_repeated_after_a_growth_is_a_duplicate(fleet, grow):
    first = [(await fleet.ask("POST", "/transactions", transaction_of(each))).lines for each in IDS]
    alone = [b'{"publish":"%b","text":"x","dedup":"%d"}' % (TOPIC.encode(), number) for number in range(10)]
    ids = [(await fleet.ask("POST", "/transactions", each)).json["id"] for each in alone]
    await grow()
    stored = await count_in(fleet)
    for door in range(3):
        again = [(await fleet.ask("POST", "/transactions", transaction_of(each), door=door)).lines for each in IDS]
        assert again == [[line | {"duplicate": True} for line in lines] for lines in first]
        again = [(await fleet.ask("POST", "/transactions", each, door=door)).json for each in alone]
        assert again == [{"id": known, "duplicate": True} for known in ids]
    fleet.lose(2)
    refused = [(await fleet.ask("POST", "/transactions", transaction_of(each))).status for each in IDS]
    assert {200, 503} == {*refused}
    fleet.find()
    assert await count_in(fleet) == stored
