"""The journal: writes the changes of topics to the store in group commits, and reopens the store after a fault.

    publish ─┐                                ┌─ listeners: OK to every publisher
    publish ─┼─▶ open commit ─▶ Store.write ─▶┤
    settle  ─┘                     │          └─ the new chunks become readable
                                   └ fault: memory is no longer trusted ─▶ reopen, verify, resume

Everything that arrives while a commit is in progress becomes the next commit: the changes of topics, and the journal's
own ones, such as those of the registry. One commit is in progress at a time. If the open commit is large, a second one
is begun: it is encoded and handed to the store while the disk still writes the first. Commits are written and end in
the order in which they began.

A publisher waits for its commit, so a publish starts the next commit at once. No client waits for the commit of a
settle, so a settle may be delayed by `SETTLE_DELAY_SECONDS`: one fdatasync then covers many settles.

The broker ends only if the store is damaged, or lacks acknowledged changes, at `DAMAGE_LIMIT` attempts to reopen it.
Any other fault, such as a full disk, may be temporary: the journal tries again for as long as it takes. `admission`
defines what is refused meanwhile.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from math import inf
from typing import NamedTuple, TypeVar

import structlog

from miniqueue.broker.commit.admission import Admission
from miniqueue.broker.commit.events import Events
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.accounts import Memory
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.notices import NoticeKind, Notices
from miniqueue.broker.runtime.tasks import Epoch
from miniqueue.broker.stored import encode_commit, opening
from miniqueue.core.message.names import check_topic
from miniqueue.errors import (
    CorruptionError,
    FormatVersionError,
    InternalError,
    MiniqueueError,
    NotAStoreError,
    OutcomeUnknownError,
    StorageError,
    UnavailableError,
    described,
)
from miniqueue.errors.requests import UnknownTopicError
from miniqueue.storage.port import Batch, Store

log = structlog.get_logger()

T = TypeVar("T")

#: Maximum delay of the commit of a settle, so that one fdatasync covers many settles.
SETTLE_DELAY_SECONDS = 0.005
#: Number of event-loop iterations that a commit waits for more publishes. An idle iteration takes a few microseconds,
#: so a lone publisher does not notice the wait; under load the commit includes publishes that are just arriving. Four
#: iterations instead of none: a third more messages per second over RESP at pipeline 32, a tenth more at pipeline 1,
#: and 15 % less CPU time per HTTP publish. Eight and sixteen iterations improved nothing further.
GATHER_TURNS = 4
#: Maximum time of the longer wait, which applies if several publishers wait for one message each. The commit waits for
#: `GATHER_TURNS` more iterations, and repeats this as long as more publishers arrive, until this time has elapsed or
#: there are as many as in the larger of the last two commits. Publishers that were answered together send their next
#: messages together, but not all in one iteration. Without the longer wait, 50 publishers caused a quarter more commits
#: and 6 to 12 % fewer replies per second on disks that take 60 to 250 µs; 12 publishers over HTTP/2 took 5 % more of
#: the loop's time. It does not apply to publishers of many messages at a time: they return later, and their input is
#: read while a commit is in progress.
GATHER_SECONDS = 0.0004
#: Size from which a commit waits neither for more publishes nor for the commit in progress. Without this limit, 50
#: publishers of 32 KiB each were all in one commit: no input was read while the commit was written, and nothing was
#: written while input was read. A limit of 256 KiB caused more commits, and a fifth more CPU time per message.
LARGE_BYTES = 512 << 10
#: Delay before each attempt to reopen a store that has failed; the last delay is repeated.
REOPEN_DELAYS_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0)
#: Number of attempts to reopen the store that must find it damaged before the broker ends: a temporary
#: fault of another kind can look like damage.
DAMAGE_LIMIT = 3
_DAMAGE = (CorruptionError, FormatVersionError, NotAStoreError)


class Commit:
    """One atomic, durable write, with the listeners and tasks that wait for it.

    Attributes:
      size_bytes: total size of the payloads and attributes that it will make durable; 0 when it is done.
      is_done: whether it was written, or has failed.
      has_many: whether one publish added many messages.
      error: why it failed, or None.
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
        """Number of listeners and waiting tasks."""
        return len(self._listeners) + len(self._waiters)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` when this commit, which must not be done yet, is done; `listener` should not raise."""
        self._listeners.append(listener)

    async def wait(self) -> None:
        """Wait until this commit is done; raise its error if it failed."""
        if not self.is_done:
            waiter = asyncio.get_running_loop().create_future()  # an Event, with a future of its own, costs 1.3 µs more
            self._waiters.append(waiter)
            await waiter
        if self.error is not None:
            raise self.error

    def finish(self, error: MiniqueueError | None = None) -> None:
        """Mark the commit as done; call all listeners and wake all tasks, even if a listener fails, which is logged."""
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
    """The positions of published messages: consecutive sequence numbers from `first_seq` on, in one partition.

    The messages are durable when `commit` is done. Their payloads and attributes have a total size of `size_bytes`.
    """

    commit: Commit
    partition: int
    first_seq: int
    size_bytes: int


class Accepted(NamedTuple):
    """The result of a publish with options; the message is durable when `commit` is done.

    Attributes:
      commit: the commit that makes the message durable.
      message_id: its id, as `core.message.ids` encodes it; for a duplicate, the id of the first message.
      is_duplicate: whether nothing was added because the message exists already.
      size_bytes: size of payload and attributes that the commit writes.
      message_count: number of messages; `core.message.ids.following_ids` returns all their ids.
    """

    commit: Commit
    message_id: bytes
    is_duplicate: bool = False
    size_bytes: int = 0
    message_count: int = 1


#: Waits until a commit that was begun is written, and finishes it; it does not raise.
Ending = Callable[[], Awaitable[None]]


class Committer:
    """Runs one commit after another while commits are requested.

    Args:
      begin: gathers the changes for its commit and passes them to the store; returns the `Ending` of the commit.
        Endings are called in the order in which the commits began. It does not raise.
      broken: called if `begin`, an ending, or `prepare` raises nevertheless. There are no more commits then, so it
        must fail all that wait for one.
      prepare: adds changes to the next commit if `must_prepare` is set. If it sets `must_prepare` again, another
        commit follows. No commit is in progress while it runs. It does not raise.
      clock: returns the time in seconds; it never goes back.

    Attributes:
      open: the commit that includes what arrives now.
      begun: the last two commits that were begun, the older one first; each may be done or in progress.
      large_bytes: see `LARGE_BYTES`.
      must_prepare: whether to call `prepare` before the next commit.
      clock: the clock that was passed in.
    """

    def __init__(
        self,
        begin: Callable[[Commit], Ending],
        broken: Callable[[MiniqueueError], None],
        prepare: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.open = Commit()
        self.begun = _done(), _done()
        self.large_bytes = LARGE_BYTES
        self.must_prepare = False
        self._begin = begin
        self._broken = broken
        self._prepare = prepare or _nothing
        self.clock = clock
        self._wanted = asyncio.Event()
        self._endings: deque[Ending] = deque()
        self._is_large = False  # `_begin_second` is scheduled, to begin the open commit
        self._last_counts: tuple[float, float] = (inf, inf)  # `company_count` of the last two commits
        self._timer: asyncio.TimerHandle | None = None

    def of(self, *, is_next: bool) -> Commit:
        """Return the open commit if `is_next`; else a commit after which everything begun before is durable.

        The open commit is also returned if it has anything to write, such as a settle. So the confirmation of a
        duplicate also confirms the settles before it, as the confirmation of any publish does.
        """
        if is_next or self._timer is not None or self._wanted.is_set():
            self.request()
            return self.open
        last = self.begun[1]
        return _done() if last.is_done else last

    def is_gathering(self) -> bool:
        """Whether publishes are being gathered: a commit is requested, and none is in progress."""
        return self._wanted.is_set() and self.begun[1].is_done

    @property
    def waiting_bytes(self) -> int:
        """Total size of uncommitted payloads and attributes, in bytes."""
        older, last = self.begun
        return self.open.size_bytes + last.size_bytes + older.size_bytes

    def add(self, size_bytes: int) -> Commit:
        """Add `size_bytes` to the open commit, request it as `request` does, and return it."""
        self._wanted.set()
        commit = self.open
        commit.size_bytes += size_bytes
        if commit.size_bytes >= self.large_bytes and not self._is_large:
            self._is_large = True  # begins in the next iteration, so that one act is never split over two commits
            asyncio.get_running_loop().call_soon(self._begin_second)
        return commit

    def request(self) -> None:
        """Start the next commit as soon as the commit in progress is done."""
        self._wanted.set()

    def end_later(self, ending: Ending) -> None:
        """Call `ending` after the commits in progress have ended, and before another one begins."""
        self._endings.append(ending)
        self._wanted.set()

    def request_soon(self) -> None:
        """Start the next commit within `SETTLE_DELAY_SECONDS`."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_DELAY_SECONDS, self.request)

    async def flush(self) -> None:
        """Wait until everything done so far is committed; raise the commit's error if it failed."""
        commit = self.open
        self.request()
        await commit.wait()

    async def run(self) -> None:
        """Run commits, forever."""
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
            if self.must_prepare:
                await self._prepare_next()
            else:
                self._wanted.clear()
            if self._endings:
                self._wanted.set()  # `end_later` was called meanwhile
            else:
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
            self._broken(InternalError(described(exc)))  # at once: nothing may be written after what is missing now
            end = partial(_fail, exc)  # `run` must raise it: from a callback of the loop it would go unnoticed
        self._endings.append(end)

    def _begin_second(self) -> None:
        """Begin the open commit if it is large and exactly one commit is in progress."""
        self._is_large = False
        older, last = self.begun
        is_one_in_progress = older.is_done and not last.is_done
        if self.open.size_bytes >= self.large_bytes and is_one_in_progress and not self.must_prepare:
            self._wanted.clear()
            self._begin_next()

    async def _gather_company(self) -> None:
        """Wait `GATHER_TURNS` iterations for more publishers, and repeat this while more arrive.

        Ends after `GATHER_SECONDS`, or when there are as many as in the larger of the last two commits.
        """
        count, all_count, ends_at = 1, max(self._last_counts), self.clock() + GATHER_SECONDS
        while count < self.open.company_count < all_count and self.clock() < ends_at:
            count = self.open.company_count
            for _ in range(GATHER_TURNS):
                await asyncio.sleep(0)

    async def _prepare_next(self) -> None:
        self.must_prepare = False
        await self._prepare()
        if not self.must_prepare:
            self._wanted.clear()


async def _nothing() -> None:
    """Add nothing to the next commit: the default of `prepare`."""


async def _fail(error: Exception) -> None:
    raise error


def _done() -> Commit:
    """Return an empty commit that is done."""
    commit = Commit()
    commit.finish()
    return commit


class Journal:
    """Commits the changes of `topics`.

    Args:
      open_store: opens the store; called at the start, and again after the store has failed.
      clock: returns the commit time of chunks.
      topics: all topics by name; filled from the store at startup, and again after a fault.
      events: `readable` is raised for each topic that has new messages to deliver, or that holds back messages until
        older ones are settled; `before_commit` if topics must be trimmed.
      reopened: called with the content of the store, after a fault.
      memory: what clients use, and may use; None: they are not limited.
      reopen_delays_seconds: see `REOPEN_DELAYS_SECONDS`.

    Attributes:
      store: the open store; another one after a fault.
      admission: which changes are accepted now.
      committer: runs the commits.
      failed: done when the broker cannot continue; the result is the reason.
      events: the events above, for modules that change what the journal commits.
      notices: reports what happens to clients that listen.
      epoch: ends when memory is dropped after a fault; acts that wait run within it.
      over: topics that are over their limits, to be trimmed before the next commit.
      touched: topics that were committed since the set was last inspected; the inspector replaces it by an empty set.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        clock: Clock,
        topics: dict[bytes, Topic],
        events: Events,
        *,
        reopened: Callable[[opening.StoreContent], None],
        memory: Memory | None = None,
        reopen_delays_seconds: Sequence[float] = REOPEN_DELAYS_SECONDS,
    ) -> None:
        self.store: Store
        self.admission = Admission(memory or Memory())
        self.epoch = Epoch()
        self.failed: asyncio.Future[MiniqueueError] = asyncio.get_running_loop().create_future()
        self.events = events
        self.notices = Notices(clock)
        self.committer = Committer(self._begin, self._abort_commits, self._prepare)
        self._open_store = open_store
        self._clock = clock
        self._topics = topics
        self._reopened = reopened
        self._reopen_delays_seconds = reopen_delays_seconds
        self._acknowledged_change = 0
        self._synced_change = 0
        self._dirty: dict[Topic, None] = {}
        self.over: dict[Topic, None] = {}
        self.touched: set[Topic] = set()
        self._own_changes: dict[bytes, bytes | None] = {}
        self._is_sync_due = False

    async def open(self) -> opening.StoreContent:
        """Open the store and return its content; raises StorageError."""
        self.store = await self._open_store()
        try:
            content = await opening.read_content(self.store, self._topics, self._acknowledged_change, self.events.woken)
        except BaseException:
            await self.store.close()
            raise
        self._acknowledged_change = self.store.last_change
        return content

    def existing_topic(self, name: bytes) -> Topic:
        """Return the existing topic `name`; raises InvalidTopicError, UnknownTopicError, or UnavailableError."""
        self.admission.check_change()
        topic = self._topics.get(check_topic(name))
        if topic is None or topic.id is None:
            raise UnknownTopicError
        return topic

    async def committed_topic(self, name: bytes) -> Topic:
        """Commit everything done so far, then return the existing topic `name`.

        Raises:
          InvalidTopicError, UnknownTopicError.
          UnavailableError: the store is being reopened, so its content is unknown.
        """
        self.existing_topic(name)
        await self.commit_settles()
        return self.existing_topic(name)

    async def look_at(self, name: bytes, look: Callable[[Topic], Awaitable[T]]) -> T:
        """Call `look` for the topic `name` and return its result; repeat this if the topic is deleted meanwhile.

        So the whole result is about a single topic. Raises what `look` and `committed_topic` raise.
        """
        while True:
            topic = await self.committed_topic(name)
            topic_id = topic.id
            try:
                answer = await look(topic)
            except MiniqueueError:
                if topic.id == topic_id:
                    raise
            else:
                if topic.id == topic_id:
                    return answer

    async def drain(self) -> None:
        """Refuse all changes from now on, and make the accepted changes durable."""
        if self.admission.may_change:
            self.admission.drain()
            await self.sync().wait()

    def is_dirty(self, topic: Topic) -> bool:
        """Whether the next commit writes something of a topic."""
        return topic in self._dirty

    def touch(self, topic: Topic) -> None:
        """Mark `topic` as changed, so that the next commit writes its changes."""
        self._dirty[topic] = None

    def trim_soon(self, topic: Topic) -> None:
        """Mark `topic` as over its limits, so that it is trimmed before the next commit."""
        self.over[topic] = None
        self.committer.must_prepare = True

    def change(self, batch: Batch) -> None:
        """Add changes that are not gathered from a topic's partitions to the next commit."""
        self._own_changes.update(batch)

    async def commit(self, batch: Batch) -> None:
        """Commit `batch`, with all other changes; raises UnavailableError."""
        self.admission.check_change()
        self.change(batch)
        await self.committer.flush()

    async def commit_settles(self) -> None:
        """Commit everything done so far, if possible.

        If that fails, those changes are dropped. In both cases the store then contains everything there is.
        """
        with suppress(UnavailableError):
            await self.committer.flush()

    def sync(self) -> Commit:
        """Return a commit that is done when everything done so far is on the disk, whatever the store's sync mode."""
        self._is_sync_due = True
        self.committer.request()
        return self.committer.open

    def request_sync(self) -> None:
        """Make durable all commits since the last sync, whatever the store's sync mode.

        Does nothing if there are no such commits: every sync makes LevelDB's log longer, even if the broker is idle.
        """
        if self._acknowledged_change != self._synced_change:
            self.sync()

    async def _prepare(self) -> None:
        await self.events.before_commit()

    def _begin(self, commit: Commit) -> Ending:
        batch, appended, grown = self._gather()
        is_sync_due, self._is_sync_due = self._is_sync_due, False
        written = self.store.write(batch, is_synced=is_sync_due) if batch else None
        return partial(self._end, commit, written, is_sync_due, appended, grown)

    async def _end(
        self,
        commit: Commit,
        written: Awaitable[None] | None,
        is_sync_due: bool,
        appended: list[encode_commit.Appended],
        grown: dict[Topic, None],
    ) -> None:
        try:
            is_written = written is not None
            try:
                if written is not None:
                    await written
            finally:
                written = None  # it keeps its error, whose traceback keeps this frame
            if commit.is_done:
                return  # the commit before failed, which also finished this one; the store is being read again
            if is_written:
                self._acknowledged_change = self.store.last_change
            if is_sync_due:
                if not is_written:
                    await self.store.sync()
                if self.committer.begun[1] is commit:  # otherwise the last change may be one of the next commit
                    self._synced_change = self._acknowledged_change
        except StorageError as exc:
            if not commit.is_done:
                await self._recover(exc)
            return
        for _topic, partition, chunks, delays in appended:
            partition.commit(chunks, delays)
        commit.finish()
        for topic in {topic: None for topic, _partition, _chunks, _delays in appended} | grown:
            self.events.readable(topic)

    def _gather(self) -> tuple[dict[bytes, bytes | None], list[encode_commit.Appended], dict[Topic, None]]:
        batch, self._own_changes = self._own_changes, {}
        dirty, self._dirty = self._dirty, {}
        self.touched.update(dirty)
        now_ms = self._clock.now_ms()
        appended: list[encode_commit.Appended] = []
        for topic in dirty:
            if topic.held_at_most is not None:
                topic.held_at_most.is_exact = False
            if topic.id is not None:
                appended += encode_commit.add_topic(batch, topic, now_ms)
        return batch, appended, {topic: None for topic in dirty if topic.growths}

    # --- after a fault ----------------------------------------------------------------------------------------

    def distrust(self, fault: MiniqueueError) -> None:
        """Drop what is in memory, now, and read the store again: memory contains a part of an act, not the whole.

        Nothing of the open commit is written, so nothing of the act becomes durable.
        """
        self._drop_memory("memory is dropped; messages are refused until the store has been reopened", fault)
        self.committer.end_later(partial(self._reopen_or_fail, fault))

    async def _recover(self, fault: StorageError) -> None:
        self._drop_memory("the store failed; messages are refused until it has been reopened", fault)
        await self._reopen_or_fail(fault)

    def _drop_memory(self, event: str, fault: MiniqueueError) -> None:
        log.error(event, error=str(fault))
        self._abort_commits(fault)
        self.notices.report(NoticeKind.STORE_FAILED, error=str(fault))

    async def _reopen_or_fail(self, fault: MiniqueueError) -> None:
        if not await self._reopen_at_last():
            self.fail(fault)

    def _abort_commits(self, fault: MiniqueueError) -> None:
        """Refuse all changes from now on; finish the commits in progress and the open one with errors."""
        refusal = self.admission.shut(fault)
        never_written, self.committer.open = self.committer.open, Commit()
        self._forget()
        for commit in self.committer.begun:
            if not commit.is_done:
                commit.finish(OutcomeUnknownError())
        never_written.finish(refusal())

    async def _reopen_at_last(self) -> bool:
        """Reopen the store, however long it takes; return False if it is damaged."""
        damage_count, last_logged = 0, ""
        for delay_seconds in chain(self._reopen_delays_seconds, repeat(self._reopen_delays_seconds[-1])):
            await asyncio.sleep(delay_seconds)
            try:
                await self._reopen()
            except MiniqueueError as exc:
                if str(exc) != last_logged:
                    log.error("the store cannot be reopened; it is tried again", error=str(exc))
                last_logged = str(exc)
                damage_count += isinstance(exc, _DAMAGE)
                self.admission.shut(exc)
            else:
                return True
            if damage_count == DAMAGE_LIMIT:
                break
        return False

    def fail(self, fault: MiniqueueError) -> None:
        """Report through `failed` that this broker cannot continue; only the first fault is reported."""
        if not self.failed.done():
            self.failed.set_result(fault)

    def _forget(self) -> None:
        """Drop what is in memory: changes after the last commit may or may not be in the store."""
        self.epoch.end()
        self._dirty.clear()
        self._own_changes.clear()
        for topic in self._topics.values():
            topic.clear()

    async def _reopen(self) -> None:
        await self.store.close()
        content = await self.open()
        self.admission.open()
        log.warning("the store was reopened; all that was acknowledged is there")
        self._reopened(content)
        self.notices.report(NoticeKind.STORE_RECOVERED)
