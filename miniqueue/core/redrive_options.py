"""How many dead letters to move, and how fast, as it is written on every protocol."""

import re
from typing import Final

from miniqueue.errors import RequestError

MAX_RATE: Final = 1_000_000.0

_NUMBER: Final = re.compile(rb"[0-9]{1,9}(\.[0-9]{1,9})?")


def parse_limit(word: bytes) -> int:
    """Return the number of messages that `word` says; raises RequestError unless it is whole and 1 or more."""
    if not (word.isdigit() and len(word) < 19 and int(word)):
        raise RequestError("a limit is a whole number of messages from 1")
    return int(word)


def parse_rate(word: bytes) -> float:
    """Return the messages in a second that `word` says; raises RequestError unless it is more than 0."""
    rate = float(word) if _NUMBER.fullmatch(word) else 0.0
    if not 0 < rate <= MAX_RATE:
        raise RequestError("a rate is a number of messages in a second, more than 0 and at most 1000000")
    return rate
