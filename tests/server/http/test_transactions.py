"""What transactions have over HTTP only: `?sync=` for all acts, and batches in one line."""

import asyncio

import orjson
import pytest

from miniqueue.broker.transactions.transactions import MAX_ITEMS
from miniqueue.server.http.transactions import TURN_MESSAGES
from tests.broker.support import world_with
from tests.server.protocols.speakers import HttpSpeaker, RefusedError


@pytest.fixture
def http(world):
    return HttpSpeaker(world)


async def transact(http, *acts, **query):
    _, reply = await http.ask("POST", "/transactions", b"\n".join(map(orjson.dumps, acts)), **query)
    return list(map(orjson.loads, reply.splitlines()))


@pytest.mark.parametrize("sync", [True, False])
async def test_publishes_alone_are_synced_too(sync, http, world):
    synced = world.store.sync_count
    assert await transact(http, {"publish": "a", "text": "x"}, sync=sync) == [{"id": "0-0"}]
    assert world.store.sync_count == synced + sync


async def test_a_batch_is_one_act_with_one_dedup_id(http, world):
    await http.create("b", partitions=2)
    messages = ["one", {"text": "two"}, {"msg": "AP8=", "key": "k", "ttl": 60, "headers": {"h": "v"}}]
    acts = [
        {"publish": "a", "batch": messages, "dedup": "7f"},
        {"publish": "a", "text": "four"},
        {"publish": "b", "batch": ["x", {"text": "y", "key": "k"}]},
    ]
    first, second, third = await transact(http, *acts)
    assert (first, second) == ({"ids": ["0-0", "0-1", "0-2"]}, {"id": "0-3"})
    assert len(third["ids"]) == 2
    assert await transact(http, acts[0]) == [{"ids": ["0-0", "0-1", "0-2"], "duplicate": True}]
    *_, described, _ = await http.peek("a")
    assert (described["msg"], described["key"], described["headers"]) == (b"\x00\xff", "k", [["h", "v"]])
    assert await world.drain(b"a") == [b"one", b"two", b"\x00\xff", b"four"]
    assert sorted(await world.drain(b"b")) == [b"x", b"y"]


async def test_an_act_after_a_batch_is_named_by_the_number_of_its_line(http, world):
    await http.create("full", max_messages=2)
    batch = {"publish": "a", "batch": ["x"] * 5}
    for act, number in (
        ({"ack": "t", "receipts": ["none-1"]}, 3),
        ({"publish": "full", "batch": ["x"] * 3}, 3),
        ({"publish": "a", "batch": ["y", "x" * (1 << 20) + "x"]}, 3),
    ):
        with pytest.raises(RefusedError, match=f" act {number} of 3: "):
            await transact(http, batch, {"publish": "b", "text": "x"}, act)
    assert world.broker.topics() == [b"full"]


@pytest.mark.parametrize(
    "act",
    [
        {"batch": []},
        {"batch": ["x"] * (MAX_ITEMS + 1)},
        {"batch": "x"},
        {"batch": [1]},
        {"batch": [{}]},
        {"batch": [{"msg": "", "text": ""}]},
        {"batch": [{"msg": "no base64"}]},
        {"batch": [{"text": "x", "delay": 5}]},
        {"batch": [{"text": "x", "nothing": 5}]},
        {"batch": ["x"], "text": "x"},
        {"batch": ["x"], "key": "k"},
        {"batch": ["x"], "dedup": 7},
        {"batch": ["x"], "dedup": "x" * 3000},
    ],
    ids=lambda act: str(act)[:60],
)
async def test_a_batch_that_is_wrong_is_refused(act, http, world):
    with pytest.raises(RefusedError, match=" act 2 of 2: "):
        await transact(http, {"publish": "a", "text": "x"}, {"publish": "a", **act})
    assert world.broker.topics() == []


@pytest.mark.parametrize("query", [{"sync": "perhaps"}, {"synced": "true"}])
async def test_other_parameters_are_refused(query, http, world):
    with pytest.raises(RefusedError):
        await transact(http, {"publish": "a", "text": "x"}, **query)
    assert world.broker.topics() == []


async def test_empty_lines_count_before_they_are_read(http):
    """A body of 16 MiB of them would become a list of 128 MB."""
    with pytest.raises(RefusedError, match="LIMIT too many lines in a transaction: 10001; at most 10000"):
        await http.ask("POST", "/transactions", b"\n" * (MAX_ITEMS + 1))


@world_with(max_message_bytes=100)
async def test_a_line_is_no_longer_than_one_of_a_publish(http, world):
    """One line of 16 MiB would be decoded in one event-loop iteration."""
    longest = {"publish": "a", "batch": ["x" * 90] * 10}
    await transact(http, {"publish": "a", "text": "x"}, longest)
    with pytest.raises(RefusedError, match=r"BADLINE act 2 of 2: the line has 1\d{3} bytes; at most 1224"):
        await transact(http, {"publish": "a", "text": "x"}, {"publish": "a", "batch": ["x" * 90] * 14})
    assert len(await world.drain(b"a")) == 11


@pytest.mark.parametrize("is_batch", [True, False])
async def test_many_messages_are_decoded_in_turns(is_batch, http, world):
    """Each of 10,000 messages with options takes hundreds of instructions."""
    loop, turns = asyncio.get_running_loop(), []

    def count() -> None:
        turns.append(loop.call_soon(count))

    count()
    messages = [{"text": "x", "key": f"k{number}"} for number in range(500)]
    messages = messages if is_batch else messages[:300]
    acts = [{"publish": "a", "batch": messages}] if is_batch else [{"publish": "a"} | each for each in messages]
    await transact(http, *acts)
    turns[-1].cancel()
    assert len(turns) > len(messages) // TURN_MESSAGES
    assert len(await world.drain(b"a")) == len(messages)
