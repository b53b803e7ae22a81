"""Statistics and positions of groups cost what they touch, not what there is: values that are read are counted."""

from miniqueue.broker.groups.cleanup import MAX_LEFT
from miniqueue.core.options.start import Edge, FromMessage, FromTime
from tests.broker.groups.test_groups import receive
from tests.broker.support import World, run
from tests.fakes import START_MS, settle_down

FEW, MANY = 16, 256


class Reads:
    """Counts the values that a store hands out."""

    def __init__(self, world: World) -> None:
        self.count = 0
        self._scan, self._last_of = world.store.scan, world.store.last_of
        world.store.scan, world.store.last_of = self.scan, self.last_of

    async def scan(self, *args, **options):
        pairs = await self._scan(*args, **options)
        self.count += len(pairs)
        return pairs

    async def last_of(self, ranges):
        pairs = await self._last_of(ranges)
        self.count += len(pairs)
        return pairs

    async def of(self, act) -> int:
        """Return how many values are read for `act`."""
        before = self.count
        await act
        return self.count - before


async def work(world: World, chunk_count: int) -> dict[str, int]:
    """Return what each act reads where three groups are at different places of so many chunks."""
    broker = world.broker
    await broker.admin.create(b"t", {"retention": "forever"}).wait()
    for number in range(chunk_count):
        world.clock.advance(1)
        await world.publish(b"t", b"%d" % number, b"more")
    middle = FromMessage(0, chunk_count + 1)
    starts = {b"start": Edge.EARLIEST, b"middle": middle, b"end": Edge.LATEST}
    for group, start in starts.items():
        await broker.groups.create(b"t", group, start)
    (receipt, _), *_ = await receive(world, b"start", 2)
    broker.leases.ack(b"t", [receipt])
    await world.restart()
    broker, reads = world.broker, Reads(world)
    return {
        "list": await reads.of(anext(broker.groups.figures(b"t"))),
        "stats": await reads.of(broker.inspect.stats(b"t")),
        "dry run": await reads.of(broker.groups.seek(b"t", b"end", middle, is_dry=True)),
        "seek": await reads.of(broker.groups.seek(b"t", b"end", middle)),
        "start": await reads.of(broker.groups.seek(b"t", b"end", Edge.EARLIEST)),
        "create": await reads.of(broker.groups.create(b"t", b"new", Edge.LATEST)),
        "delete": await reads.of(broker.groups.delete(b"t", b"new")),
        "time": await reads.of(broker.groups.seek(b"t", b"end", FromTime(START_MS + chunk_count * 500))),
    }


def test_it_does_not_grow_with_the_log():
    async def few(world):
        done.append(await work(world, FEW))

    async def many(world):
        done.append(await work(world, MANY))

    done: list[dict[str, int]] = []
    run(few)
    run(many)
    few_reads, many_reads = done
    by_time = few_reads.pop("time"), many_reads.pop("time")
    assert many_reads == few_reads
    assert many_reads["list"] == 0
    assert max(many_reads.values()) <= 20
    assert by_time[1] - by_time[0] <= 8  # found by halves: 16 times as many chunks are 4 steps


async def test_what_groups_have_left_is_deleted_one_after_the_other(world):
    """Otherwise a client that seeks repeatedly keeps the store busy, and all other reads wait."""
    world.broker.admin.create(b"t", {"partitions": 8})
    await world.commit()
    waiting = most = 0
    scan = world.store.scan

    async def counted(*args, **options):
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        try:
            return await scan(*args, **options)
        finally:
            waiting -= 1

    world.store.scan = counted
    for _ in range(3 * MAX_LEFT):
        await world.broker.groups.seek(b"t", b"default", Edge.LATEST)
        assert len(world.broker.groups._remains._left) <= MAX_LEFT + 1
    await settle_down()
    assert most <= 2  # a deletion, and a seek
