"""The figures of spread topics: those of the parts that are in one shard, made one, as clients know only the whole."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

from miniqueue.broker.inspect.inspect import Figures
from miniqueue.core.message.parts import whole_of
from miniqueue.server.views.wholes import whole_figures

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
    """Return the figures of a topic, from those of each of its parts."""
    return figures[0] if len(figures) == 1 else whole_figures(figures)
