"""The broker's line to the store: one commit after the other, and what happens when the store fails.

changes of topics ──┐
own changes ────────┼─▶ gather ─▶ Store.write ─▶ committed: readable, publishers told
(registry, purges)  ┘                 │
                                      └ fault: nothing in memory is trusted any more ─▶ reopen, prove, resume

Only damage ends it: a store that is damaged, or lacks what was acknowledged, at every one of `DAMAGE_LIMIT` attempts
to reopen it. Any other fault, such as a full disk, may pass, and it is tried again for as long as it takes.

What may be changed:          publishes        settles, deletions
    all is well               yes              yes
    the disk is full          FullError        yes
    the store is reopened     ReadOnlyError    no: nobody holds anything
      on a full disk          FullError        no
    stopping                  DrainingError    no
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, repeat

import structlog

from miniqueue.broker import batching, opening
from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Commit, Committer
from miniqueue.broker.topic import Topic
from miniqueue.errors import (
    CorruptionError,
    DrainingError,
    FormatVersionError,
    FullError,
    MiniqueueError,
    NoSpaceError,
    NotAStoreError,
    OutcomeUnknownError,
    ReadOnlyError,
    StorageError,
    UnavailableError,
)
from miniqueue.storage import keys, records
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
        self.refusal: type[UnavailableError] | None = None
        self.is_full = False
        self.is_open = True
        self.failed: asyncio.Future[MiniqueueError] = asyncio.get_running_loop().create_future()
        self.committer = Committer(self._write)
        self._open_store = open_store
        self._clock = clock
        self._topics = topics
        self._readable = readable
        self._reopened = reopened
        self._reopen_delays_seconds = reopen_delays_seconds
        self._commit_number = 0
        self._synced_number = 0
        self._dirty: dict[Topic, None] = {}
        self._own_changes: dict[bytes, bytes | None] = {}
        self._is_sync_due = False

    async def open(self) -> opening.StoreContent:
        """Open the store and return what it holds; raises StorageError."""
        self.store = await self._open_store()
        try:
            content = await opening.read_content(self.store, self._topics, self._commit_number)
        except BaseException:
            await self.store.close()
            raise
        self._commit_number = content.commit_number
        return content

    async def drain(self) -> None:
        """Refuse everything new, and make durable what there is."""
        if self._may_change:
            self.refusal = DrainingError
            self._is_sync_due = True
            await self.committer.flush()

    def check(self) -> None:
        """Raise why nothing can be published now, if so."""
        if self.refusal is not None:
            raise self.refusal

    def check_change(self) -> None:
        """Raise why nothing can be changed now, not even what takes no space, if so."""
        if not self._may_change:
            assert self.refusal is not None
            raise self.refusal

    @property
    def _may_change(self) -> bool:
        return self.is_open and self.refusal in (None, FullError)

    def set_full(self, is_full: bool) -> None:
        """Refuse publishes while the disk is full, or take them again."""
        if is_full and not self.is_full:
            log.error("the disk is full; messages are refused, settling and reading go on")
        elif self.is_full and not is_full:
            log.warning("the disk has room again; messages are taken")
        self.is_full = is_full
        if self._may_change:
            self.refusal = FullError if is_full else None

    def touch(self, topic: Topic) -> None:
        """Note that the next commit has something to write for `topic`."""
        self._dirty[topic] = None

    def change(self, batch: Batch) -> None:
        """Add keys that are no topic's own to the next commit."""
        self._own_changes.update(batch)

    async def commit(self, batch: Batch) -> None:
        """Commit `batch`, with whatever else there is; raises UnavailableError."""
        self.check_change()
        self.change(batch)
        await self.committer.flush()

    def request_sync(self) -> None:
        """Make durable what has been committed since the last sync, whatever the store's sync mode.

        Nothing, when there is nothing: every sync makes LevelDB's log longer, also of a broker that is idle.
        """
        if self._commit_number != self._synced_number:
            self._is_sync_due = True
            self.committer.request()

    async def _write(self, commit: Commit) -> None:
        batch, appended = self._gather()
        try:
            await self._write_batch(batch)
        except StorageError as exc:
            await self._recover(commit, exc)
            return
        for _topic, partition, chunks in appended:
            partition.commit(chunks)
        commit.finish()
        for topic, _partition, _chunks in appended:
            self._readable(topic)

    def _gather(self) -> tuple[dict[bytes, bytes | None], list[batching.Appended]]:
        batch, self._own_changes = self._own_changes, {}
        dirty, self._dirty = self._dirty, {}
        now_ms = self._clock.now_ms()
        appended: list[batching.Appended] = []
        for topic in dirty:
            if topic.id is not None:
                appended += batching.add_topic(batch, topic, now_ms)
        return batch, appended

    async def _write_batch(self, batch: dict[bytes, bytes | None]) -> None:
        if batch:
            number = self._commit_number + 1
            batch[keys.COMMIT] = records.encode_number(number)
            await self.store.write(batch)
            self._commit_number = number
        if self._is_sync_due:
            await self.store.sync()
            self._is_sync_due = False
            self._synced_number = self._commit_number

    # --- after a fault ----------------------------------------------------------------------------------------

    async def _recover(self, commit: Commit, fault: StorageError) -> None:
        log.error("the store failed; messages are refused until it has been reopened", error=str(fault))
        self._shut(fault)
        never_written, self.committer.open = self.committer.open, Commit()
        self._forget()
        commit.finish(OutcomeUnknownError())
        assert self.refusal is not None
        never_written.finish(self.refusal())
        if not await self._reopen_at_last():
            self.fail(fault)

    def _shut(self, fault: MiniqueueError) -> None:
        """Refuse everything, for the reason that `fault` gives."""
        self.is_open = False
        if isinstance(fault, NoSpaceError):
            self.set_full(True)
        if self.refusal is not DrainingError:
            self.refusal = FullError if isinstance(fault, NoSpaceError) else ReadOnlyError

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
                self._shut(exc)
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
        self._dirty.clear()
        self._own_changes.clear()
        for topic in self._topics.values():
            topic.clear()

    async def _reopen(self) -> None:
        await self.store.close()
        content = await self.open()
        self.is_open = True
        if self.refusal is not DrainingError:
            self.refusal = FullError if self.is_full else None
        log.warning("the store was reopened; all that was acknowledged is there")
        self._reopened(content)
