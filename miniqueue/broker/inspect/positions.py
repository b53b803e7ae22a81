"""The positions at which pages of a scan end, and the parsers of the words that request a page.

    0-3-17    0.high-0-170141183460469231731687303715884105700    partition or lane, range, order

Clients treat a position as opaque: they get it with a page, and send it to get the next one. It stays valid if its
message is removed, and over restarts.
"""

from typing import Final, NamedTuple

from miniqueue.core.cursor.lease import Range
from miniqueue.core.message.ids import format_message_id, parse_message_id
from miniqueue.errors.requests import InvalidOptionError

#: Default and maximum number of messages that one request reads, whether they are found or not.
DEFAULT_SCAN: Final = 10_000
MAX_SCAN: Final = 100_000
#: The number of the range of messages that were published with a delay, in positions; others are those of `Range`.
NOT_DUE: Final = 4
_MAX_ORDER: Final = 1 << 128


class ScanPosition(NamedTuple):
    """A position in a topic, in the order in which a scan reads.

    Attributes:
      partition: the number of the partition, or lane.
      range_: a `Range`, or `NOT_DUE`.
      order: the order in the range; of `NOT_DUE`, the due time and the serial number.
    """

    partition: int
    range_: int
    order: int

    def __bytes__(self) -> bytes:
        """Encode the position as clients see it."""
        return b"%b-%d" % (format_message_id(self.partition, self.range_), self.order)


def parse_scan_position(word: bytes) -> ScanPosition:
    """Parse a position; raises InvalidOptionError."""
    start, _, order = word.rpartition(b"-")
    try:
        partition, range_ = parse_message_id(start)
    except InvalidOptionError:
        range_ = NOT_DUE + 1
    if range_ > NOT_DUE or not order.isdigit() or len(order) > len(str(_MAX_ORDER)) or int(order) >= _MAX_ORDER:
        raise InvalidOptionError("a position is taken from the reply to the search that it continues")
    return ScanPosition(partition, range_, int(order))


def parse_scan(word: bytes) -> int:
    """Parse the number of messages to read; raises InvalidOptionError."""
    if not word.isdigit() or len(word) > len(str(MAX_SCAN)) or not 0 < int(word) <= MAX_SCAN:
        raise InvalidOptionError(f"a scan is a number of messages from 1 to {MAX_SCAN}")
    return int(word)


def is_before_log(range_: int) -> bool:
    """Return whether a scan reads the ranges BACK and LOG after all messages of this range."""
    return range_ not in (Range.BACK, Range.LOG)
