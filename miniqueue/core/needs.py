"""Which chunks of a log some group still needs, known without asking every group of every chunk.

    log       |a     |b     |c     |d     |e     |
    group 1    ░░░░░░░░░░░░░░░░░░░░░ head
    group 2    ░░░░░░░░░░░░░░ head
    group 3    head   ░░░░░░░ gap            behind: it has finished b, although its head is in front of that
    bound                    ▲               in front of it nobody needs anything but who is behind

Heads only go forward, so what was once found holds until the groups are others. Who was found to need something is
asked first the next time.
"""

from collections.abc import Mapping

from miniqueue.core import cursor_view
from miniqueue.core.cursor import GroupCursor


class Needs:
    """What the groups of one partition need.

    Args:
      cursors: by group; `forget` is called when they have become others.
    """

    __slots__ = ("_behind", "_bound_seq", "_cursors", "_next", "_turn")

    def __init__(self, cursors: Mapping[int, GroupCursor]) -> None:
        self._cursors = cursors
        self.forget()

    def forget(self) -> None:
        """Know nothing of the groups, because there are others now."""
        self._turn = list(self._cursors.values())
        self._next = 0  # who is asked first
        self._bound_seq = 0
        self._behind: list[GroupCursor] = []

    def is_any(self, first_seq: int) -> bool:
        """Whether some group is not done with the chunk that begins at `first_seq`."""
        if first_seq < self._bound_seq:
            return not all(cursor.has_finished(first_seq) for cursor in self._behind)
        turn, count = self._turn, len(self._turn)
        for _ in range(count):
            if not turn[self._next].has_finished(first_seq):
                return True
            self._next = (self._next + 1) % count
        heads = [(cursor_view.head_seq(cursor), cursor) for cursor in turn]
        self._behind = [cursor for head_seq, cursor in heads if head_seq <= first_seq]
        self._bound_seq = min((head_seq for head_seq, _ in heads if head_seq > first_seq), default=0)
        return False
