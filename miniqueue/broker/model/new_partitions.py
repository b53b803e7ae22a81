"""Partitions that a topic does not have yet: if they are many, they are made in turns, and then added in one step.

    an act ─▶ checks all, and `check` at last ─ they are made, or few ─▶ changes the topic, which gets what was made
      ▲                                  └ PartitionsDueError; nothing has changed ─▶ `making`, in turns ─┐
      └─────────────── it begins again, as anything may have changed meanwhile ◀──────────────────────────┘

So the act itself never waits, and is one commit. If its caller leaves meanwhile, nothing was done.

A publish creates a topic, too, and so does a dead letter, which cannot wait. They take *spare* partitions, which belong
to no act: `broker.topics.spare` keeps as many as the defaults of new topics want. A publish that finds none waits for
them.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from typing import Final, TypeVar

from miniqueue.broker.runtime.share import TimeShare, Work
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.log.partition import Partition

T = TypeVar("T")

#: Number of cursors that one event-loop iteration makes.
CURSORS_IN_TURN: Final = 64


class PartitionsDueError(Exception):
    """An act adds more partitions than may be made at once; it has changed nothing.

    Attributes:
      numbers: the numbers of the partitions.
      group_ids: the ids of the groups that read them.
    """

    def __init__(self, numbers: Sequence[int], group_ids: Set[int]) -> None:
        super().__init__(numbers, group_ids)
        self.numbers = numbers
        self.group_ids = group_ids


class NewPartitions:
    """Empty partitions with the cursors of their groups, which no topic has."""

    def __init__(self) -> None:
        self._by_number: dict[int, Partition] = {}
        self._group_ids: Set[int] = frozenset()  # the groups that all of them have

    def check(self, numbers: Sequence[int], group_ids: Set[int]) -> None:
        """Raise PartitionsDueError if `take` would have to make more cursors than one iteration may."""
        if len(numbers) * len(group_ids) > CURSORS_IN_TURN and not self._has(numbers, group_ids):
            raise PartitionsDueError(numbers, group_ids)

    def _has(self, numbers: Iterable[int], group_ids: Set[int]) -> bool:
        return self._group_ids == group_ids and self._by_number.keys() >= set(numbers)

    def making(self, numbers: Sequence[int], group_ids: Set[int]) -> Work[None]:
        """Make partitions that these groups read, and keep no others; those of other groups are adapted."""
        self._group_ids = frozenset()
        self._by_number = {number: self._by_number[number] for number in self._by_number.keys() & {*numbers}}
        count = 0
        for number in numbers:
            partition = self._by_number.setdefault(number, Partition(0, {}, number=number))
            for group_id in partition.cursors.keys() - group_ids:
                partition.replace(group_id, None)
            for group_id in group_ids - partition.cursors.keys():
                partition.replace(None, _new_cursor(number, group_id))
                count += 1
                if count % CURSORS_IN_TURN == 0:
                    yield
        self._group_ids = frozenset(group_ids)

    def clear(self) -> None:
        """Keep no partitions."""
        self._by_number.clear()

    def take(self, numbers: Sequence[int], group_ids: Set[int]) -> list[Partition]:
        """Return partitions that these groups read, those that were made and new ones."""
        if self._has(numbers, group_ids):
            return [*map(self._by_number.pop, numbers)]
        return new_partitions(numbers, group_ids)


def new_partitions(numbers: Iterable[int], group_ids: Iterable[int]) -> list[Partition]:
    """Return empty partitions that these groups read."""
    return [
        Partition(0, {group_id: _new_cursor(number, group_id) for group_id in group_ids}, number=number)
        for number in numbers
    ]


def _new_cursor(number: int, group_id: int) -> GroupCursor:
    return GroupCursor(CursorState(), 0, {}, is_new=True, partition=number, group=group_id)


class PartitionMaker:
    """Makes the partitions of one act after the other, so that those that no topic has yet are never many.

    Args:
      share: cuts the work into slices.
      spare: the partitions for topics that are created without an act of their own.
    """

    def __init__(self, share: TimeShare, spare: NewPartitions) -> None:
        self._share = share
        self._spare = spare
        self._lock = asyncio.Lock()

    async def carry_out(self, act: Callable[[NewPartitions], T]) -> T:
        """Return the result of an act, which begins again whenever partitions were made for it."""
        made = NewPartitions()
        with suppress(PartitionsDueError):
            return act(made)
        async with self._lock:
            while True:
                try:
                    return act(made)
                except PartitionsDueError as due:
                    await self._share.finish(made.making(due.numbers, due.group_ids))

    async def make_spare(self, due: PartitionsDueError) -> None:
        """Make the partitions that a publish lacks; it takes them if it begins again in this event-loop iteration."""
        async with self._lock:
            await self._share.finish(self._spare.making(due.numbers, due.group_ids))
