"""Group commit: everything that arrives while one commit is under way becomes the next one.

    publish ─┐                       ┌─ listeners: OK to every publisher
    publish ─┼─▶ open commit ─write─▶┤
    settle  ─┘                       └─ the new chunks become readable

One commit is under way at a time, and a second one where it is large: it is laid out and handed over while the disk
still has the first. They are written and end in the order in which they began. A publish is waited for, so it starts
the next commit at once; a settle is not, so it may wait `SETTLE_DELAY_SECONDS` for company: one fdatasync then covers
many.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import NamedTuple

import structlog

from miniqueue.errors import InternalError, MiniqueueError, described

log = structlog.get_logger()

SETTLE_DELAY_SECONDS = 0.005

#: How many turns of the loop a commit waits for company. A turn takes a few microseconds when nothing happens, so a
#: lone publisher does not notice; under load it takes in what is just arriving. Four turns against none: a third more
#: messages a second over RESP at pipeline 32, a tenth at pipeline 1, and 15 % less processor time per HTTP publish;
#: eight and sixteen turns brought no more.
GATHER_TURNS = 4
#: Where several wait, for one message each, there are as many turns again, and again whenever somebody came in these,
#: until so much time is over, or as many are there as in the larger of the last two commits. Those who were answered
#: together come back together, but not all in one turn: without this, 50 publishers were in a quarter more commits, and
#: 6 to 12 % fewer a second were answered, on disks that take 60 to 250 us; 12 over HTTP/2 took 5 % more of the loop's
#: time. Who sends many at a time comes back later, and others are read while a commit is under way: not for them.
GATHER_SECONDS = 0.0004
#: With so much in it, a commit waits neither for company nor for the one under way. 50 publishers with 32 KiB each were
#: all in one commit: none of them was read while it was written, and nothing was written while they were read. From
#: 256 KiB on there were more commits, and a message took a fifth more processor time.
LARGE_BYTES = 512 << 10


class Commit:
    """One atomic, durable write, and those who wait for it; `size_bytes` of payloads wait for it.

    `has_many` says whether somebody published many messages at a time.
    """

    __slots__ = ("_listeners", "_waiters", "error", "has_many", "is_done", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        self.is_done = self.has_many = False
        self.error: MiniqueueError | None = None
        self._listeners: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def company_count(self) -> int:
        """How many listen or wait."""
        return len(self._listeners) + len(self._waiters)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when this commit is done; it must not be done yet. What it raises is a bug of its own."""
        self._listeners.append(listener)

    async def wait(self) -> None:
        """Wait until this commit is done; raises its error if it failed."""
        if not self.is_done:
            waiter = asyncio.get_running_loop().create_future()  # an Event, with a future of its own, costs 1.3 µs more
            self._waiters.append(waiter)
            await waiter
        if self.error is not None:
            raise self.error

    def finish(self, error: MiniqueueError | None = None) -> None:
        """Tell everybody who waits; a listener that fails is logged, and keeps nobody else from being told."""
        self.is_done = True
        self.size_bytes = 0
        self.error = error
        for listener in self._listeners:
            try:
                listener()
            except Exception:
                log.exception("who waited for a commit has failed")
        for waiter in self._waiters:
            if not waiter.done():  # cancelled with its task
                waiter.set_result(None)
        self._listeners.clear()
        self._waiters.clear()


class Published(NamedTuple):
    """Where messages went: they are durable when `commit` is done, with consecutive numbers from `first_seq`.

    Their payloads and attributes are `size_bytes` long together.
    """

    commit: Commit
    partition: int
    first_seq: int
    size_bytes: int


class Accepted(NamedTuple):
    """What became of a message that was published with options: it is durable when `commit` is done.

    Attributes:
      commit: that of the message.
      message_id: as `core.message_id` spells it; of a duplicate, that of the first one.
      is_duplicate: whether nothing was added, because there is such a message already.
      size_bytes: of payload and attributes, as far as they wait for the commit.
      message_count: how many there are; `core.message_id.following_ids` knows the ids of all.
    """

    commit: Commit
    message_id: bytes
    is_duplicate: bool = False
    size_bytes: int = 0
    message_count: int = 1


#: Waits until what was begun is written, and finishes its commit; it does not raise.
Ending = Callable[[], Awaitable[None]]


class Committer:
    """Runs one commit after the other while any is wanted.

    Args:
      begin: gathers what there is for the commit it is given, and has it written; returns what ends it. Ends are called
        in the order of the beginnings. It does not raise.
      broken: called when one of these raises all the same: there are no more commits, and nobody must wait for one.
      clock: in seconds; it never goes back.

    Attributes:
      open: takes in what arrives now.
      begun: the last two commits that were begun, the older one first; of each it is known whether it is done.
      large_bytes: see `LARGE_BYTES`.
      prepare: adds something to the next commit, if there is something to wait for; when it sets itself anew, another
        commit follows. None is under way meanwhile. It does not raise.
    """

    def __init__(
        self,
        begin: Callable[[Commit], Ending],
        broken: Callable[[MiniqueueError], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.open = Commit()
        self.begun = _done(), _done()
        self.large_bytes = LARGE_BYTES
        self.prepare: Callable[[], Awaitable[None]] | None = None
        self._begin = begin
        self._broken = broken
        self._clock = clock
        self._wanted = asyncio.Event()
        self._endings: deque[Ending] = deque()
        self._is_large = False  # a turn of the loop is asked for, to begin the open commit
        self._last_counts: tuple[float, float] = (inf, inf)  # of company, in the last two commits
        self._timer: asyncio.TimerHandle | None = None

    def of(self, *, is_next: bool) -> Commit:
        """Return a commit after which all that was given to earlier ones is durable; with `is_next` the next one.

        It is the next one, too, if that has anything to write, such as a settle, so that a confirmed duplicate
        confirms what was settled before it, as any publish does.
        """
        if is_next or self._timer is not None or self._wanted.is_set():
            self.request()
            return self.open
        last = self.begun[1]
        return _done() if last.is_done else last

    @property
    def waiting_bytes(self) -> int:
        """Of payloads that wait for a commit."""
        older, last = self.begun
        return self.open.size_bytes + last.size_bytes + older.size_bytes

    def add(self, size_bytes: int) -> Commit:
        """Have payloads of so many bytes wait for the next commit, which is started as by `request`; return it."""
        self._wanted.set()
        commit = self.open
        commit.size_bytes += size_bytes
        if commit.size_bytes >= self.large_bytes and not self._is_large:
            self._is_large = True  # in another turn: what belongs together is in one commit
            asyncio.get_running_loop().call_soon(self._begin_second)
        return commit

    def request(self) -> None:
        """Start the next commit as soon as the one under way is done."""
        self._wanted.set()

    def request_soon(self) -> None:
        """Start the next commit within `SETTLE_DELAY_SECONDS`."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_DELAY_SECONDS, self.request)

    async def flush(self) -> None:
        """Wait until everything done so far is committed; raises the commit's error if it failed."""
        commit = self.open
        self.request()
        await commit.wait()

    async def run(self) -> None:
        """Commit for ever."""
        try:
            while True:
                await self._commit_next()
        except Exception as exc:
            self._broken(InternalError(described(exc)))
            raise

    async def _commit_next(self) -> None:
        if not self._endings:
            await self._wanted.wait()
            for _ in range(GATHER_TURNS):
                if self.open.size_bytes >= self.large_bytes:
                    break
                await asyncio.sleep(0)
            if not self.open.has_many and self.open.company_count > 1:
                await self._gather_company()
            if self.prepare is not None:
                await self._prepare(self.prepare)
            else:
                self._wanted.clear()
            self._begin_next()
        await self._endings.popleft()()
        if self.open.size_bytes >= self.large_bytes:
            self._begin_second()

    def _begin_next(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        commit, self.open = self.open, Commit()
        self.begun = self.begun[1], commit
        self._last_counts = self._last_counts[1], commit.company_count
        try:
            end = self._begin(commit)
        except Exception as exc:
            self._broken(InternalError(described(exc)))  # at once: nothing may be written behind what is missing now
            end = partial(_fail, exc)  # and here, for a callback of the loop would tell nobody
        self._endings.append(end)

    def _begin_second(self) -> None:
        """Begin the open commit beside the one under way, if it is large, and there is only one."""
        self._is_large = False
        older, last = self.begun
        is_one_under_way = older.is_done and not last.is_done
        if self.open.size_bytes >= self.large_bytes and is_one_under_way and self.prepare is None:
            self._wanted.clear()
            self._begin_next()

    async def _gather_company(self) -> None:
        """Wait as many turns again, and again when somebody came in these; not for long, nor when all are back."""
        count, all_count, ends_at = 1, max(self._last_counts), self._clock() + GATHER_SECONDS
        while count < self.open.company_count < all_count and self._clock() < ends_at:
            count = self.open.company_count
            for _ in range(GATHER_TURNS):
                await asyncio.sleep(0)

    async def _prepare(self, prepare: Callable[[], Awaitable[None]]) -> None:
        self.prepare = None
        await prepare()
        if self.prepare is None:
            self._wanted.clear()


async def _fail(error: Exception) -> None:
    raise error


def _done() -> Commit:
    """Return a commit of nothing."""
    commit = Commit()
    commit.finish()
    return commit
