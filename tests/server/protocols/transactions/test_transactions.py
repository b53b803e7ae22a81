"""Transactions, over both protocols: the same acts, the same outcome, the same errors."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from tests.broker.support import world_with
from tests.server.access import sign_in_for
from tests.server.protocols.speakers import RefusedError


async def test_publishes_and_settles_are_one_commit(speaker, world):
    await speaker.publish("t", b"in")
    (held,) = await speaker.receive("t")
    writes_before = len(world.store.batches)
    results = await speaker.transact(
        ("publish", "a", b"one", {}),
        ("publish", "a", b"two", {}),
        ("ack", "t", [held["receipt"]], {}),
        ("publish", "b", b"\x00\xff", {"key": "k", "dedup": "id"}),
    )
    assert results[2:] == [["OK"], "0-0"]
    assert len(world.store.batches) == writes_before + 1
    assert await world.drain(b"a") == [b"one", b"two"]
    assert await world.drain(b"b") == [b"\x00\xff"]
    assert await world.drain(b"t") == []


async def test_with_sync_a_transaction_is_synced_before_it_is_answered(speaker, world):
    await speaker.publish("t", b"in")
    (held,) = await speaker.receive("t")
    for sync in (False, True):
        synced = world.store.sync_count
        await speaker.transact(("publish", "a", b"x", {}), ("nack", "t", [held["receipt"]], {}), sync=sync)
        assert world.store.sync_count == synced + sync
        (held,) = await speaker.receive("t")


@pytest.mark.parametrize(
    ("act", "options"),
    [
        ("nack", {}),
        ("nack", {"delay": 5, "reason": "bad"}),
        ("back", {}),
        ("dack", {"seconds": 5}),
        ("reject", {"reason": "bad"}),
        ("extend", {"seconds": 5}),
    ],
)
async def test_each_way_to_settle(act, options, speaker, world):
    for payload in (b"1", b"2"):
        await speaker.publish("t", payload)
    receipts = [one["receipt"] for one in await speaker.receive("t", count=2)]
    assert await speaker.transact((act, "t", receipts, options)) == [["OK", "OK"]]
    stats = world.broker.stats()[b"t"]
    has_delay = act == "dack" or "delay" in options
    assert (stats.leased, stats.delayed) == (2 if act == "extend" else 0, 2 if has_delay else 0)


@pytest.mark.parametrize(
    ("acts", "error"),
    [
        ([("publish", "a", b"x", {}), ("ack", "t", ["what"], {})], "NOLEASE {} 2 of 2: the receipt belongs to no"),
        ([("publish", "a", b"x", {}), *[("publish", "full", b"x", {})] * 2], "LIMIT {} 3 of 3: the topic holds as"),
        ([("publish", "a", b"1", {"dedup": "i"}), ("publish", "a", b"2", {"dedup": "i"})], "ERR {} 2 of 2: a trans"),
        ([("publish", "a", b"1", {}), ("publish", "closed", b"2", {"key": "k"})], "PAUSED {} 2 of 2: "),
        ([("publish", "formed", b"{}", {}), ("publish", "formed", b"5", {})], "SCHEMA {} 2 of 2: /: the value is not"),
    ],
)
async def test_an_impossible_act_is_named_and_nothing_is_done(acts, error, speaker, world):
    await speaker.create("full", max_messages=1)
    await speaker.create("closed")
    await speaker.create("formed", schema='{"type":"object"}')
    await speaker.ask(*speaker.words_to_pause("closed"))
    with pytest.raises(RefusedError) as refused:
        await speaker.transact(*acts)
    assert str(refused.value).startswith(error.format(speaker.NOUN))
    assert str(refused.value).endswith("; nothing of the transaction was done")
    assert world.broker.topics() == [b"closed", b"formed", b"full"]


async def test_a_duplicate_is_marked_and_the_rest_is_done(speaker, world):
    await speaker.transact(("publish", "a", b"1", {"dedup": "i"}))
    results = await speaker.transact(("publish", "a", b"1", {"dedup": "i"}), ("publish", "a", b"2", {"key": "k"}))
    assert results == ["0-0 again", "0-1"]
    assert await world.drain(b"a") == [b"1", b"2"]


async def test_a_message_replaces_the_one_with_its_unique_key(speaker, world):
    await speaker.publish("a", b"1", unique="u")
    results = await speaker.transact(("publish", "a", b"2", {"unique": "u", "replace": True}))
    assert results == ["0-1"]
    assert await world.drain(b"a") == [b"2"]


async def test_a_failed_commit_is_unknown(speaker, world):
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(RefusedError, match=r"^UNKNOWN "):
        await speaker.transact(("publish", "a", b"1", {}), ("publish", "b", b"2", {}))


@world_with(limits=BrokerLimits(max_transaction_bytes=1_000))
async def test_the_size_is_bounded(speaker, world):
    with pytest.raises(RefusedError, match=r"^LIMIT "):
        await speaker.transact(*[("publish", "a", b"x" * 300, {"key": "k"})] * 3, ("publish", "b", b"x" * 300, {}))
    assert world.broker.topics() == []
    assert world.broker.limit_counts.counts["max-transaction-bytes"] == 1


async def test_too_many_acts(speaker, world):
    with pytest.raises(RefusedError, match=r"LIMIT too many acts in a transaction: 1001; at most 1000"):
        await speaker.transact(*[("publish", "a", b"x", {"key": "k"})] * 1001)
    assert world.broker.topics() == []


async def test_a_right_that_is_missing_in_the_middle_refuses_all(speaker, world):
    speaker = type(speaker)(world, sign_in_for())
    await speaker.become("publisher-of-all")
    await speaker.transact(("publish", "a", b"1", {}), ("publish", "b", b"1", {}))
    with pytest.raises(RefusedError, match=r"^(NOPERM|EXECABORT) "):
        await speaker.transact(("publish", "c", b"1", {}), ("ack", "t", ["r"], {}), ("publish", "c", b"2", {}))
    assert world.broker.topics() == [b"a", b"b"]
