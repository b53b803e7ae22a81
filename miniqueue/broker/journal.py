"""The broker's line to the store: one commit after the other, and what happens when the store fails.

changes of topics ──┐
own changes ────────┼─▶ gather ─▶ Store.write ─▶ committed: readable, publishers told
(registry, purges)  ┘                 │
                                      └ fault: nothing in memory is trusted any more ─▶ reopen, prove, resume

Only damage ends it: a store that is damaged, or lacks what was acknowledged, at every one of `DAMAGE_LIMIT` attempts
to reopen it. Any other fault, such as a full disk, may pass, and it is tried again for as long as it takes.
What is refused meanwhile, `admission` says.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, repeat

import structlog

from miniqueue.broker import batching, opening
from miniqueue.broker.admission import Admission
from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Commit, Committer, Ending
from miniqueue.broker.epoch import Epoch
from miniqueue.broker.topic import Topic
from miniqueue.errors import (
    CorruptionError,
    FormatVersionError,
    MiniqueueError,
    NotAStoreError,
    OutcomeUnknownError,
    StorageError,
    UnavailableError,
)
from miniqueue.storage.port import Batch, Store

log = structlog.get_logger()

#: How long to wait before each attempt to reopen a store that has failed; the last one over and over.
REOPEN_DELAYS_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0)
#: At how many attempts a store may turn out to be damaged: what one fault shows as damage may be another's doing.
DAMAGE_LIMIT = 3
_DAMAGE = (CorruptionError, FormatVersionError, NotAStoreError)


class Journal:
    """Commits what changes in `topics`.

    Args:
      open_store: opens the store; called at the start, and again after the store has failed.
      clock: tells the commit time of chunks.
      topics: by name; filled from the store at the start, and again after a fault.
      readable: called for each topic that has new messages to hand out.
      reopened: called with what the store holds, after a fault.
      reopen_delays_seconds: see `REOPEN_DELAYS_SECONDS`.

    Attributes:
      epoch: ends when what is in memory is dropped after a fault; acts that wait run within it.
      touched: topics that were committed since somebody last looked, and set it anew.
      settled: called for each topic with partitions that were added, when something of it was committed.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        clock: Clock,
        topics: dict[bytes, Topic],
        *,
        readable: Callable[[Topic], None],
        reopened: Callable[[opening.StoreContent], None],
        reopen_delays_seconds: Sequence[float] = REOPEN_DELAYS_SECONDS,
    ) -> None:
        self.store: Store
        self.admission = Admission()
        self.epoch = Epoch()
        self.failed: asyncio.Future[MiniqueueError] = asyncio.get_running_loop().create_future()
        self.committer = Committer(self._begin, self._break_off)
        self._open_store = open_store
        self._clock = clock
        self._topics = topics
        self._readable = readable
        self._reopened = reopened
        self._reopen_delays_seconds = reopen_delays_seconds
        self._acknowledged_change = 0
        self._synced_change = 0
        self._dirty: dict[Topic, None] = {}
        self.touched: set[Topic] = set()
        self.settled: Callable[[Topic], None]
        self._own_changes: dict[bytes, bytes | None] = {}
        self._is_sync_due = False

    async def open(self) -> opening.StoreContent:
        """Open the store and return what it holds; raises StorageError."""
        self.store = await self._open_store()
        try:
            content = await opening.read_content(self.store, self._topics, self._acknowledged_change)
        except BaseException:
            await self.store.close()
            raise
        self._acknowledged_change = self.store.last_change
        return content

    async def drain(self) -> None:
        """Refuse everything new, and make durable what there is."""
        if self.admission.may_change:
            self.admission.drain()
            self._is_sync_due = True
            await self.committer.flush()

    def touch(self, topic: Topic) -> None:
        """Note that the next commit has something to write for `topic`."""
        self._dirty[topic] = None

    def change(self, batch: Batch) -> None:
        """Add keys that are no topic's own to the next commit."""
        self._own_changes.update(batch)

    async def commit(self, batch: Batch) -> None:
        """Commit `batch`, with whatever else there is; raises UnavailableError."""
        self.admission.check_change()
        self.change(batch)
        await self.committer.flush()

    async def commit_settles(self) -> None:
        """Commit what was done so far, where that can be done: what is in the store then is all there is."""
        with suppress(UnavailableError):
            await self.committer.flush()

    def request_sync(self) -> None:
        """Make durable what has been committed since the last sync, whatever the store's sync mode.

        Nothing, when there is nothing: every sync makes LevelDB's log longer, also of a broker that is idle.
        """
        if self._acknowledged_change != self._synced_change:
            self._is_sync_due = True
            self.committer.request()

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
        appended: list[batching.Appended],
        grown: list[Topic],
    ) -> None:
        try:
            if written is not None:
                await written
            if commit.is_done:
                return  # the one before has failed: who waited for this one was told, and the store is read anew
            if written is not None:
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
        for topic in {topic: None for topic, _partition, _chunks, _delays in appended}:
            self._readable(topic)
        for topic in grown:
            self.settled(topic)

    def _gather(self) -> tuple[dict[bytes, bytes | None], list[batching.Appended], list[Topic]]:
        batch, self._own_changes = self._own_changes, {}
        dirty, self._dirty = self._dirty, {}
        self.touched.update(dirty)
        now_ms = self._clock.now_ms()
        appended: list[batching.Appended] = []
        for topic in dirty:
            if topic.held_at_most is not None:
                topic.held_at_most.is_exact = False
            if topic.id is not None:
                appended += batching.add_topic(batch, topic, now_ms)
        return batch, appended, [topic for topic in dirty if topic.growths]

    # --- after a fault ----------------------------------------------------------------------------------------

    async def _recover(self, fault: StorageError) -> None:
        log.error("the store failed; messages are refused until it has been reopened", error=str(fault))
        self._break_off(fault)
        if not await self._reopen_at_last():
            self.fail(fault)

    def _break_off(self, fault: MiniqueueError) -> None:
        """Refuse everything from now on; tell those who wait for commits under way, and for the next."""
        refusal = self.admission.shut(fault)
        never_written, self.committer.open = self.committer.open, Commit()
        self._forget()
        for commit in self.committer.begun:
            if not commit.is_done:
                commit.finish(OutcomeUnknownError())
        never_written.finish(refusal())

    async def _reopen_at_last(self) -> bool:
        """Reopen the store, however long it takes; return False when it is damaged."""
        damage_count, said = 0, ""
        for delay_seconds in chain(self._reopen_delays_seconds, repeat(self._reopen_delays_seconds[-1])):
            await asyncio.sleep(delay_seconds)
            try:
                await self._reopen()
            except MiniqueueError as exc:
                if str(exc) != said:
                    log.error("the store cannot be reopened; it is tried again", error=str(exc))
                said = str(exc)
                damage_count += isinstance(exc, _DAMAGE)
                self.admission.shut(exc)
            else:
                return True
            if damage_count == DAMAGE_LIMIT:
                break
        return False

    def fail(self, fault: MiniqueueError) -> None:
        """Say that this broker cannot go on."""
        if not self.failed.done():
            self.failed.set_result(fault)

    def _forget(self) -> None:
        """Drop everything that memory says beyond the last commit: it may or may not be in the store."""
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
