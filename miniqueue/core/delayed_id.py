"""Ids of messages that wait for their time: `<partition>-<due_at_ms>-<serial>`, all decimal.

Such an id says where the message is stored, so finding or cancelling it is one look. When it is due the message gets
an ordinary id.
"""

import re
from typing import NamedTuple

from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message_id import parse_message_id

_ID = re.compile(rb"(\d{1,9})-(\d{1,19})-(\d{1,19})")


class DelayedId(NamedTuple):
    """Where a delayed message is."""

    partition: int
    due_at_ms: int
    serial: int

    def __bytes__(self) -> bytes:
        """Return it as clients see it."""
        return b"%d-%d-%d" % self


def parse_delayed_id(word: bytes) -> DelayedId:
    """Return the parts of an id; raises InvalidOptionError when `word` is none of a delayed message."""
    found = _ID.fullmatch(word)
    if found is None:
        raise InvalidOptionError("the id of a delayed message is three numbers, as in 0-1700000000000-17")
    return DelayedId(*map(int, found.groups()))


def parse_any_id(word: bytes) -> tuple[int, int] | DelayedId:
    """Return the parts of the id of any message; raises InvalidOptionError."""
    return parse_delayed_id(word) if word.count(b"-") > 1 else parse_message_id(word)
