"""Messages that come back together keep the order that they had, wherever they go: that of the act, or of handing out.

They are of different commits, and some of them came back before: those wait longer, or are dead letters.
"""

import pytest

from miniqueue.broker.leases.receive import ReceiveRequest
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.options.consume import ReceiveOptions
from tests.broker.consume.test_members import Reader, wait_for_move
from tests.broker.support import World, started_world
from tests.fakes import settle_down

T, DEAD = b"t", b"t.dlq"
AGAIN = b"ac"  # came back before
NAMED = b"dcbae"  # the order in which an act names them
SETTINGS = {
    "plain": {},
    "delays": {"retry_delays": [5, 60]},
    "even delays": {"retry_delays": [5]},
    "growing delays": {"retry_min_seconds": 5},
    "few deliveries": {"max_deliveries": 2},
    "one delivery": {"max_deliveries": 1},
    "few deliveries and delays": {"max_deliveries": 2, "retry_delays": [5]},
    "by key": {"fair": True},
    "by key, and delays": {"fair": True, "retry_delays": [5, 60]},
}
FAILURES = ("nack", "lease over", "reject")
NO_ROOM = BrokerLimits(max_topics=1)


class Stream:
    """Holds all there is, and asks for no more."""

    def __init__(self, world: World) -> None:
        self.leases: list = []
        stats = world.broker.stats()[T]
        prefetch = stats.ready + stats.delayed
        self.consumer = world.broker.consumer(T, self.leases.extend, self.leases.append, prefetch)
        self.consumer.request()

    @property
    def receipts(self) -> dict[int, int]:
        """Receipts by message, in the order of handing out."""
        return {payload[0]: lease.receipt + n for lease in self.leases for n, payload in enumerate(lease.payloads)}


async def having(world: World, settings: dict) -> None:
    """Publish a to e; some have come back once."""
    await world.broker.admin.create(T, {"max_deliveries": 0} | settings).wait()
    await world.publish(T, *(b"%c" % one for one in AGAIN))
    stream = Stream(world)
    for receipt in stream.receipts.values():
        stream.consumer.nack([receipt])
    stream.consumer.close()
    await world.publish(T, b"b", b"d")
    await world.publish(T, b"e")
    pass_time(world, 3600)


def pass_time(world: World, seconds: float) -> None:
    world.clock.advance(seconds)
    world.broker.tick()


def in_a_stream(act):
    async def give_back(world: World) -> bytes:
        stream = Stream(world)
        act(stream.consumer, [stream.receipts[one] for one in NAMED if one in stream.receipts])
        stream.consumer.close()
        return NAMED

    return give_back


async def stream_ends(world: World) -> bytes:
    stream = Stream(world)
    stream.consumer.close()
    return bytes(stream.receipts)


def receive(world: World, **options: object) -> tuple[ReceiveRequest, dict[int, bytes]]:
    """Hold all there is; return receipts by message, in the order of handing out."""
    answers: list = []
    asked = ReceiveOptions(10, **({"lease_seconds": 1} | options))
    receiving = world.broker.leases.receive(T, asked, answers.append, answers.append)
    return receiving, {
        payload[0]: b"%b%d" % (answers[0].prefix, lease.receipt + n)
        for _, lease in answers[0].leases
        for n, payload in enumerate(lease.payloads)
    }


def by_receipt(act):
    async def give_back(world: World) -> bytes:
        _, receipts = receive(world)
        assert all(act(world.broker.leases, [receipts[one] for one in NAMED if one in receipts]))
        return NAMED

    return give_back


async def lease_over(world: World) -> bytes:
    _, receipts = receive(world)
    pass_time(world, 1)
    return bytes(receipts)


async def taken_back(world: World) -> bytes:
    receiving, receipts = receive(world)
    receiving.take_back()
    return bytes(receipts)


WAYS = {
    "nack in a stream": in_a_stream(lambda consumer, receipts: consumer.nack(receipts)),
    "back in a stream": in_a_stream(lambda consumer, receipts: consumer.back(receipts)),
    "dack in a stream": in_a_stream(lambda consumer, receipts: consumer.dack(1, receipts)),
    "stream ends": stream_ends,
    "nack by receipt": by_receipt(lambda leasing, receipts: leasing.nack(T, receipts)),
    "back by receipt": by_receipt(lambda leasing, receipts: leasing.back(T, receipts)),
    "dack by receipt": by_receipt(lambda leasing, receipts: leasing.dack(T, receipts, 1)),
    "reject by receipt": by_receipt(lambda leasing, receipts: leasing.reject(T, receipts, b"bad")),
    "lease over": lease_over,
    "taken back": taken_back,
}


def expected(way: str, settings: dict, order: bytes, *, has_room: bool) -> tuple[list[int], list[int]]:
    """Return what comes again, and what dies, each in its order."""
    max_deliveries = settings.get("max_deliveries", 0)
    dead: list[int] = []
    if has_room:
        is_old = {one: max_deliveries and 1 + (one in AGAIN) >= max_deliveries for one in order}
        dead = [one for one in order if is_old[one] or way.startswith("reject")]
    left = [one for one in order if one not in dead]
    delays = settings.get("retry_delays", [5])
    if way.startswith(FAILURES) and (len(delays) > 1 or "retry_min_seconds" in settings):
        left.sort(key=AGAIN.__contains__)  # what came back before waits longer
    return left, dead


@pytest.mark.parametrize("limits", [None, NO_ROOM], ids=["with room", "without room"])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("way", WAYS)
async def test_what_comes_back_together_keeps_its_order(way, settings, limits):
    async with started_world(limits=limits) as world:
        await having(world, SETTINGS[settings])
        early_dead = await world.drain(DEAD) if DEAD in world.broker.topics() else []
        there = [one for one in NAMED if b"%c" % one not in early_dead]
        order = bytes(one for one in await WAYS[way](world) if one in there)
        assert sorted(order) == sorted(there)
        await world.commit()
        pass_time(world, 3600)
        again, dead = expected(way, SETTINGS[settings], order, has_room=limits is None)
        assert b"".join(await world.drain(T)) == bytes(again)
        assert b"".join(await world.drain(DEAD)) == bytes(dead)


@pytest.mark.parametrize("settings", SETTINGS)
async def test_what_moves_with_its_partition_keeps_its_order(settings, world):
    await having(world, {"session_seconds": 3, "handover_seconds": 1} | SETTINGS[settings])
    early_dead = await world.drain(DEAD) if DEAD in world.broker.topics() else []
    _, receipts = receive(world, member=b"a", lease_seconds=3600)
    pass_time(world, 3)
    reader = Reader(world, b"b", prefetch=10)
    assert reader.payloads == []
    pass_time(world, 1)
    await wait_for_move()
    pass_time(world, 100)
    await settle_down()
    again, dead = expected("lease over", SETTINGS[settings], bytes(receipts), has_room=True)
    assert len(again) + len(dead) + len(early_dead) == len(NAMED)
    assert b"".join(reader.payloads) == bytes(again)
    assert b"".join(await world.drain(DEAD)) == bytes(dead)


async def test_it_does_after_a_restart(world):
    await having(world, {"retry_delays": [5]})
    order = await WAYS["nack in a stream"](world)
    await world.restart()
    pass_time(world, 5)
    assert b"".join(await world.drain(T)) == order
