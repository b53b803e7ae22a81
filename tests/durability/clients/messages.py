"""Payloads that say which message they are, and whose every byte can be checked."""

import re
from hashlib import blake2b

_HEADER = re.compile(rb"(\d{1,18}):")
#: Sizes are spread evenly over their logarithm: many are small, some fill a block of a log.
_MAX_DOUBLINGS = 11


def payload_of(id_: int) -> bytes:
    """Return the bytes of message `id_`: its number, then 16 bytes to 32 kB that follow from it."""
    digest = blake2b(b"%d" % id_).digest()
    doublings = digest[0] % (_MAX_DOUBLINGS + 1)
    size = 16 + int.from_bytes(digest[1:5], "big") % (16 << doublings)
    return b"%d:" % id_ + (digest * (size // len(digest) + 1))[:size]


def id_of(payload: bytes) -> int | None:
    """Return the number of a message, or None when these are not the bytes of any."""
    match = _HEADER.match(payload)
    if match is None or payload_of(int(match[1])) != payload:
        return None
    return int(match[1])
