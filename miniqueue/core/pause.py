"""What a pause is: which sides of a topic it stops, and until when."""

import math
from enum import Enum

from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.errors import InvalidDelayError

#: The end of the year 9999: a pause without an end.
FOREVER_MS = 253_402_300_799_999


class Side(Enum):
    """A way through a topic; the value is what clients call it."""

    IN = "in"
    OUT = "out"
    BOTH = "both"

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of a topic that say until when this is paused."""
        sides = (Side.IN, Side.OUT) if self is Side.BOTH else (self,)
        return tuple(f"paused_{side.value}_until_ms" for side in sides)


def parse_side(word: str) -> Side:
    """Return the side that a client names; raises InvalidOptionError."""
    try:
        return Side(word.lower())
    except ValueError as exc:
        raise InvalidOptionError("a side is one of in, out, both") from exc


def ends_at_ms(now_ms: int, seconds: float | None) -> int:
    """Return when a pause is over that begins now; raises InvalidDelayError.

    Args:
      now_ms: since 1970.
      seconds: how long it lasts; None for ever.
    """
    if seconds is None:
        return FOREVER_MS
    if not 0 <= seconds <= (FOREVER_MS - now_ms) / 1000:
        raise InvalidDelayError
    return now_ms + math.ceil(seconds * 1000)
