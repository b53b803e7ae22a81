"""The options of a page of the log.

    offset 17    from message 17 on            time_ms 1700000000000    from the first message of that time on
    neither      from the earliest message on

A page ends with a number of messages or of bytes, whichever comes first.
"""

from typing import Final, NamedTuple

from miniqueue.core.message.ids import format_message_id, parse_message_id
from miniqueue.errors.requests import InvalidOptionError

#: Maximum and default number of messages of a page; both bound the memory that one request needs.
MAX_COUNT: Final = 10_000
DEFAULT_COUNT: Final = 100
#: Maximum and default size of the payloads and attributes of a page.
MAX_BYTES: Final = 4 << 20
DEFAULT_BYTES: Final = 1 << 20
#: Maximum offset; it fits in the 8 bytes that the store has for a number.
MAX_OFFSET: Final = 10**18


class ReadOptions(NamedTuple):
    """The start and the end of a page; at most one of `offset` and `time_ms` is set.

    Attributes:
      offset: the sequence number of the first message.
      time_ms: the page begins with the first message that was committed at this time or later, in ms since 1970.
      max_count: maximum number of messages; 0: only the bounds of the log.
      max_bytes: the page ends with the message that brings payloads and attributes to this size.
    """

    offset: int | None = None
    time_ms: int | None = None
    max_count: int = DEFAULT_COUNT
    max_bytes: int = DEFAULT_BYTES


def parse_offset(word: bytes) -> int:
    """Parse an offset; raises InvalidOptionError, as all parsers of this module do."""
    return _parsed(word, "an offset", 0, MAX_OFFSET)


def parse_count(word: bytes) -> int:
    """Parse a number of messages."""
    return _parsed(word, "a count", 0, MAX_COUNT)


def parse_max_bytes(word: bytes) -> int:
    """Parse a number of bytes."""
    return _parsed(word, "a number of bytes", 1, MAX_BYTES)


def parse_partition(word: bytes) -> int:
    """Parse a partition, which has the form of the start of its message ids; return the number of its lane."""
    try:
        return parse_message_id(word + b"-0")[0]
    except InvalidOptionError as exc:
        raise InvalidOptionError("a partition is written as the ids of its messages begin, as in 0") from exc


def partition_word(number: int) -> bytes:
    """Encode the number of a lane as `parse_partition` expects it."""
    return format_message_id(number, 0).removesuffix(b"-0")


def _parsed(word: bytes, kind: str, minimum: int, maximum: int) -> int:
    if not word.isdigit() or len(word) > 19 or not minimum <= int(word) <= maximum:
        raise InvalidOptionError(f"{kind} is a whole number from {minimum} to {maximum}")
    return int(word)
