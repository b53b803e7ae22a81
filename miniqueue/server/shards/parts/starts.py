"""A group of a spread topic is created, or moved: where it begins in each part.

earliest, latest, a time     the same in each part
1024-5                       this message in part 1; in the others, its commit time
0-17,1024-5                  these messages in parts 0 and 1; the earliest ones in the others

The part of an id is asked first: it is the one that can refuse it, and then the group is in no part.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from miniqueue.core.message.parts import part_of_id
from miniqueue.core.options.start import FromMessage, FromMessages, parse_start

A = TypeVar("A")

#: Returns when a message was committed, in ms since 1970, None if it is not there; arguments: part, partition, number.
CommitTimeOf = Callable[[int, bytes, bytes], Awaitable[int | None]]


async def begin_in_parts(
    start: bytes,
    part_count: int,
    commit_time_of: CommitTimeOf,
    ask: Callable[[int, bytes], Awaitable[A]],
    is_refusal: Callable[[A], bool],
) -> Sequence[A]:
    """Return the answers of all parts, each of which was asked with its start; of one part, if it refuses the start.

    Raises RequestError.
    """
    starts = await _starts(start, part_count, commit_time_of)
    first = part_of_id(start) % part_count
    answers: dict[int, A] = {}
    for number in sorted(range(part_count), key=lambda number: number != first):
        answers[number] = answer = await ask(number, starts[number])
        if number == first and is_refusal(answer):
            return [answer]
    return [answers[number] for number in range(part_count)]


async def _starts(start: bytes, part_count: int, commit_time_of: CommitTimeOf) -> Sequence[bytes]:
    """Return the start in each part; raises RequestError."""
    parsed = parse_start(start)
    if isinstance(parsed, FromMessages):
        by_part: dict[int, list[bytes]] = {}
        for message_id in start.split(b","):
            by_part.setdefault(part_of_id(message_id) % part_count, []).append(message_id)
        return [b",".join(by_part.get(number, [b"earliest"])) for number in range(part_count)]
    if not isinstance(parsed, FromMessage):
        return [start] * part_count
    own = part_of_id(start) % part_count
    partition, _, seq = start.partition(b"-")
    committed_at_ms = await commit_time_of(own, partition, seq)
    others = b"latest" if committed_at_ms is None else b"%d" % committed_at_ms
    return [start if number == own else others for number in range(part_count)]
