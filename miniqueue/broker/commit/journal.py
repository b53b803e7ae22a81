"""The journal: writes the changes of topics to the store, commit by commit, and reopens the store after a fault.

    changes of topics ──┐
    own changes ────────┼─▶ gather ─▶ Store.write ─▶ committed: readable, publishers notified
    (registry, purges)  ┘                 │
                                          └ fault: memory is no longer trusted ─▶ reopen, verify, resume

The broker ends only if the store is damaged, or lacks acknowledged changes, at `DAMAGE_LIMIT` attempts to reopen it.
Any other fault, such as a full disk, may be temporary: the journal tries again for as long as it takes. `admission`
defines what is refused meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import TypeVar

import structlog

from miniqueue.broker.commit.admission import Admission
from miniqueue.broker.commit.events import Events
from miniqueue.broker.commit.group_commit import Commit, Committer, Ending
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.epoch import Epoch
from miniqueue.broker.stored import encode_commit, opening
from miniqueue.core.message.names import check_topic
from miniqueue.errors import (
    CorruptionError,
    FormatVersionError,
    MiniqueueError,
    NotAStoreError,
    OutcomeUnknownError,
    StorageError,
    UnavailableError,
)
from miniqueue.errors.requests import UnknownTopicError
from miniqueue.storage.port import Batch, Store

log = structlog.get_logger()

T = TypeVar("T")

#: Delay before each attempt to reopen a store that has failed; the last delay is repeated.
REOPEN_DELAYS_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0)
#: Number of attempts to reopen the store that must find it damaged before the broker ends: a temporary
#: fault of another kind can look like damage.
DAMAGE_LIMIT = 3
_DAMAGE = (CorruptionError, FormatVersionError, NotAStoreError)


class Journal:
    """Commits the changes of `topics`.

    Args:
      open_store: opens the store; called at the start, and again after the store has failed.
      clock: returns the commit time of chunks.
      topics: all topics by name; filled from the store at startup, and again after a fault.
      events: `readable` is raised for each topic that has new messages to deliver, or that holds back messages until
        older ones are settled; `before_commit` if topics must be trimmed.
      reopened: called with the content of the store, after a fault.
      reopen_delays_seconds: see `REOPEN_DELAYS_SECONDS`.

    Attributes:
      store: the open store; another one after a fault.
      admission: which changes are accepted now.
      committer: runs the commits.
      failed: done when the broker cannot continue; the result is the reason.
      events: the events above, for modules that change what the journal commits.
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
        reopen_delays_seconds: Sequence[float] = REOPEN_DELAYS_SECONDS,
    ) -> None:
        self.store: Store
        self.admission = Admission()
        self.epoch = Epoch()
        self.failed: asyncio.Future[MiniqueueError] = asyncio.get_running_loop().create_future()
        self.events = events
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
            content = await opening.read_content(self.store, self._topics, self._acknowledged_change)
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
            self._is_sync_due = True
            await self.committer.flush()

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

    def request_sync(self) -> None:
        """Make durable all commits since the last sync, whatever the store's sync mode.

        Does nothing if there are no such commits: every sync makes LevelDB's log longer, even if the broker is idle.
        """
        if self._acknowledged_change != self._synced_change:
            self._is_sync_due = True
            self.committer.request()

    async def _prepare(self) -> None:
        await self.events.before_commit()

    def _begin(self, commit: Commit) -> Ending:
        batch, appended, grown = self._gather()
        is_sync_due, self._is_sync_due = self._is_sync_due, False
        written = self.store.write(batch) if batch else None
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
                await self.store.sync()
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

    async def _recover(self, fault: StorageError) -> None:
        log.error("the store failed; messages are refused until it has been reopened", error=str(fault))
        self._abort_commits(fault)
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
