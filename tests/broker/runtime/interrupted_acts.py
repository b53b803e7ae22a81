"""Acts that are interrupted while they wait for the store; what may be answered then, and what must be there after.

    begin the act ─▶ its n-th read or write is held ─▶ interrupt ─▶ let it go on ─▶ the answer, what is stored

Each act is known by three runs: what is there before it, what it answers without an interruption, and what is there
afterwards. With an interruption it either answers the same and has done the same; or it answers UNAVAILABLE and has
done nothing; or it answers that the outcome is open, and has done all, nothing or, of a purge, a part. A redrive may
have done a part whatever error it answers, and says how many messages it moved. A restart must find what memory said.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from miniqueue.broker import Broker
from miniqueue.broker.acts import orders as acts
from miniqueue.broker.acts.requests import parse_task
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.runtime.tasks import BrokenOffError
from miniqueue.broker.transactions.acts import PublishWith, Refused
from miniqueue.core.message.ids import DelayedId, parse_delayed_id
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.filter import Filter
from miniqueue.core.options.publish import NO_OPTIONS, PublishOptions
from miniqueue.core.options.read import ReadOptions
from miniqueue.core.options.start import Edge, FromMessage, FromTime
from miniqueue.core.settings.fields import Side
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors import MiniqueueError, OutcomeUnknownError, StorageError, StoreClosedError, UnavailableError
from miniqueue.storage.memory import MemoryStore
from miniqueue.storage.port import Batch, Position, Room, Writes
from tests.broker.support import World
from tests.fakes import START_MS, FakeConsumer, ManualClock
from tests.loops import LeapingLoop
from tests.tools.test_audit_of_retention import problems_of

T, DEAD, TARGET, OTHER, ASKED = b"t", b"t.dlq", b"target", b"other", b"asked"
#: A second one replaces the first, if the outcome of that was unknown.
REPLACING = PublishOptions(is_replacing=True)


# --- a store whose reads and writes can be held ---------------------------------------------------------------


class Disk(MemoryStore):
    """What all openings of a store share.

    Attributes:
      count: number of reads and writes so far; the one with the number `held` waits for `may_go_on`.
      fails_held: whether that one fails; `fails_write` whether the next write does.
      applies_failed: whether a write that fails is carried out all the same.
      read_fault: what a read raises that fails.
      waits: whether closing waits for what is in progress, as LevelDB does; if not, that continues after a reopening.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = self.held = 0
        self.held_is_write = self.fails_held = self.fails_write = self.applies_failed = False
        self.read_fault: type[MiniqueueError] = StorageError
        self.may_go_on = asyncio.Event()
        self.waits = True

    def hold(self, number: int) -> None:
        """Hold the `number`-th read or write from now on."""
        self.held, self.may_go_on = self.count + number, asyncio.Event()

    @property
    def is_held(self) -> bool:
        return 0 < self.held <= self.count and not self.may_go_on.is_set()

    def pairs(self) -> dict[bytes, bytes]:
        return dict(self._values)


class Opening:
    """A store that has been opened, on a disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._is_closed = self._is_broken = False
        self._under_way: set[asyncio.Task[Any]] = set()
        self._order = asyncio.Lock()

    @property
    def last_change(self) -> int:
        return self._disk.last_change

    async def get(self, key: bytes) -> Any:
        return await self._read(self._disk.get(key))

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> Any:
        return await self._read(self._disk.scan(start, stop, max_items=max_items, max_bytes=max_bytes))

    async def last_of(self, ranges: Any) -> Any:
        return await self._read(self._disk.last_of(ranges))

    async def snapshot(self, *, is_followed: bool = False) -> Any:
        return await self._disk.snapshot(is_followed=is_followed)

    async def writes_after(self, position: Position, max_bytes: int) -> Writes:
        return await self._disk.writes_after(position, max_bytes)

    def write(self, batch: Batch, *, is_synced: bool = False) -> Awaitable[None]:
        return self._begin(self._write(batch))

    async def sync(self) -> None:
        pass

    async def room(self, *, is_full: bool) -> Room:
        return Room(is_enough=True)

    async def reclaim(self, start: bytes, stop: bytes) -> None:
        pass

    async def close(self) -> None:
        if self._disk.waits:
            self._is_closed = True
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def _read(self, reading: Any) -> Any:
        return await asyncio.shield(self._begin(self._read_now(reading)))  # the thread continues if no task waits

    def _begin(self, operation: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(operation)
        self._under_way.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # a task that was cancelled does not retrieve it

    async def _read_now(self, reading: Any) -> Any:
        found = await reading
        if self._is_closed:
            raise StoreClosedError
        if await self._is_failing():
            raise self._disk.read_fault
        return found

    async def _write(self, batch: Batch) -> None:
        async with self._order:
            if self._is_closed or self._is_broken:
                raise StoreClosedError
            disk = self._disk
            is_failing = await self._is_failing(is_write=True)
            is_failing, disk.fails_write = is_failing or disk.fails_write, False
            if not is_failing or disk.applies_failed:
                await disk.write(batch)
            if is_failing:
                self._is_broken = True
                raise StorageError

    async def _is_failing(self, *, is_write: bool = False) -> bool:
        disk = self._disk
        disk.count += 1
        if disk.count != disk.held:
            return False
        disk.held_is_write = is_write
        await disk.may_go_on.wait()
        return disk.fails_held


# --- a world with something of everything in it ---------------------------------------------------------------


class Content(NamedTuple):
    """What a store holds when an act begins."""

    pairs: dict[bytes, bytes]
    time_ms: int
    delayed_id: DelayedId


class HeldWorld(World):
    """A world on a disk; nothing is in memory when it starts."""

    def __init__(self, content: Content | None = None, *, waits: bool = True) -> None:
        super().__init__()
        self.disk = Disk()
        self.disk.waits = waits
        self.interruption: asyncio.Task[Any] | None = None
        if content is not None:
            self.disk._values, self.disk._sorted_keys = dict(content.pairs), sorted(content.pairs)
            self.clock = ManualClock(content.time_ms)
            self.delayed_id = content.delayed_id

    async def start(self) -> Broker:
        async def open_store() -> Opening:
            return Opening(self.disk)

        self.broker = Broker(open_store, clock=self.clock, period_seconds=1e6)
        await self.broker.start()
        await rest()
        return self.broker

    async def fail(self) -> None:
        """Make the store fail, with the write that is held, or with the next one."""
        if self.disk.is_held and self.disk.held_is_write:
            self.disk.fails_held = True
            self.disk.may_go_on.set()
        else:
            self.disk.fails_write = True
            self.broker.publish(OTHER, [b"x"])
        await rest()

    async def drained(self, name: bytes, group: bytes) -> list[bytes]:
        """Take and acknowledge all that a group gets now."""
        consumer = FakeConsumer(self.broker, name, group)
        payloads = await consumer.drain_all()
        consumer.consumer.close()
        assert consumer.errors == []
        return payloads


async def rest() -> None:
    """Run all tasks until they wait for timers; by then, settles are committed."""
    await asyncio.sleep(0.05)


def run_held(body: Callable[[HeldWorld], Awaitable[Any]], content: Content | None = None, *, waits: bool = True) -> Any:
    """Run `body` in a world on a disk, whose timers need no waiting; return what it returns."""

    async def main() -> Any:
        world = HeldWorld(content, waits=waits)
        await world.start()
        try:
            return await asyncio.wait_for(body(world), 10_000)
        finally:
            world.disk.may_go_on.set()
            world.disk.fails_write = False
            await asyncio.wait_for(world.broker.stop(), 10_000)

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(main())


#: Settings of the topic, by a name.
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "kept and traced": {"trace": True, "retention": "forever"},
    "partitions": {"partitions": 3},
}


@cache
def content_of(settings: str) -> Content:
    """Return a store with messages that are ready, came back, are delayed, dead, or have keys; and two groups."""

    async def body(world: HeldWorld) -> Content:
        broker = world.broker
        await broker.admin.create(T, SETTINGS[settings]).wait()
        await broker.groups.create(T, b"g")
        await publish_numbered(world, 0, 3)
        front, delayed = await world.holding(T), await world.holding(T)
        front.consumer.nack()
        delayed.consumer.dack(500)
        for holder in (front, delayed):
            holder.consumer.close()
        await publish_numbered(world, 3, 9)
        await reject(world, 2)
        later = await broker.publish_unique(T, b"later", PublishOptions(unique_key=b"later", delay_seconds=900))
        broker.scheduler.set(b"s", Schedule(b"scheduled", b"now", every_ms=60_000))
        await (await broker.publish_unique(T, b"unique", PublishOptions(unique_key=b"k"))).commit.wait()
        await world.publish(OTHER, b"o")
        await rest()
        return Content(world.disk.pairs(), world.clock.time_ms, parse_delayed_id(later.message_id))

    return run_held(body)


async def publish_numbered(world: HeldWorld, start: int, stop: int) -> None:
    for number in range(start, stop):
        await world.publish(T, b"m%d" % number)
        world.clock.advance(1)


async def reject(world: HeldWorld, count: int) -> None:
    received: list[Any] = []
    world.broker.leases.receive(T, ReceiveOptions(max_count=count), received.append, received.append)
    await rest()
    receipts = [
        received[0].prefix + b"%d" % receipt
        for _, lease in received[0].leases
        for receipt in range(lease.receipt, lease.receipt + lease.count)
    ]
    assert world.broker.leases.reject(T, receipts, b"broken") == [True] * count


# --- acts -----------------------------------------------------------------------------------------------------

Act = Callable[[HeldWorld], Awaitable[Any]]


def payloads_of(seen: Any) -> list[Any]:
    return [(one.stored.payload, one.state) for one in seen]


async def first_use(world: HeldWorld) -> bytes:
    """Create a group by a consumer that waits in it."""
    found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def deliver(leases: list[Any]) -> None:
        if not found.done():
            found.set_result(leases[0].payloads[0])

    def fail(error: MiniqueueError) -> None:
        if not found.done():
            found.set_exception(error)

    consumer = world.broker.consumer(T, deliver, fail, group=b"new")
    try:
        consumer.request()
        return await asyncio.wait_for(found, 100)
    except TimeoutError:
        raise UnavailableError from None
    finally:
        consumer.close()


async def request(world: HeldWorld) -> bytes:
    """Send a request, to which a worker replies."""
    loop = asyncio.get_running_loop()
    reply: asyncio.Future[bytes] = loop.create_future()

    def fail(error: MiniqueueError) -> None:
        if not reply.done():
            reply.set_exception(error)

    def work(_: object) -> None:
        loop.call_soon(world.broker.requests.reply_from_stream, worker, None, b"pong")

    worker = world.broker.consumer(ASKED, work, lambda _: None)
    try:
        worker.request()
        world.broker.requests.request(ASKED, b"ping", NO_OPTIONS, 5.0, reply.set_result, fail)
        return await reply
    finally:
        worker.close()


async def publish_until_confirmed(world: HeldWorld, options: PublishOptions) -> None:
    """Publish with something by which a second one is a duplicate, as a client does that repeats what was refused."""
    for _ in range(10):
        try:
            await (await world.broker.publish_unique(T, b"once", options)).commit.wait()
        except UnavailableError as exc:
            refusal = exc
            await asyncio.sleep(1)
        else:
            return
    raise OutcomeUnknownError from refusal


async def transact_until_confirmed(world: HeldWorld, options: PublishOptions) -> None:
    """Publish to two topics in one transaction, as a client does that repeats what was refused."""
    acts = [
        PublishWith(T, b"once", options),
        PublishWith(OTHER, b"too", PublishOptions(dedup_id=b"one")),
    ]
    for _ in range(10):
        try:
            result = await world.broker.transactions.execute(acts)
            if isinstance(result, Refused):
                raise result.error
            await result.commit.wait()
        except UnavailableError as exc:
            refusal = exc
            await asyncio.sleep(1)
        else:
            return
    raise OutcomeUnknownError from refusal


async def set_schedule(world: HeldWorld) -> None:
    commit, _ = world.broker.scheduler.set(b"another", Schedule(b"scheduled", b"x", every_ms=60_000))
    await commit.wait()


async def redrive_to_target(world: HeldWorld) -> int:
    """Move messages; what ends that early has a note of how many were moved."""
    report = await world.broker.redrive_report(T, target=TARGET)
    if report.error is not None:
        report.error.add_note(f"{report.moved} moved")
        raise report.error
    return report.moved


async def read(world: HeldWorld, options: ReadOptions) -> list[bytes]:
    page = await world.broker.inspect.log.read(T, 0, options)
    return [payload for run in page.runs for payload in run.payloads]


async def stats(world: HeldWorld) -> list[Any]:
    figures = await world.broker.inspect.stats(T)
    return [figures[name] for name in ("depth", "ready", "leased", "delayed", "size_bytes")]


async def schedules(world: HeldWorld) -> list[bytes]:
    return [listed.name for listed in await world.broker.scheduler.page()]


async def found(world: HeldWorld, message_id: Any) -> list[Any]:
    return payloads_of([await world.broker.inspect.find(T, message_id)])


async def peeked(world: HeldWorld, state: State) -> list[Any]:
    return payloads_of(await world.broker.inspect.peek(T, state, 100))


async def traced(world: HeldWorld) -> list[Any]:
    return [str(step.event) for step in await world.broker.trace(T, (0, 0))]


async def searched(world: HeldWorld) -> list[Any]:
    page = await world.broker.inspect.search(T, Filter(contains=b"m"), count=100)
    return payloads_of(page.messages)


async def by_id(
    world: HeldWorld,
    act: acts.MessageAct,
    message_id: Any,
    group: bytes | None = None,
    *,
    topic: bytes = T,
    due_at_ms: int | None = None,
) -> bytes:
    return await world.broker.by_id.act(topic, message_id, acts.Order(act, due_at_ms), group)


async def by_filter(world: HeldWorld, act: acts.MessageAct, **words: bytes) -> int:
    return await world.broker.by_filter.run(parse_task(act, T, words, world.clock.now_ms()))


async def on_dead_letters(world: HeldWorld, act: acts.MessageAct) -> int:
    task = parse_task(act, T, {"state": b"dead"}, world.clock.now_ms())
    await world.broker.by_filter.locate(task, lambda _name: None)
    return await world.broker.by_filter.run(task)


async def begin_task(world: HeldWorld) -> None:
    """Begin a task that does nothing; what tasks do is interrupted by restarts, `tests/broker/acts`."""
    await world.broker.tasks.begin(parse_task(acts.MessageAct.DELETE, T, {"key": b"none"}, world.clock.now_ms()))


async def fire_schedule(world: HeldWorld) -> None:
    await (await world.broker.scheduler.fire(b"s")).commit.wait()


LATER_MS = START_MS + 5_000_000
TIME = FromTime(START_MS + 2500)

PURGES: dict[str, Act] = {
    "purge": lambda world: world.broker.purge(T),
    "purge what is ready": lambda world: world.broker.purge(T, State.READY),
    "purge what is delayed": lambda world: world.broker.purge(T, State.DELAYED),
    "purge of a group": lambda world: world.broker.purge(T, group=b"g"),
    "delete by filter": lambda world: by_filter(world, acts.MessageAct.DELETE),
}
CHANGES: dict[str, Act] = {
    "redrive": lambda world: world.broker.redrive(DEAD),
    "redrive to a target": redrive_to_target,
    "create a group": lambda world: world.broker.groups.create(T, b"h"),
    "create a group that ends": lambda world: world.broker.groups.create(T, b"h", own={"ephemeral_groups": 5.0}),
    "create a group at a time": lambda world: world.broker.groups.create(T, b"h", TIME),
    "create a group at a message": lambda world: world.broker.groups.create(T, b"h", FromMessage(0, 1)),
    "seek to the start": lambda world: world.broker.groups.seek(T, b"g", Edge.EARLIEST),
    "seek to the end": lambda world: world.broker.groups.seek(T, b"g", Edge.LATEST),
    "seek to a time": lambda world: world.broker.groups.seek(T, b"default", TIME),
    "delete a group": lambda world: world.broker.groups.delete(T, b"g"),
    "delete": lambda world: world.broker.delete_topic(T),
    "delete a message of a group": lambda world: by_id(world, acts.MessageAct.DELETE, (0, 5), b"g"),
    "move a message to the front": lambda world: by_id(world, acts.MessageAct.FRONT, (0, 5)),
    "move a returned message to the front": lambda world: by_id(world, acts.MessageAct.FRONT, (0, 1)),
    "make a returned message due": lambda world: by_id(world, acts.MessageAct.DUE, (0, 1)),
    "make a message due later": lambda world: by_id(world, acts.MessageAct.DUE, world.delayed_id, due_at_ms=LATER_MS),
    "delete a delayed message": lambda world: by_id(world, acts.MessageAct.DELETE, world.delayed_id),
    "redrive a message": lambda world: by_id(world, acts.MessageAct.REDRIVE, (0, 0), topic=DEAD),
    "fire a schedule": fire_schedule,
    "begin a task": begin_task,
    "redrive the dead letters of a topic": lambda world: on_dead_letters(world, acts.MessageAct.REDRIVE),
    "first use of a group": first_use,
    "cancel": lambda world: world.broker.delayed.cancel(T, world.delayed_id),
    "request": request,
    "publish with a dedup id": lambda world: publish_until_confirmed(world, PublishOptions(dedup_id=b"one")),
    "publish with a unique key": lambda world: publish_until_confirmed(world, PublishOptions(unique_key=b"u")),
    "replace a message": lambda world: publish_until_confirmed(world, REPLACING._replace(unique_key=b"k")),
    "replace a delayed message": lambda world: publish_until_confirmed(world, REPLACING._replace(unique_key=b"later")),
    "transaction": lambda world: transact_until_confirmed(world, PublishOptions(unique_key=b"u")),
    "transaction that replaces": lambda world: transact_until_confirmed(world, REPLACING._replace(unique_key=b"k")),
    "set a schedule": set_schedule,
    "delete a schedule": lambda world: world.broker.scheduler.delete(b"s").wait(),
}
LOOKS: dict[str, Act] = {
    "read": lambda world: read(world, ReadOptions(max_count=100)),
    "read from a time on": lambda world: read(world, ReadOptions(time_ms=TIME.time_ms, max_count=100)),
    "peek": lambda world: peeked(world, State.READY),
    "search": searched,
    "peek at what is delayed": lambda world: peeked(world, State.DELAYED),
    "peek at dead letters": lambda world: peeked(world, State.DEAD),
    "find": lambda world: found(world, (0, 4)),
    "find what waits": lambda world: found(world, world.delayed_id),
    "trace": traced,
    "stats": stats,
    "schedules": schedules,
    "dry seek": lambda world: world.broker.groups.seek(T, b"g", TIME, is_dry=True),
}
ACTS = PURGES | CHANGES | LOOKS


# --- interruptions --------------------------------------------------------------------------------------------

Interruption = Callable[[HeldWorld, "asyncio.Task[Any]"], Awaitable[None]]


async def fail_and_reopen(world: HeldWorld, _: object) -> None:
    await world.fail()


async def fail_late_and_reopen(world: HeldWorld, _: object) -> None:
    """Make the store fail, but carry the write out."""
    world.disk.applies_failed = True
    await world.fail()


async def recreate(world: HeldWorld, _: object) -> None:
    """Delete the topic, and publish to another of its name."""
    world.interruption = asyncio.ensure_future(world.broker.delete_topic(T))
    await asyncio.sleep(0)
    for number in range(3):
        world.broker.publish(T, [b"n%d" % number])
    await rest()


async def leave(_: HeldWorld, task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await rest()


async def stop(world: HeldWorld, _: object) -> None:
    world.interruption = asyncio.ensure_future(world.broker.stop())
    await rest()


async def fail_read(world: HeldWorld, _: object) -> None:
    world.disk.fails_held = not world.disk.held_is_write


async def seek(world: HeldWorld, _: object) -> None:
    world.interruption = asyncio.ensure_future(world.broker.groups.seek(T, b"g", Edge.EARLIEST))
    await rest()


async def make_anew(world: HeldWorld, _: object) -> None:
    """Delete the group, and make another of its name."""

    async def regroup() -> None:
        await world.broker.groups.delete(T, b"g")
        await world.broker.groups.create(T, b"g")

    world.interruption = asyncio.ensure_future(regroup())
    await rest()


async def pause(world: HeldWorld, _: object) -> None:
    world.broker.admin.pause(T, Side.OUT)


INTERRUPTIONS: dict[str, Interruption] = {
    "the store is reopened": fail_and_reopen,
    "the store is reopened, with what had failed": fail_late_and_reopen,
    "the topic is recreated": recreate,
    "the client leaves": leave,
    "the broker stops": stop,
    "the read fails": fail_read,
}


#: After these it is not known whether what was being written is there.
LATE = {"the store is reopened, with what had failed"}


# --- what is there --------------------------------------------------------------------------------------------


class Stored(NamedTuple):
    """What groups get of topics, what they get later, and which schedules there are."""

    ready: dict[tuple[bytes, bytes], list[bytes]]
    later: dict[tuple[bytes, bytes], list[bytes]]
    schedules: list[bytes]

    def counted(self, topic: bytes) -> dict[bytes, Counter[bytes]]:
        """Return how often each group of a topic gets each payload, now or later."""
        return {
            place[1]: Counter(self.ready[place]) + Counter(self.later[place])
            for place in self.ready
            if place[0] == topic
        }


async def depths(world: HeldWorld) -> dict[tuple[bytes, bytes], tuple[int, int, int]]:
    """Return how many messages are ready, delayed and leased, as memory says."""
    names = [name for name in (T, DEAD, TARGET) if name in world.broker.topics()]
    return {
        (name, one.name): (one.ready, one.delayed, one.leased)
        for name in names
        async for one in world.broker.groups.figures(name)
    }


async def stored(world: HeldWorld) -> Stored:
    """Return what is there after a restart, which must be what was there before."""
    assert (world.broker.refusal, world.broker.faults()) == (None, {})
    world.broker.tick()
    await rest()
    before = await depths(world)
    assert not any(leased for _, _, leased in before.values())
    await world.restart()
    assert await depths(world) == before
    assert problems_of(world.disk.pairs()) == []
    names = await schedules(world)
    ready = {place: await world.drained(*place) for place in before}
    world.clock.advance(2000)
    for _ in range(3):
        world.broker.tick()
        await rest()
    later = {place: await world.drained(*place) for place in before}
    assert world.broker.faults() == {}
    await rest()
    assert problems_of(world.disk.pairs()) == []
    return Stored(ready, later, names)


class Known(NamedTuple):
    """What an act does without an interruption: what was there before and is there afterwards, and its answer.

    The topic may be one that was created again. The act waits for `count` reads and writes.
    """

    before: Stored
    after: Stored
    answer: Any
    count: int
    recreated_before: Stored
    recreated_after: Stored


@cache
def known(act_name: str, settings: str) -> Known:
    """Return what an act does."""
    content, act = content_of(settings), ACTS[act_name]

    async def none(world: HeldWorld) -> Stored:
        return await stored(world)

    async def alone(world: HeldWorld) -> tuple[Any, int, Stored]:
        count = world.disk.count
        answer = await answer_of(asyncio.ensure_future(act(world)))
        await rest()
        count = world.disk.count - count
        return answer, count, await stored(world)

    async def recreated(world: HeldWorld) -> Stored:
        await recreate(world, None)
        return await stored(world)

    async def recreated_first(world: HeldWorld) -> Stored:
        await recreate(world, None)
        await answer_of(asyncio.ensure_future(act(world)))
        await rest()
        return await stored(world)

    answer, count, after = run_held(alone, content)
    return Known(
        run_held(none, content),
        after,
        answer,
        count,
        run_held(recreated, content),
        run_held(recreated_first, content),
    )


async def answer_of(task: "asyncio.Task[Any]") -> Any:
    """Return what an act answers; an error of miniqueue's, or that it was cancelled, is an answer."""
    try:
        return await asyncio.wait_for(asyncio.shield(task), 1000)
    except MiniqueueError as exc:
        return exc
    except asyncio.CancelledError as exc:
        return exc


# --- the judgement --------------------------------------------------------------------------------------------


async def interrupted(world: HeldWorld, act: Act, number: int, interrupt: Interruption) -> Any:
    """Begin an act, interrupt it while its `number`-th read or write is under way, and return its answer."""
    world.disk.hold(number)
    task = asyncio.ensure_future(act(world))
    await rest()
    if not world.disk.is_held:
        world.disk.held = 0
        return await answer_of(task)
    await interrupt(world, task)
    world.disk.may_go_on.set()
    await rest()
    if world.interruption is not None:
        await answer_of(world.interruption)
    if interrupt is stop:
        task.cancel()  # the process ends
    answer = await answer_of(task)
    await rest()
    return answer


def check(act_name: str, interruption_name: str, number: int, settings: str = "plain", *, waits: bool = True) -> None:
    """Interrupt an act while its `number`-th read or write is under way, and judge what becomes of it."""

    async def body(world: HeldWorld) -> None:
        answer = await interrupted(world, ACTS[act_name], number, INTERRUPTIONS[interruption_name])
        if interruption_name == "the broker stops":
            await world.start()
        judge(act_name, interruption_name, known(act_name, settings), answer, await stored(world))

    known(act_name, settings)  # which takes a loop of its own
    try:
        run_held(body, content_of(settings), waits=waits)
    except AssertionError as exc:
        exc.add_note(f"{act_name!r}, {interruption_name!r}, {number}, {settings!r}, {waits=}")
        raise


def judge(act_name: str, interruption_name: str, known: Known, answer: Any, found: Stored) -> None:
    """Say whether an answer is right, and all there that must be."""
    if interruption_name == "the topic is recreated":
        judge_recreated(act_name, known, answer, found)
    elif answer_key(answer) == answer_key(known.answer):
        # A delivery says nothing of its group, which the next use makes if it is not there.
        assert found == known.after or (act_name == "first use of a group" and found == known.before)
    else:
        is_open = isinstance(answer, OutcomeUnknownError | BrokenOffError | asyncio.CancelledError | StorageError)
        may_fail = StorageError if interruption_name in ("the read fails", "the broker stops") else UnavailableError
        assert isinstance(answer, UnavailableError | asyncio.CancelledError | may_fail), repr(answer)
        may_be_part = is_open or act_name == "redrive to a target"
        assert found == known.before or (may_be_part and is_between(act_name, known, found)), repr(answer)
        if isinstance(answer, BrokenOffError) and act_name in PURGES:
            told = re.search(r"at least (\d+)", str(answer))
            assert told is not None
            lost = lost_count(known.before, found)
            assert int(told[1]) == lost or (interruption_name in LATE and int(told[1]) < lost)
        if notes := getattr(answer, "__notes__", []):
            moved = moved_messages(found).total()
            told_count = int(notes[0].split()[0])
            assert told_count == moved or (isinstance(answer, OutcomeUnknownError) and told_count < moved)


def answer_key(answer: Any) -> Any:
    return type(answer) if isinstance(answer, BaseException) else answer


def is_between(act_name: str, known: Known, found: Stored) -> bool:
    """Whether an act has done nothing, all, or a part where it has parts."""
    if found in (known.before, known.after):
        return True
    if act_name == "redrive to a target":
        return is_redriven_in_part(known, found)
    if act_name not in PURGES:
        return False
    before, after, now = (one.counted(T) for one in (known.before, known.after, found))
    return before.keys() == now.keys() and all(after[name] <= now[name] <= before[name] for name in now)


def is_redriven_in_part(known: Known, found: Stored) -> bool:
    """Whether each message is in one of the two topics, once, and only messages to be moved are in the target."""
    moved, now = moved_messages(found), found.counted(T)
    now[DEFAULT_GROUP_NAME] += moved
    is_kept = now == known.before.counted(T) and found.schedules == known.before.schedules
    return is_kept and moved <= moved_messages(known.after)


def moved_messages(found: Stored) -> Counter[bytes]:
    """Return what is in the target of a redrive."""
    return found.counted(TARGET).get(DEFAULT_GROUP_NAME, Counter())


def lost_count(before: Stored, found: Stored) -> int:
    """Return how many messages the group has lost that has lost most."""
    now = found.counted(T)
    return max((counts - now[name]).total() for name, counts in before.counted(T).items())


def judge_recreated(act_name: str, known: Known, answer: Any, found: Stored) -> None:
    """Say whether the new topic is as it was published, or as the act leaves it if it began with the new one."""
    assert isinstance(answer, MiniqueueError) or not isinstance(answer, BaseException), repr(answer)
    now, news = found.counted(T), Counter([b"n0", b"n1", b"n2"])
    is_as_published = bool(now) and all(counts == news for counts in now.values())
    is_of_the_old = act_name in PURGES or act_name == "redrive to a target"
    assert is_as_published or (not is_of_the_old and now == known.recreated_after.counted(T)), repr(answer)
    if act_name in ("read", "peek", "peek at what is delayed") and isinstance(answer, list):
        got, old = ([one if isinstance(one, bytes) else one[0] for one in some] for some in (answer, known.answer))
        assert got in ([*news], old[: len(got)]), got  # those of one of the two


#: An act, an interruption, settings, whether closing waits, and up to which read or write.
Case = tuple[str, str, str, bool, int]


def cases(max_number: int, settings: Iterable[str], waits: Iterable[bool] = (True, False)) -> list[Case]:
    """Return what there is to check, each act up to so many reads and writes."""
    return [(*case, max_number) for case in product(ACTS, INTERRUPTIONS, settings, waits)]


def check_all(case: Case) -> None:
    """Interrupt an act at each of its reads and writes."""
    act, interruption, settings, waits, max_number = case
    for number in range(1, min(known(act, settings).count, max_number) + 1):
        check(act, interruption, number, settings, waits=waits)


def case_id(case: Case) -> str:
    act, interruption, settings, waits, _ = case
    return f"{act}-{interruption}-{settings}-{'waits' if waits else 'goes on'}"
