"""The figures of spread topics: those of the parts that are in one shard, made one, as clients know only the whole.

    orders␟0 {ready 2, oldest_seconds 7}  orders␟4 {ready 3, oldest_seconds 9}   ─▶   orders {ready 5, oldest_seconds 9}

Counts and rates are added; of times, the longest is that of the whole, so latencies are at most as long as shown.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from miniqueue.broker.inspect.inspect import Figures
from miniqueue.core.message.parts import whole_of

#: Figures that are not added: the largest, or the smallest, is that of the whole.
_LARGEST: Final = ("_seconds", "lag_max", "paused", "paused_in", "paused_out")
_SMALLEST: Final = "unread_seconds"

PartT = TypeVar("PartT")


async def in_wholes(parts: AsyncGenerator[tuple[bytes, PartT], None]) -> AsyncGenerator[tuple[str, list[PartT]], None]:
    """Yield the name of each topic with what belongs to it; `parts` yields names in order, those of parts, too."""
    whole, of_whole = b"", list[PartT]()
    async with aclosing(parts):
        async for name, part in parts:
            if of_whole and whole_of(name) != whole:
                yield whole.decode(), of_whole
                of_whole = []
            whole = whole_of(name)
            of_whole.append(part)
    if of_whole:
        yield whole.decode(), of_whole


def combined(figures: Sequence[Figures]) -> Figures:
    """Return the figures of a topic, from those of each of its parts; None if unknown in all of them."""
    if len(figures) == 1:
        return figures[0]
    whole: Figures = {}
    for name in figures[0]:
        known = [value for each in figures if (value := each[name]) is not None]
        whole[name] = _whole_of(name)(known) if known else None
    return whole


def _whole_of(name: str) -> Callable[[Iterable[float]], float]:
    return min if name == _SMALLEST else max if name.endswith(_LARGEST) else sum
