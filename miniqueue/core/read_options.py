"""What one reading of a log may ask for.

    offset 17    from message 17 on            time_ms 1700000000000    from the first message of that time on
    neither      from the earliest on

It ends with a number of messages or of bytes, whichever comes first.
"""

from typing import Final, NamedTuple

from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message_id import format_message_id, parse_message_id

#: Messages that one reading may ask for, and how many it gets if it does not say.
MAX_COUNT: Final = 10_000
DEFAULT_COUNT: Final = 100
#: With so many bytes of payloads and attributes a page ends at the latest, and if nothing is said.
MAX_BYTES: Final = 4 << 20
DEFAULT_BYTES: Final = 1 << 20
MAX_OFFSET: Final = 10**18
MAX_TIME_MS: Final = 1 << 62


class ReadOptions(NamedTuple):
    """Where to begin and when to end; not both of `offset` and `time_ms`.

    Attributes:
      offset: the number of the first message wanted.
      time_ms: or that of the first message that was committed then or later, since 1970.
      max_count: how many messages at most; 0 for the bounds alone.
      max_bytes: the page ends with the message that brings payloads and attributes to so many bytes.
    """

    offset: int | None = None
    time_ms: int | None = None
    max_count: int = DEFAULT_COUNT
    max_bytes: int = DEFAULT_BYTES


def parse_offset(word: bytes) -> int:
    """Return the number of a message; these all raise InvalidOptionError."""
    return _parsed(word, "an offset", 0, MAX_OFFSET)


def parse_time_ms(word: bytes) -> int:
    """Return a time."""
    return _parsed(word, "a time in ms since 1970", 0, MAX_TIME_MS)


def parse_count(word: bytes) -> int:
    """Return how many messages are wanted."""
    return _parsed(word, "a count", 0, MAX_COUNT)


def parse_max_bytes(word: bytes) -> int:
    """Return how many bytes are wanted."""
    return _parsed(word, "a number of bytes", 1, MAX_BYTES)


def parse_partition(word: bytes) -> int:
    """Return the number of a partition, which is written as the ids of its messages begin."""
    try:
        return parse_message_id(word + b"-0")[0]
    except InvalidOptionError as exc:
        raise InvalidOptionError("a partition is written as the ids of its messages begin, as in 0") from exc


def partition_word(number: int) -> bytes:
    """Return what `parse_partition` parses."""
    return format_message_id(number, 0).removesuffix(b"-0")


def _parsed(word: bytes, what: str, minimum: int, maximum: int) -> int:
    if not word.isdigit() or len(word) > 19 or not minimum <= int(word) <= maximum:
        raise InvalidOptionError(f"{what} is a whole number from {minimum} to {maximum}")
    return int(word)
