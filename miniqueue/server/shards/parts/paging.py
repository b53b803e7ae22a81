"""Pages of a spread topic: its parts are asked one after the other, until the page is full.

    10 messages ─▶ part 0: 10 ─ 4 messages ─▶ part 1: 6 ─ 6 messages ─▶ the page
    10 messages after 1024-7 ─▶ part 1: after 1024-7 ─▶ part 2: from its beginning …

Ids, receipts, and positions contain the part, so that a page continues where the one before has ended.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar

from miniqueue.broker.inspect.peek import MAX_BYTES
from miniqueue.core.message.parts import PART_BITS

A = TypeVar("A")


class Wanted(NamedTuple):
    """What a part is asked for.

    Attributes:
      max_count: maximum number of elements.
      scan: maximum number of messages that a search reads.
      is_first: whether the page begins in this part, so that the position of the request concerns it.
    """

    max_count: int
    scan: int
    is_first: bool


class PartPage(NamedTuple):
    """What a part has answered.

    Attributes:
      content: the elements, in whatever form.
      row_count: their number.
      size_bytes: their size, about.
      scanned: number of messages that a search has read.
      following: the position from which a search continues in this part; None if it has reached the end.
    """

    content: Any
    row_count: int
    size_bytes: int
    scanned: int = 0
    following: Any = None


class Page(NamedTuple, Generic[A]):
    """What the parts have answered together.

    Attributes:
      contents: the content of each part that has one.
      error: the answer instead of the page; None if there is a page.
      scanned: number of messages that a search has read.
      following: the position from which a search continues; None if it has reached the end.
    """

    contents: list[Any]
    error: A | None = None
    scanned: int = 0
    following: Any = None


async def page_of(
    parts: range,
    ask: Callable[[int, Wanted], Awaitable[A]],
    page_in: Callable[[A], PartPage | None],
    is_absent: Callable[[A], bool],
    count: int,
    scan: int = sys.maxsize,
) -> Page[A]:
    """Ask parts one after the other for at most `count` elements in all.

    Args:
      parts: the numbers of the parts, from that in which the page begins.
      ask: asks a part.
      page_in: returns what is in an answer; None for an error.
      is_absent: whether an error says that the part has nothing, so that the others make the page.
      count: maximum number of elements.
      scan: maximum number of messages that a search reads.
    """
    contents, absent = list[Any](), None
    row_count = size_bytes = scanned = 0
    for number in parts:
        if row_count >= count or scanned >= scan or size_bytes >= MAX_BYTES:  # so much can be less than a part has
            return Page(contents, None, scanned, start_of(number))
        answer = await ask(number, Wanted(count - row_count, scan - scanned, number == parts.start))
        part_page = page_in(answer)
        if part_page is None:
            if not is_absent(answer):
                return Page([], answer)
            absent = answer if absent is None else absent
            continue
        contents.append(part_page.content)
        row_count += part_page.row_count
        size_bytes += part_page.size_bytes
        scanned += part_page.scanned
        if part_page.following is not None:
            return Page(contents, None, scanned, part_page.following)
    return Page(contents, None if contents else absent, scanned)


def start_of(number: int) -> bytes:
    """Return a position before all of a part, which no message has."""
    return b"%d-0-0" % (number << PART_BITS)
