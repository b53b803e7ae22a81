"""The assignment of partitions to the members of a group: fair, with as few changes as possible.

    a: 0 1 2 3      c joins      a: 0 1 2        the numbers of partitions of two members differ by at most one;
    b: 4 5 6 7     ─────────▶    b: 4 5 6        a partition moves only if its member has too many, or has left
                                 c: 3 7

Of all fair assignments, the result is one with the fewest moves: members that have most partitions keep most.

The parts of a spread topic are assigned each for itself. So that a member does not get the odd partition of all of
them, each part computes of its number, and of the names of the members, who gets one more there (`shares_in_part`):

    part 0: a  part 1: c  part 2: b  part 3: b …   the members with the fewest in the parts before; of those, by a hash
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from typing import Final, TypeVar

T = TypeVar("T", bound=Hashable)
_HASH_BITS: Final = 64


def assign(
    members: Sequence[T],
    partitions: Iterable[int],
    owners: Mapping[int, T],
    shares: Mapping[T, int] | None = None,
) -> dict[int, T]:
    """Return the member of each partition; an empty dict if there are no members.

    Args:
      members: the members, each once; of two with the same number of partitions, the first gets the extra one.
      partitions: the numbers of the partitions.
      owners: the previous member of each partition; previous members that have left are ignored.
      shares: how many each member gets, all together; None: the same number, and some one more, with few moves.
    """
    if not members:
        return {}
    numbers = sorted(partitions)
    owned: dict[T, list[int]] = {member: [] for member in members}
    for number in numbers:
        if number in owners and owners[number] in owned:
            owned[owners[number]].append(number)
    quotas = shares or _shares_by_count(members, owned, len(numbers))
    assigned = {number: member for member in members for number in owned[member][: quotas[member]]}
    free = iter([number for number in numbers if number not in assigned])
    for member in members:
        for _ in range(quotas[member] - len(owned[member])):
            assigned[next(free)] = member
    return assigned


def _shares_by_count(members: Sequence[T], owned: Mapping[T, Sequence[int]], partition_count: int) -> dict[T, int]:
    """Return the share of each member: those that have most keep most."""
    share, rest = divmod(partition_count, len(members))
    by_count = sorted(members, key=lambda member: -len(owned[member]))
    return {member: share + (position < rest) for position, member in enumerate(by_count)}


def shares_in_part(names: Iterable[bytes], partition_count: int, part: int) -> dict[bytes, int]:
    """Return how many partitions of a part of a spread topic each member gets.

    If all parts have as many partitions, and the same members, no member has two more than another in the parts up to
    any number.
    """
    members = {name: _hash(name) for name in sorted(names)}
    share, rest = divmod(partition_count, len(members))
    more_counts = dict.fromkeys(members, 0)
    chosen: list[bytes] = []
    for number in range(part + 1 if rest else 0):
        factor = _hash(b"%d" % number) | 1
        chosen = nsmallest(rest, members, key=lambda name: (more_counts[name], _mixed(members[name], factor)))
        for name in chosen:
            more_counts[name] += 1
    return {name: share + (name in chosen) for name in members}


def _hash(word: bytes) -> int:
    return int.from_bytes(blake2b(word, digest_size=_HASH_BITS // 8).digest())


def _mixed(value: int, factor: int) -> int:
    """Return the high bits of a product, which depend on all bits of both: a hash of a member and a part."""
    return (value * factor & (1 << _HASH_BITS) - 1) >> _HASH_BITS // 2
