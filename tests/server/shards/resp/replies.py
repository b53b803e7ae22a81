"""Replies, parsed."""

from typing import Any

import hiredis


def value_of(reply: bytes) -> Any:
    """Return the value of a whole reply; errors are values, too."""
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


def map_of(flat: list) -> dict[bytes, Any]:
    """Return a map of version 2 of the protocol."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
