"""Whatever is done to traced messages, and wherever the process dies: their traces report what happened.

After a crash at any commit, no trace contains an event that did not happen, or that is not in the store. A trace has as
many returns as the message itself counts, and that of a settled message is complete.
"""

import random
from collections import Counter
from typing import NamedTuple

import pytest

from miniqueue.broker.commit import journal as commit
from miniqueue.broker.model.recording import CursorTrace
from miniqueue.core.cursor.recording import Kind
from miniqueue.errors import OutcomeUnknownError
from miniqueue.errors.requests import UnknownMessageError
from tests.broker.dead_letters.test_dead_letters import assert_sound
from tests.broker.leases.test_leases import Asked
from tests.broker.support import World, run
from tests.fakes import settle_down

T, GROUPS = b"t", (b"default", b"g")
STEPS = 60
LEASE_SECONDS = 3.0
SETTLES = {"ack": "acknowledged", "nack": "nacked", "back": "backed", "dack": "dacked"}
#: The counts of a message that is returned, and the events that report them.
COUNTED = {"nacks": "nacked", "backs": "backed", "dacks": "dacked", "timeouts": "timed_out"}


class Done(NamedTuple):
    """Something that was done to a message, when there were so many commits."""

    event: str
    group: bytes
    commit_count: int


class Held(NamedTuple):
    """A message that is leased."""

    group: bytes
    seq: int
    deadline_ms: int


class Walk:
    """Does things at random, and keeps a record of them.

    Attributes:
      done: to each message, in order.
      held: messages by receipt.
    """

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.done: dict[int, list[Done]] = {}
        self.held: dict[bytes, Held] = {}
        self.acts = [self.publish, self.receive, self.receive, self.settle, self.settle, self.pass_time, self.commit]

    async def begin(self) -> None:
        await self.world.broker.admin.create(T, {"trace": True}).wait()
        await self.world.broker.groups.create(T, GROUPS[1])

    async def go_on(self, step_count: int = STEPS) -> None:
        for _ in range(step_count):
            await self.chance.choice(self.acts)()
            await settle_down()

    def note(self, event: str, seq: int, group: bytes = b"", commit_count: int | None = None) -> None:
        count = len(self.world.store.batches) if commit_count is None else commit_count
        self.done.setdefault(seq, []).append(Done(event, group, count))

    async def publish(self) -> None:
        count = self.chance.randint(1, 4)
        published = self.world.broker.publish(T, [b"x"] * count)
        for seq in range(published.first_seq, published.first_seq + count):
            self.note("published", seq)
            self.note("committed", seq)
        await published.commit.wait()

    async def receive(self) -> None:
        group = self.chance.choice(GROUPS)
        commit_count = len(self.world.store.batches)  # there may be more before the answer is here
        asked = await taken(self.world, 3, group)
        seqs = [lease.first_seq + n for lease in asked.leases for n in range(lease.count)]
        deadline_ms = self.world.clock.monotonic_ms + LEASE_SECONDS * 1000
        for receipt, seq in zip(asked.receipts, seqs, strict=True):
            self.held[receipt] = Held(group, seq, deadline_ms)
            self.note("delivered", seq, group, commit_count)

    async def settle(self) -> None:
        if self.held:
            receipts = self.chance.sample(sorted(self.held), self.chance.randint(1, min(3, len(self.held))))
            word = self.chance.choice(["ack", *SETTLES])
            more = [1.0] if word == "dack" else []
            assert all(getattr(self.world.broker.leases, word)(T, receipts, *more))
            for receipt in receipts:
                one = self.held.pop(receipt)
                self.note(SETTLES[word], one.seq, one.group)

    async def pass_time(self) -> None:
        self.world.clock.advance(self.chance.choice((0.1, 1.0)))
        over = [key for key, one in self.held.items() if one.deadline_ms <= self.world.clock.monotonic_ms]
        for receipt in over:
            one = self.held.pop(receipt)
            self.note("timed_out", one.seq, one.group)
        self.world.broker.tick()

    async def commit(self) -> None:
        await self.world.commit()


async def taken(world: World, count: int, group: bytes) -> Asked:
    """Receive what is there now, which may be nothing."""
    asked = Asked(world, T, max_count=count, group=group, lease_seconds=LEASE_SECONDS)
    await settle_down()
    asked.receiving.give_up()
    return asked


async def told(world: World) -> dict[int, list[tuple[str, bytes]]]:
    """Return the traces of all messages, each event with its group."""
    traces = {}
    for seq in range(world.broker._engine.topics.by_name[T].partitions[0].next_seq):
        try:
            traces[seq] = [(step.event, step.group) for step in await world.broker.trace(T, (0, seq))]
        except UnknownMessageError:
            traces[seq] = []
    return traces


async def returns(world: World) -> dict[tuple[bytes, int], Counter[str]]:
    """Return how often each message that is left has come back, in each group, by taking all."""
    world.clock.advance(3600)
    world.broker.tick()
    await settle_down()
    found = {}
    for group in GROUPS:
        leases = (await taken(world, 1000, group)).leases
        while more := (await taken(world, 1000, group)).leases:
            leases += more
        for lease in leases:
            counts = {event: getattr(lease.counts, cause) for cause, event in COUNTED.items()}
            found |= {(group, lease.first_seq + n): Counter(counts) for n in range(lease.count)}
    return found


def is_within(told: list[str], done: list[str]) -> bool:
    """Whether all reported events happened, in this order."""
    rest = iter(done)
    return all(one in rest for one in told)


async def check(store, done: dict[int, list[Done]], *, is_whole: bool) -> None:
    """Start on a store, and compare the traces with what was done; `is_whole`: no process died before."""
    world = World()
    world.store, commit_count = store, len(store.batches)
    await world.start()
    try:
        traces, left = await told(world), await returns(world)
        assert_sound(world.store)
    finally:
        await world.broker.stop()
    for seq, trace in traces.items():
        stored = [(one.event, one.group) for one in done[seq] if one.commit_count < commit_count]
        for group in GROUPS:
            of_group = [event for event, whose in trace if whose == group]
            done_in_group = [event for event, whose in stored if whose == group]
            assert is_within(of_group, done_in_group), f"the trace of message {seq} has {trace}, but done was {stored}"
            if (group, seq) in left:
                counted = +Counter(event for event in of_group if event in COUNTED.values())
                assert counted == +left[group, seq], f"message {seq} has come back as {left[group, seq]}: {trace}"
            else:
                assert of_group[-2:] == ["delivered", "acknowledged"], f"message {seq} is done with: {trace}"
                is_all = of_group == done_in_group
                assert is_all or not is_whole, f"message {seq} lacks something: {trace}, not {stored}"
        assert [event for event, _ in trace[:2]] == ["published", "committed"], (
            f"message {seq} has no beginning: {trace}"
        )


@pytest.fixture(autouse=True)
def no_commit_by_the_clock(monkeypatch):
    """Which acts a commit has would depend on the machine."""
    monkeypatch.setattr(commit, "SETTLE_DELAY_SECONDS", 3600)


async def walk_and_check(world: World, seed: int) -> None:
    walk = Walk(world, seed)
    await walk.begin()
    await walk.go_on()
    for commit_count in range(3, len(world.store.batches) + 1, 2):
        await check(await world.store.as_of(commit_count), walk.done, is_whole=True)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_told_after_a_death_behind_any_commit_is_what_was_done(seed):
    run(lambda world: walk_and_check(world, seed))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_applied", [False, True])
async def test_what_is_told_after_faults_of_the_store_is_what_was_done(seed, is_applied, world):
    walk = Walk(world, seed)
    await walk.begin()
    for _ in range(5):
        await walk.go_on(12)
        world.store.applies_failed = is_applied
        world.store.fail_writes = {world.store.write_count + 1}
        try:
            await walk.publish()
        except OutcomeUnknownError:
            await settle_down()
        world.store.fail_writes = set()
        walk.held.clear()  # leases are forgotten
        for seq, done in walk.done.items():
            walk.done[seq] = [one for one in done if one.commit_count < len(world.store.batches)]
        walk.done = {seq: done for seq, done in walk.done.items() if done}
    await world.commit()
    await check(await world.store.as_of(len(world.store.batches)), walk.done, is_whole=False)


def lying(self, _cursor, kind, lease, reason=b"") -> None:
    """Note another end than there was."""
    self._trace.is_urgent = True
    kind = Kind.ACKNOWLEDGED if kind is Kind.NACKED else kind
    self._rows.append((kind, lease.first_seq, lease.count, self._now_ms(), self._group, reason, 0))


def late(self, _cursor, kind, lease, reason=b"") -> None:
    """Make settles wait for a commit, as publishes do."""
    self._rows.append((kind, lease.first_seq, lease.count, self._now_ms(), self._group, reason, 0))


@pytest.mark.parametrize(("bug", "said"), [(lying, "the trace of|come back"), (late, "come back|done with")])
def test_a_trace_that_lies_or_comes_late_is_found(bug, said, monkeypatch):
    monkeypatch.setattr(CursorTrace, "note", bug)
    with pytest.raises(AssertionError, match=said):
        run(lambda world: walk_and_check(world, 0))
