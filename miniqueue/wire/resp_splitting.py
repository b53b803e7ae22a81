"""Splits the replies of a peer that is trusted, unparsed, at their ends.

Replies to publishes and settles are mostly lines, which are split by C; others are measured, a reply at a time.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from miniqueue.errors import ProtocolError
from miniqueue.wire.resp_replies import OK

_LINES = frozenset(b"+-:_#,(")
_AGGREGATES = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}
_BULKS = frozenset(b"$=!")


def split_replies(data: bytes, counts: Sequence[int]) -> list[bytes]:
    """Return the replies in `data` as pieces of so many replies each; raises ProtocolError if they do not fit."""
    count = sum(counts)
    if data == OK * count:
        return [OK * each for each in counts]
    if replies := _split_usual(data, count):
        return _grouped(replies, counts)
    pieces, start = list[bytes](), 0
    for each in counts:
        end = start
        for _ in range(each):
            end = end_of_reply(data, end)
        pieces.append(data[start:end])
        start = end
    if start != len(data):
        raise ProtocolError("more replies than commands")
    return pieces


def split_each(data: bytes, count: int) -> list[bytes]:
    """Return each of so many replies in `data`; raises ProtocolError if it does not consist of them."""
    return _split_usual(data, count) or split_replies(data, [1] * count)


def _split_usual(data: bytes, count: int) -> list[bytes]:
    """Return each of so many replies, if all are lines, or all are bulk strings of one line; else nothing."""
    lines = data.split(b"\r\n")
    if len(lines) == count + 1 and {line[:1] for line in lines[:-1]} <= {b"+", b"-", b":"}:
        return [b"%b\r\n" % line for line in lines[:-1]]
    if len(lines) == 2 * count + 1 and lines[:-1:2] == list(map(b"$%d".__mod__, map(len, lines[1::2]))):
        return list(map(b"%b\r\n%b\r\n".__mod__, zip(lines[::2], lines[1::2], strict=False)))
    return []


def _grouped(replies: Sequence[bytes], counts: Sequence[int]) -> list[bytes]:
    ends = list(accumulate(counts))
    return [b"".join(replies[end - each : end]) for end, each in zip(ends, counts, strict=True)]


class WholeReplies:
    """Passes replies on that arrive in pieces, each as a whole.

    Args:
      send: gets whole replies, one or more.
      skip: how many of the first replies are dropped.
    """

    def __init__(self, send: Callable[[bytes], object], skip: int = 0) -> None:
        self._send = send
        self._skip = skip
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Take a piece."""
        data, start, end = self._rest + data, 0, 0
        while end < len(data):
            try:
                end = end_of_reply(data, end)
            except ProtocolError:  # the rest of a reply is missing
                break
            if self._skip:
                self._skip -= 1
                start = end
        self._rest = data[end:]
        if end > start:
            self._send(data[start:end])


def end_of_reply(data: bytes, start: int) -> int:
    """Return where the reply that begins at `start` ends; raises ProtocolError if it is not whole."""
    waiting = 1
    while waiting:
        waiting -= 1
        line_end = data.find(b"\r\n", start)
        if line_end < 0:
            raise ProtocolError("a reply that is not whole")
        kind = data[start]
        if kind in _LINES:
            start = line_end + 2
            continue
        size = int(data[start + 1 : line_end])
        start = line_end + 2
        if kind in _BULKS:
            start += 0 if size < 0 else size + 2
        elif kind == ord("*") and size > 0 and data.startswith(OK * size, start):  # the settles of many messages
            start += len(OK) * size
        elif kind in _AGGREGATES:
            waiting += max(size, 0) * _AGGREGATES[kind]
        else:
            raise ProtocolError("a reply of an unknown type")
    if start > len(data):
        raise ProtocolError("a reply that is not whole")
    return start
