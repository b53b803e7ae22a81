"""Who of a group's members reads which partitions: fair, and as it was, as far as that is fair.

    a: 0 1 2 3      c joins      a: 0 1 2        every member has as many as any other, or one less or more;
    b: 4 5 6 7     ─────────▶    b: 4 5 6        what moves, moves because somebody has too many or is gone
                                 c: 3 7

Of all fair assignments it is one with the fewest moves: who has most keeps most.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def assign(members: Sequence[T], partitions: Iterable[int], owners: Mapping[int, T]) -> dict[int, T]:
    """Return the member that each partition belongs to; none when there are no members.

    Args:
      members: each once; of two with as many partitions, the first is the first to have one more.
      partitions: their numbers.
      owners: of partitions, as they were; those who are no members any more do not matter.
    """
    if not members:
        return {}
    numbers = sorted(partitions)
    owned: dict[T, list[int]] = {member: [] for member in members}
    for number in numbers:
        if number in owners and owners[number] in owned:
            owned[owners[number]].append(number)
    share, rest = divmod(len(numbers), len(members))
    by_count = sorted(members, key=lambda member: -len(owned[member]))
    quotas = {member: share + (position < rest) for position, member in enumerate(by_count)}
    assigned = {number: member for member in members for number in owned[member][: quotas[member]]}
    free = iter([number for number in numbers if number not in assigned])
    for member in members:
        for _ in range(quotas[member] - len(owned[member])):
            assigned[next(free)] = member
    return assigned
