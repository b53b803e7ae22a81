"""The chunks that a group still needs, without asking every group about every chunk.

    log       |a     |b     |c     |d     |e     |
    group 1    ░░░░░░░░░░░░░░░░░░░░░ head
    group 2    ░░░░░░░░░░░░░░ head
    group 3    head   ░░░░░░░ gap            lagging: it has finished b, although its head is before b
    bound                    ▲               only lagging groups can need a chunk before the bound

Heads only move forward, so the bound and the lagging groups are valid until the groups change. The group that needed
the last chunk is asked first about the next one.
"""

from collections.abc import Mapping

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.group import view


class ChunkNeeds:
    """The needs of the groups of one partition.

    Args:
      cursors: the cursors by group; the caller calls `forget` after it has changed them.
    """

    __slots__ = ("_bound_seq", "_cursors", "_lagging", "_next", "_turn")

    def __init__(self, cursors: Mapping[int, GroupCursor]) -> None:
        self._cursors = cursors
        self.forget()

    def forget(self) -> None:
        """Reset what is known, because the groups have changed."""
        self._turn: list[GroupCursor] | None = None  # the cursors; there may be thousands of partitions, so made later
        self._next = 0  # index of the cursor to ask first
        self._bound_seq = 0
        self._lagging: list[GroupCursor] = []

    def is_any(self, first_seq: int) -> bool:
        """Whether a group has not finished the chunk that begins at `first_seq`."""
        if first_seq < self._bound_seq:
            return not all(cursor.has_finished(first_seq) for cursor in self._lagging)
        turn = self._turn
        if turn is None:
            turn = self._turn = list(self._cursors.values())
        count = len(turn)
        for _ in range(count):
            if not turn[self._next].has_finished(first_seq):
                return True
            self._next = (self._next + 1) % count
        heads = [(view.head_seq(cursor), cursor) for cursor in turn]
        self._lagging = [cursor for head_seq, cursor in heads if head_seq <= first_seq]
        self._bound_seq = min((head_seq for head_seq, _ in heads if head_seq > first_seq), default=0)
        return False
