"""The limit and the rate of a redrive, in the syntax of every protocol."""

import re
from typing import Final

from miniqueue.errors import RequestError

#: Maximum rate of a redrive, in messages per second.
MAX_RATE: Final = 1_000_000.0

_NUMBER: Final = re.compile(rb"[0-9]{1,9}(\.[0-9]{1,9})?")


def parse_limit(word: bytes) -> int:
    """Parse a number of messages; raises RequestError unless it is a whole number from 1."""
    if not (word.isdigit() and len(word) < 19 and int(word)):
        raise RequestError("a limit is a whole number of messages from 1")
    return int(word)


def parse_rate(word: bytes) -> float:
    """Parse a number of messages per second; raises RequestError unless it is more than 0 and at most `MAX_RATE`."""
    rate = float(word) if _NUMBER.fullmatch(word) else 0.0
    if not 0 < rate <= MAX_RATE:
        raise RequestError("a rate is a number of messages in a second, more than 0 and at most 1000000")
    return rate
