"""Deletes what groups leave behind that are deleted or begin anew elsewhere, page by page, in the background.

    an id is given up ─▶ its keys: bitmaps, gaps, what came back ─┐
                     ├─▶ chunks that only it needed ──────────────┼─▶ last of all, the entry that says so
                     └─▶ unique keys that it alone held ──────────┘

It can be broken off anywhere: a start finds the entry, and begins again. What could not be read is tried again with the
next tick.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import structlog

from miniqueue.broker.commit import Commit
from miniqueue.broker.journal import Journal
from miniqueue.broker.key_freeing import free_keys
from miniqueue.broker.purger import Deletion
from miniqueue.broker.topic import Topic
from miniqueue.core.holes import Runs
from miniqueue.core.lease import ChunkProgress
from miniqueue.core.partition import Partition
from miniqueue.errors import MiniqueueError, UnavailableError
from miniqueue.storage import group_keys, keys

log = structlog.get_logger()

#: In place of the id of a deleted group: chunks that are finished may be there while a place is looked for. Ranges of
#: keys end with the id behind it, which must be one, too.
PINNED: Final = (1 << 32) - 2


class _Remains(NamedTuple):
    """What a group has left: under ids of topic and group, and chunks, by partition.

    `freeing` is the topic whose unique keys are to be freed, if any are.
    """

    place: tuple[int, int]
    runs: Mapping[int, Runs]
    freeing: Topic | None


class GroupRemains:
    """Deletes what is left under ids of groups.

    Args:
      journal: has the store, and commits deletions.
      spawn: runs something in the background.
    """

    def __init__(self, journal: Journal, *, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._journal = journal
        self._spawn = spawn
        self._left: set[tuple[int, int]] = set()  # topic id and group id
        self._failed: list[_Remains] = []  # of these, what could not be deleted yet
        self._said = ""

    def next_id(self, topic: Topic) -> int:
        """Return an id under which a topic has nothing."""
        left = [group_id for topic_id, group_id in self._left if topic_id == topic.id and group_id != PINNED]
        return max([group.id or 0 for group in topic.existing_groups] + left) + 1

    def delete(self, topic: Topic, group_id: int, runs: Mapping[int, Runs], *, frees_keys: bool) -> None:
        """Delete what is under an id, and the chunks of `runs`, by partition.

        An entry in the store must say so, or do so with the next commit; if that fails nothing is deleted.
        With `frees_keys` also the unique keys of what nobody needs any more.
        """
        assert topic.id is not None
        self._left.add((topic.id, group_id))
        committer = self._journal.committer
        remains = _Remains((topic.id, group_id), runs, topic if frees_keys else None)
        self._spawn(self._delete_after(committer.open, remains))
        committer.request()

    def forget(self) -> None:
        """Forget what could not be deleted: the store was read anew, and says what is to be deleted."""
        self._failed.clear()

    def tick(self) -> None:
        """Try again to delete what could not be deleted."""
        if self._failed and self._journal.admission.may_change:
            failed, self._failed = self._failed, []
            for remains in failed:
                self._spawn(self._try(remains))

    async def _delete_after(self, commit: Commit, remains: "_Remains") -> None:
        with suppress(UnavailableError):  # the group may still be there: the store says so when it is read anew
            await commit.wait()
            await self._try(remains)

    async def _try(self, remains: "_Remains") -> None:
        try:
            if remains.freeing is not None and remains.freeing.id == remains.place[0]:
                await free_keys(self._journal, remains.freeing)
            await self._delete(*remains.place, remains.runs)
        except MiniqueueError as exc:
            self._failed.append(remains)
            self._say(str(exc))
        else:
            self._left.discard(remains.place)

    def _say(self, error: str) -> None:
        """Warn, once: the same goes on with every tick."""
        if error != self._said:
            log.warning("what a deleted group has left was not all removed; it is tried again", error=error)
        self._said = error

    async def _delete(self, topic_id: int, group_id: int, runs: Mapping[int, Runs]) -> None:
        deletion = Deletion(self._journal)
        for number, found in runs.items():
            for start, stop in found:
                await deletion.delete(keys.chunk(topic_id, number, start), keys.chunk(topic_id, number, stop))
            for key_range in group_keys.of_group(topic_id, number, group_id):
                await deletion.delete(*key_range)
        deletion.batch[group_keys.purge(topic_id, group_id)] = None
        await deletion.commit()


def finished_by(topic: Topic, group_id: int | None) -> list[tuple[Partition, list[ChunkProgress]]]:
    """Return what a group has finished since the last commit, by partition; nothing where there is no such group."""
    if group_id is None:
        return []
    return [(partition, partition.cursors[group_id].changes.finished) for partition in topic.partitions.values()]
