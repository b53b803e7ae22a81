"""Very many messages that are settled together: in turns, in their order, and interrupted between any two turns."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from miniqueue.broker.leases.settling import ACK, BACK, MAX_ACKED, MAX_REJECTED, MAX_RETURNED, Settling
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.tasks import BrokenOffError
from miniqueue.core.options.settle import PLAIN_NACK, NackOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import InternalError
from tests.broker.leases.test_leases import Asked, T, counts, pass_time, take
from tests.broker.support import World, world_with
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of

COUNT = 2 * MAX_RETURNED + 50
PAYLOADS = [b"%d" % number for number in range(COUNT)]


async def taken(world: World) -> Asked:
    """Publish as many messages as take some turns, and lease them together."""
    await world.publish(T, *PAYLOADS)
    return take(world, COUNT)


async def take_all(world: World) -> Asked:
    """Receive what takes some turns because each message has a lease."""
    asked = Asked(world, max_count=COUNT)
    await settle_down()
    assert asked.is_answered
    return asked


def settle(world: World, asked: Asked, act: Settling) -> Awaitable[list[bool]]:
    return world.broker.leases.settle_in_turns(T, asked.receipts, act)


def nacking(world: World) -> Settling:
    return world.broker.leases.nacking(PLAIN_NACK)


async def begun(world: World, asked: Asked, parts: int) -> "asyncio.Task[list[bool]]":
    """Begin to return messages; stop when so many turns have done their part."""
    task = asyncio.ensure_future(settle(world, asked, nacking(world)))
    await asyncio.sleep(0)
    while counts(world)[0] < parts * MAX_RETURNED:  # noqa: ASYNC110 - each iteration is looked at
        await asyncio.sleep(0)
    assert counts(world)[0] == parts * MAX_RETURNED
    return task


async def payloads(world: World) -> list[bytes]:
    """Lease all that is ready, in memory or not; return the payloads."""
    found: list[bytes] = []
    while counts(world)[0]:
        asked = Asked(world, max_count=COUNT + 1, wait_seconds=5.0)
        await settle_down()
        found += asked.payloads
    return found


async def check(world: World) -> None:
    """Check that what is stored is sound, and that a restart finds what memory said."""
    await settle_down()
    await world.commit()
    assert problems_of(world.store.pairs()) == []
    before = counts(world)
    await world.restart()
    after = counts(world)
    assert (after[0], after[2:]) == (before[0] + before[1], before[2:])


# --- order ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("reason", [b"", b"broken"])
async def test_many_that_are_returned_are_at_the_front_in_the_order_of_their_receipts(reason, restarts, world):
    asked = await taken(world)
    await world.publish(T, b"next")
    receipts = [*asked.receipts[1::2], *asked.receipts[::2]]
    act = world.broker.leases.nacking(NackOptions(None, reason))
    assert await world.broker.leases.settle_in_turns(T, receipts, act) == [True] * COUNT
    if restarts:
        await check(world)
    assert await payloads(world) == [*PAYLOADS[1::2], *PAYLOADS[::2], b"next"]


async def test_each_partition_keeps_the_order_of_its_messages(world):
    await world.broker.admin.create(T, {"partitions": 2}).wait()
    for number in range(COUNT):
        await world.publish(T, b"%d" % number)
    asked = await take_all(world)
    assert await settle(world, asked, nacking(world)) == [True] * COUNT
    again = await take_all(world)
    for parity in (0, 1):
        mine = [payload for payload in asked.payloads if int(payload) % 2 == parity]
        assert [payload for payload in again.payloads if int(payload) % 2 == parity] == mine


async def test_what_others_return_meanwhile_comes_before_them(world):
    await world.publish(T, b"other")
    other = take(world)
    asked = await taken(world)
    task = await begun(world, asked, 1)
    assert world.broker.leases.nack(T, other.receipts) == [True]
    assert take(world, 2).payloads == [b"other", b"0"]
    assert await task == [True] * COUNT
    assert (await take_all(world)).payloads == PAYLOADS[1:]


@pytest.mark.parametrize("way", ["back", "dack", "nack"])
async def test_many_that_wait_elsewhere_keep_their_order_too(way, world):
    asked, leases = await taken(world), world.broker.leases
    acts = {"back": BACK, "dack": leases.dacking(5), "nack": leases.nacking(NackOptions(5.0))}
    assert await settle(world, asked, acts[way]) == [True] * COUNT
    pass_time(world, 6)
    assert (await take_all(world)).payloads == PAYLOADS


async def test_many_dead_letters_keep_their_order(world):
    asked = await taken(world)
    assert len(asked.receipts) > 2 * MAX_REJECTED
    assert await settle(world, asked, world.broker.leases.rejecting(T, b"bad")) == [True] * COUNT
    await world.commit()
    assert await world.drain(b"t.dlq") == PAYLOADS


@world_with(limits=BrokerLimits(max_topics=1))
async def test_many_for_whose_dead_letters_there_is_no_room_are_returned_in_their_order(world):
    asked = await taken(world)
    assert await settle(world, asked, world.broker.leases.rejecting(T, b"bad")) == [True] * COUNT
    assert (await take_all(world)).payloads == PAYLOADS


# --- which are cut --------------------------------------------------------------------------------------------


async def test_many_of_one_lease_are_acknowledged_at_once(world):
    asked = await taken(world)
    assert len(asked.leases) == 1
    assert COUNT > MAX_ACKED
    assert world.broker.leases.settle_if_short(T, asked.receipts, ACK) == [True] * COUNT
    assert counts(world) == (0, 0, 0, COUNT)


async def test_many_leases_are_acknowledged_in_turns(world):
    asked = await taken(world)
    receipts = asked.receipts[::-1]  # each cuts the lease
    assert world.broker.leases.settle_if_short(T, receipts, ACK) is None
    task = asyncio.ensure_future(world.broker.leases.settle_in_turns(T, receipts, ACK))
    while not counts(world)[3]:  # noqa: ASYNC110 - each iteration is looked at
        await asyncio.sleep(0)
    assert counts(world)[3] == MAX_ACKED
    assert await task == [True] * COUNT
    assert counts(world) == (0, 0, 0, COUNT)


async def test_leases_are_extended_in_turns_to_the_same_time(world):
    asked, leases = await taken(world), world.broker.leases
    task = asyncio.ensure_future(leases.settle_in_turns(T, asked.receipts[::-1], leases.extending(100)))
    await asyncio.sleep(0)
    pass_time(world, 29)
    assert await task == [True] * COUNT
    pass_time(world, 70.999)
    assert counts(world) == (0, COUNT, 0, 0)
    pass_time(world, 0.001)
    await settle_down()
    assert counts(world) == (COUNT, 0, 0, 0)


async def test_words_that_are_no_receipts_have_no_effect(world):
    asked = await taken(world)
    words = [*asked.receipts[:MAX_ACKED], *[b"x"] * 2000, *asked.receipts[MAX_ACKED:], asked.receipts[0]]
    results = await world.broker.leases.settle_in_turns(T, words, ACK)
    assert results == [True] * MAX_ACKED + [False] * 2000 + [True] * (COUNT - MAX_ACKED) + [False]
    assert counts(world) == (0, 0, 0, COUNT)


# --- interrupted ----------------------------------------------------------------------------------------------

PARTS = pytest.mark.parametrize("parts", [0, 1, 2])


@PARTS
async def test_if_the_store_is_reopened_the_outcome_is_unknown_and_nothing_is_lost(parts, world):
    asked = await taken(world)
    task = await begun(world, asked, parts)
    world.broker._engine.journal.distrust(InternalError("a bug"))
    with pytest.raises(BrokenOffError):
        await task
    await settle_down()
    while world.broker.refusal is not None:  # noqa: ASYNC110 - until it has been reopened
        await asyncio.sleep(0.01)
    assert sorted(await payloads(world)) == sorted(PAYLOADS)
    await check(world)


@PARTS
async def test_if_the_topic_is_recreated_its_messages_are_not_touched(parts, world):
    asked = await taken(world)
    task = await begun(world, asked, parts)
    deleting = asyncio.ensure_future(world.broker.delete_topic(T))
    await asyncio.sleep(0)
    await world.publish(T, b"new")
    new = take(world)
    await deleting
    results = await task
    assert results == [True] * results.index(False) + [False] * (COUNT - results.index(False))
    assert (results.index(False) >= parts * MAX_RETURNED, counts(world)) == (True, (0, 1, 0, 0))
    assert world.broker.leases.ack(T, new.receipts) == [True]
    await check(world)


@PARTS
@pytest.mark.parametrize("interrupt", ["expire", "seek", "delete"])
async def test_messages_whose_leases_end_meanwhile_are_not_settled(interrupt, parts, world):
    asked = await taken(world)
    await world.broker.groups.create(T, b"other", Edge.LATEST)
    task = await begun(world, asked, parts)
    acts: dict[str, Callable[[], object]] = {
        "expire": lambda: pass_time(world, 30),
        "seek": lambda: world.broker.groups.seek(T, b"default", Edge.EARLIEST),
        "delete": lambda: world.broker.groups.delete(T, b"default"),
    }
    acting = acts[interrupt]()
    if asyncio.iscoroutine(acting):
        await acting
    results = await task
    assert results[: parts * MAX_RETURNED] == [True] * (parts * MAX_RETURNED)
    if interrupt == "expire":
        await settle_down()
        expired_count = (await world.broker.inspect.stats(T))["lease_timeouts"]
        assert expired_count > 0
        assert results.count(True) + expired_count == COUNT
        assert sorted(await payloads(world)) == sorted(PAYLOADS)
    await check(world)


@PARTS
async def test_if_the_caller_leaves_the_others_stay_leased(parts, world):
    asked = await taken(world)
    task = await begun(world, asked, parts)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await settle_down()
    assert counts(world) == (parts * MAX_RETURNED, COUNT - parts * MAX_RETURNED, 0, 0)
    assert await payloads(world) == PAYLOADS[: parts * MAX_RETURNED]
    await check(world)


@PARTS
async def test_if_the_broker_stops_what_was_not_settled_comes_again(parts, world):
    asked = await taken(world)
    task = await begun(world, asked, parts)
    await world.broker.stop()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await world.start()
    assert sorted(await payloads(world)) == sorted(PAYLOADS)
