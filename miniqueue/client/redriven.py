"""What a redrive has done."""

from typing import NamedTuple


class Redriven(NamedTuple):
    """What a redrive has done.

    Attributes:
      moved: how many messages were moved.
      remaining: how many are ready in the topic, and were not moved; None if that is not known.
      error: what stopped it, with its code in front, such as `LIMIT the topic holds …`; "" if nothing did.
    """

    moved: int
    remaining: int | None
    error: str = ""
