"""Deletes the stored data of groups that were deleted or moved by a seek, page by page, in the background.

    an id is no longer used ─▶ its keys: bitmaps, gaps, returned messages ─┐
                            ├─▶ chunks that only this group needed ────────┼─▶ last, the purge entry of the id
                            └─▶ unique keys that only this group held ─────┘

The purge entry in the store says that data under the id is to be deleted. So the cleanup can be interrupted at any
point: a startup finds the entry and begins again. After an error, the next tick tries again.

Messages leave a topic with one group, its `key_group`: a unique key is held while its message waits in this group. If
the group was deleted or moved, keys can remain whose messages the key group does not have. `free_keys` removes them:

    each key in the store, with the id of its message ─ in the log, and not settled ─▶ remains
                                                      ├ returned to the group       ─▶ remains
                                                      ├ delayed, and not due yet    ─▶ remains
                                                      └ otherwise                   ─▶ freed

This reads all unique keys of the topic and, if there are keys to free, all messages that were returned to the group.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from itertools import compress
from operator import attrgetter
from typing import Final, NamedTuple

import structlog

from miniqueue.broker.cleanup.disk_space import RangeDeletion
from miniqueue.broker.commit.journal import Commit, Journal
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.groups.start_positions import holes_in
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.stored import opening_state
from miniqueue.broker.stored.opening import PAGE_ITEMS, pages
from miniqueue.core.cursor.lease import ChunkProgress
from miniqueue.core.group.holes import Finished, Runs, without
from miniqueue.core.group.view import Unsettled
from miniqueue.core.log.partition import Partition
from miniqueue.core.message.ids import DelayedId, parse_any_id
from miniqueue.errors import MiniqueueError, UnavailableError
from miniqueue.storage.format import dedup, groups, keys, values

log = structlog.get_logger()

_finished_chunks, _pins = attrgetter("changes.finished"), attrgetter("pins")

#: A unique key, and the id of a message that has it.
_Claim = tuple[bytes, bytes]
#: Takes the place of a group id in a purge entry that exists while start positions are determined: finished chunks may
#: still be in the store then. It is not the highest id, because ranges of keys end at the next id, which must be valid.
PINNED: Final = (1 << 32) - 2


async def free_keys(journal: Journal, topic: Topic) -> None:
    """Free the unique keys of a topic whose messages do not wait in its `key_group`.

    Raises StorageError or UnavailableError.
    """
    topic_id = topic.id
    claims: list[_Claim] = []
    if topic_id is None:
        return
    await journal.committer.flush()  # so the store does not have the keys of messages that were removed before
    async for key, _ in pages(journal.store, dedup.unique_range(topic_id)):
        claims.append(dedup.unique_key_and_message_id(key))
        if len(claims) >= PAGE_ITEMS:
            await _free(journal, topic, topic_id, claims)
            claims = []
    await _free(journal, topic, topic_id, claims)


async def _free(journal: Journal, topic: Topic, topic_id: int, claims: list[_Claim]) -> None:
    """Free the keys of `claims` whose messages do not wait in the key group."""
    positions = {claim: id_ for claim in claims if not isinstance(id_ := parse_any_id(claim[1]), DelayedId)}
    group = topic.key_group if topic.id == topic_id else None
    if group is None or not positions:
        return
    group_id = group.id or 0
    in_log = {cursor.partition: Unsettled(cursor) for cursor in group.cursors}
    unheld = {
        claim: (number, seq)
        for claim, (number, seq) in positions.items()
        if number in in_log and seq not in in_log[number]
    }
    if unheld:
        await journal.committer.flush()  # so the store has the messages that were returned before
    for partition in {number for number, _ in unheld.values()}:
        returned = await _returned(journal, topic_id, partition, group_id)
        unheld = {
            claim: (number, seq)
            for claim, (number, seq) in unheld.items()
            if number != partition or seq not in returned
        }
    if not unheld or topic.id != topic_id:
        return
    key_group = topic.key_group  # another object if the topic was at rest meanwhile
    if key_group is not None and key_group.id == group_id:
        for claim in unheld:
            topic.unique_keys.take(*claim)
        journal.touch(topic)
        await journal.committer.flush()


async def _returned(journal: Journal, topic_id: int, number: int, group_id: int) -> set[int]:
    """Return the sequence numbers of the messages of a partition that were returned to a group."""
    # Without a snapshot, the scan may miss a message that moves from one range to another meanwhile.
    snapshot = await journal.store.snapshot()
    try:
        records = pages(snapshot, opening_state.records_of(topic_id, number, group_id))
        return {values.decode_record(value).seq async for _, value in records}
    finally:
        await snapshot.close()


#: Number of partitions whose data is deleted in one turn.
PARTITIONS_IN_TURN: Final = 32
#: Number of deletions after which the next act that needs one waits.
MAX_LEFT: Final = 16


class _Remains(NamedTuple):
    """The stored data of a group that was deleted or moved.

    Attributes:
      topic: the topic of the group.
      ids: the topic id and the group id that are in the keys.
      finished: what the group had finished in each partition, whose chunks are deleted already.
      frees_keys: whether unique keys of the topic are to be freed.
    """

    topic: Topic
    ids: tuple[int, int]
    finished: Mapping[int, Finished | None]
    frees_keys: bool

    def runs(self, number: int) -> Runs:
        """Return the chunks of a partition that only this group needed, as ranges of sequence numbers.

        They are as in the iteration in which the group ended: what other groups finish later they delete themselves.
        """
        partition = self.topic.partitions.get(number) if self.topic.id == self.ids[0] else None
        if partition is None:
            return []
        finished = self.finished[number]
        return without(holes_in(partition), [] if finished is None else finished.runs())


class GroupCleanup:
    """Deletes the stored data under ids that groups no longer use, in the background, one id after the other.

    The store reads one range after the other for all, so many deletions at once would keep every client waiting.
    """

    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._share = engine.share
        self._spawn = engine.spawn
        self._left: set[tuple[int, int]] = set()  # topic ids and group ids that still have stored data
        self._reserved: set[tuple[int, int]] = set()  # topic ids and ids of groups that are being created or moved
        self._failed: list[_Remains] = []  # the data whose deletion failed; the next tick tries again
        self._turn = asyncio.Lock()
        self._last_warning = ""

    async def room(self) -> None:
        """Wait for the deletions before this call, if they are many: clients must not be faster than deletions."""
        if len(self._left) >= MAX_LEFT:
            async with self._turn:
                pass

    def next_id(self, topic: Topic) -> int:
        """Return a group id under which the topic has no stored data, and that is not reserved."""
        used = [group_id for topic_id, group_id in self._left | self._reserved if topic_id == topic.id]
        used += [group.id or 0 for group in topic.existing_groups]
        return max((group_id for group_id in used if group_id != PINNED), default=0) + 1

    @contextmanager
    def reserved_id(self, topic: Topic) -> Iterator[int]:
        """Reserve a group id until the block exits, and yield it."""
        reserved = topic.id or 0, self.next_id(topic)
        self._reserved.add(reserved)
        try:
            yield reserved[1]
        finally:
            self._reserved.discard(reserved)

    def delete(self, topic: Topic, group_id: int, finished: Mapping[int, Finished | None], *, frees_keys: bool) -> None:
        """Delete the stored data under a group id, and the chunks that only this group needed, in the background.

        The purge entry must be in the store, or be in the next commit; if that commit fails, nothing is deleted.

        Args:
          topic: the topic of the group.
          group_id: the id that is no longer used.
          finished: what the group had finished, by partition; None if that is unknown.
          frees_keys: whether to free the unique keys of messages that no group needs any more.
        """
        assert topic.id is not None
        self._left.add((topic.id, group_id))
        committer = self._journal.committer
        remains = _Remains(topic, (topic.id, group_id), finished, frees_keys)
        self._spawn(self._delete_after(committer.open, remains))
        committer.request()

    def unpin(self, topic: Topic, topic_id: int) -> None:
        """Remove the purge entry under `PINNED` with the next commit, unless pins or a pending deletion need it.

        Called when a pin is removed and when a deletion has ended, so that the last of them removes the entry.
        """
        is_pinned = topic.id == topic_id and any(map(_pins, topic.partitions.values()))
        if not is_pinned and (topic_id, PINNED) not in self._left:
            self._journal.change({groups.purge(topic_id, PINNED): None})
            self._journal.committer.request()

    def forget(self) -> None:
        """Forget pending deletions: the store is being read again, and its purge entries define them."""
        self._left.clear()
        self._failed.clear()

    def tick(self) -> None:
        """Retry the deletions that failed."""
        if self._failed and self._journal.admission.may_change:
            failed, self._failed = self._failed, []
            for remains in failed:
                self._spawn(self._try(remains))

    async def _delete_after(self, commit: Commit, remains: "_Remains") -> None:
        with suppress(UnavailableError):  # the group may still exist; the store tells when it is read again
            await commit.wait()
            await self._try(remains)

    async def _try(self, remains: "_Remains") -> None:
        try:
            if remains.frees_keys and remains.topic.id == remains.ids[0]:
                await free_keys(self._journal, remains.topic)
            async with self._turn:
                await self._delete(remains)
        except MiniqueueError as exc:
            self._failed.append(remains)
            self._warn(str(exc))
        else:
            self._left.discard(remains.ids)
            if remains.ids[1] == PINNED:
                self.unpin(remains.topic, remains.ids[0])

    def _warn(self, error: str) -> None:
        """Warn about an error once: every tick retries, and fails with the same error."""
        if error != self._last_warning:
            log.warning("what a deleted group has left was not all removed; it is tried again", error=error)
        self._last_warning = error

    async def _delete(self, remains: "_Remains") -> None:
        (topic_id, group_id), deletion = remains.ids, RangeDeletion(self._journal)
        async with aclosing(self._share.in_turns(remains.finished, PARTITIONS_IN_TURN)) as numbers:
            async for number in numbers:
                for start, stop in remains.runs(number):
                    await deletion.delete(keys.chunk(topic_id, number, start), keys.chunk(topic_id, number, stop))
                for key_range in groups.of_group(topic_id, number, group_id):
                    await deletion.delete(*key_range)
        if group_id != PINNED:  # new pins may need that entry; `unpin` removes it
            deletion.batch[groups.purge(topic_id, group_id)] = None
        await deletion.commit()


def finished_by(group: Group) -> list[tuple[Partition, list[ChunkProgress]]]:
    """Return the chunks that a group has finished since the last commit, by partition."""
    changed = compress(group.cursors, map(_finished_chunks, group.cursors))
    return [(group.topic.partitions[cursor.partition], cursor.changes.finished) for cursor in changed]
