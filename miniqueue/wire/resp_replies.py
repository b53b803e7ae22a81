r"""Encodes RESP replies, in version 2 and, after `HELLO 3`, version 3 of the protocol.

    simple  "+" text CRLF          error  "-" CODE " " text CRLF      integer ":" n CRLF
    bulk    "$" size CRLF bytes CRLF                                  array   "*" count CRLF replies
    version 3 only: null "_" CRLF, map "%" count CRLF replies, push ">" count CRLF replies, "#t", "," number

Version 2 has substitutes, as in Redis: null is "$-1", a map a flat array, a push an array, booleans are 1 and 0, and
other numbers bulk strings.

Source: https://redis.io/docs/latest/develop/reference/protocol-spec/.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from miniqueue.core.message.numerals import numeral_runs
from miniqueue.core.message.parts import without_parts

RESP2: Final = 2
RESP3: Final = 3

Value: TypeAlias = "str | bytes | int | float | bool | Sequence[Value] | Mapping[Value, Value] | None"

OK: Final = b"+OK\r\n"
PONG: Final = b"+PONG\r\n"

# Replaced by spaces, so that a line stays one line, and a terminal that shows it does not interpret it.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def simple(text: str) -> bytes:
    """Encode a short status; control characters become spaces."""
    return b"+" + _line(text)


def error(code: str, text: str) -> bytes:
    """Encode an error: its code, then the text; control characters become spaces."""
    return b"-" + _line(f"{code} {without_parts(text)}")


def integer(number: int) -> bytes:
    """Encode a whole number."""
    return b":%d\r\n" % number


def bulk(content: bytes) -> bytes:
    """Encode bytes as a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(content), content)


def size_lines(contents: Sequence[bytes]) -> list[bytes]:
    """Return the size line of each of `contents` as a bulk string, after the CRLF of the line before it."""
    sizes = set(map(len, contents))
    if len(sizes) == 1:  # fast path: messages usually have the same size
        return [b"\r\n$%d\r\n" % sizes.pop()] * len(contents)
    lines = {size: b"\r\n$%d\r\n" % size for size in sizes}
    return list(map(lines.__getitem__, map(len, contents)))


def numbered_bulks(prefix: bytes, numbers: range) -> bytes:
    """Encode `prefix` followed by each of `numbers`, as bulk strings.

    The numbers must be consecutive and not negative.
    """
    encoded: list[bytes] = []
    for beginning, endings in numeral_runs(numbers.start, numbers.stop):
        start = prefix + beginning
        header = b"$%d\r\n%b" % (len(start) + len(endings[0]), start)
        encoded += header, (b"\r\n" + header).join(endings), b"\r\n"
    return b"".join(encoded)


def array(items: Sequence[bytes]) -> bytes:
    """Encode an array of encoded replies."""
    return joined_array(len(items), b"".join(items))


def array_of_bulks(contents: Sequence[bytes]) -> bytes:
    """Encode an array of bulk strings, of which there may be thousands."""
    pieces = [b""] * (2 * len(contents))
    if pieces:
        pieces[0::2], pieces[1::2] = size_lines(contents), contents
        pieces = [pieces[0].removeprefix(b"\r\n"), *pieces[1:], b"\r\n"]
    return joined_array(len(contents), b"".join(pieces))


def joined_array(count: int, items: bytes) -> bytes:
    """Encode an array of `count` encoded replies, which are joined."""
    return b"*%d\r\n%b" % (count, items)


def joined_arrays(arrays: Sequence[bytes]) -> bytes:
    """Return one array of the elements of several encoded ones, which are not parsed."""
    pieces = [array.partition(b"\r\n") for array in arrays]
    return joined_array(sum(int(head[1:]) for head, _, _ in pieces), b"".join(rest for _, _, rest in pieces))


def null(protocol: int) -> bytes:
    """Encode null."""
    return b"_\r\n" if protocol == RESP3 else b"$-1\r\n"


def map_of(pairs: Iterable[tuple[bytes, bytes]], protocol: int) -> bytes:
    """Encode pairs of encoded replies as a map."""
    flat = [item for pair in pairs for item in pair]
    if protocol != RESP3:
        return array(flat)
    return b"%%%d\r\n%b" % (len(flat) // 2, b"".join(flat))


def push(items: Sequence[bytes], protocol: int) -> bytes:
    """Encode a push, which the server sends without a command, of encoded replies."""
    if protocol != RESP3:
        return array(items)
    return b">%d\r\n%b" % (len(items), b"".join(items))


def encode(value: Value, protocol: int) -> bytes:
    """Encode a value: text and bytes as bulk strings, lists and mappings recursively."""
    match value:
        case None:
            return null(protocol)
        case str():
            return bulk(value.encode("utf-8", "replace"))
        case bytes():
            return bulk(value)
        case bool() | int() | float():
            return _encode_number(value, protocol)
        case Mapping():
            return map_of(((encode(k, protocol), encode(v, protocol)) for k, v in value.items()), protocol)
        case _:
            return array([encode(item, protocol) for item in value])


def _encode_number(value: float, protocol: int) -> bytes:
    if isinstance(value, bool):
        if protocol == RESP3:
            return b"#t\r\n" if value else b"#f\r\n"
        return integer(value)
    if isinstance(value, int):
        return integer(value)
    text = repr(value).encode()
    return b",%b\r\n" % text if protocol == RESP3 else bulk(text)


def _line(text: str) -> bytes:
    return _CONTROL.sub(" ", text).encode("utf-8", "replace") + b"\r\n"
