r"""Lines of a stream, in batches: what has arrived, as soon as it has, so that a slow writer waits for nothing.

    b"one\ntwo\nthr"   then   b"ee\n"      [(1, b"one"), (2, b"two")]   then   [(3, b"three")]

A line ends with a line feed; the last one can lack it. An empty line is an empty message.
"""

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple, Protocol

from miniqueue.errors import InvalidLineError

MAX_LINE_BYTES: Final = 64 << 20
_READ_BYTES: Final = 1 << 20


class Line(NamedTuple):
    """A line, and its number from 1."""

    number: int
    content: bytes


class Readable(Protocol):
    """A stream that returns what has arrived."""

    def read1(self, size: int, /) -> bytes:
        """Return at least a byte, at the end none."""


def batches(stream: Readable | BinaryIO, max_count: int, max_bytes: int) -> Iterator[list[Line]]:
    """Yield the lines of a stream, in batches.

    Args:
      stream: the stream.
      max_count: maximum number of lines in a batch.
      max_bytes: maximum size of a batch, unless one line is larger.

    Raises InvalidLineError for a line over `MAX_LINE_BYTES`.
    """
    number, batch, size = 0, list[Line](), 0
    for lines in _complete_lines(stream):
        for content in lines:
            number += 1
            if batch and (len(batch) == max_count or size + len(content) > max_bytes):
                yield batch
                batch, size = [], 0
            batch.append(Line(number, content))
            size += len(content)
        if batch:
            yield batch
            batch, size = [], 0


def _complete_lines(stream: Readable | BinaryIO) -> Iterator[list[bytes]]:
    """Yield the lines that each read has completed, then the last line if it has no line feed."""
    rest, number = [b""], 1
    while part := stream.read1(_READ_BYTES):  # type: ignore[union-attr]  # every buffered stream has it
        first, *others = part.split(b"\n")
        rest.append(first)
        if sum(map(len, rest)) > MAX_LINE_BYTES:
            raise InvalidLineError(f"line {number}: longer than {MAX_LINE_BYTES >> 20} MiB")
        if others:
            lines = [b"".join(rest), *others[:-1]]
            rest = [others[-1]]
            number += len(lines)
            yield lines
    if last := b"".join(rest):
        yield [last]
