"""Message ids as clients see them: `<partition>-<seq>`, both decimal."""

import re

from miniqueue.core.look_errors import InvalidOptionError

_ID = re.compile(rb"(\d{1,9})-(\d{1,19})")


def format_message_id(partition: int, seq: int) -> bytes:
    """Return the id of a message."""
    return b"%d-%d" % (partition, seq)


def parse_message_id(word: bytes) -> tuple[int, int]:
    """Return partition and sequence number; raises InvalidOptionError when `word` is no id."""
    found = _ID.fullmatch(word)
    if found is None:
        raise InvalidOptionError("the id of a message is its partition and its number, as in 0-17")
    return int(found[1]), int(found[2])
