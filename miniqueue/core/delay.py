"""How a delay is written, on every protocol."""

import re

from miniqueue.errors import InvalidDelayError

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?|\.[0-9]+")


def parse_delay(text: str) -> float:
    """Return the seconds that `text` says: a decimal number, 0 or more.

    Raises InvalidDelayError for anything else; Python's `float` would also take `1_0`, `nan` and `infinity`.
    """
    if _SECONDS.fullmatch(text) is None:
        raise InvalidDelayError
    return float(text)
