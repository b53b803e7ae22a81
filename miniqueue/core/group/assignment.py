"""The assignment of partitions to the members of a group: fair, with as few changes as possible.

    a: 0 1 2 3      c joins      a: 0 1 2        the numbers of partitions of two members differ by at most one;
    b: 4 5 6 7     ─────────▶    b: 4 5 6        a partition moves only if its member has too many, or has left
                                 c: 3 7

Of all fair assignments, the result is one with the fewest moves: members that have most partitions keep most.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def assign(members: Sequence[T], partitions: Iterable[int], owners: Mapping[int, T]) -> dict[int, T]:
    """Return the member of each partition; an empty dict if there are no members.

    Args:
      members: the members, each once; of two with the same number of partitions, the first gets the extra one.
      partitions: the numbers of the partitions.
      owners: the previous member of each partition; previous members that have left are ignored.
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
