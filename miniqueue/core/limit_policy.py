"""What becomes of a message for which its topic has no room, or of those that are there."""

from enum import StrEnum
from typing import Final


class LimitPolicy(StrEnum):
    """Who gives way; the values are those of settings."""

    REFUSE = "refuse"
    DROP_OLDEST = "drop-oldest"
    DEAD_LETTER = "dead-letter"


ALL_POLICIES: Final = frozenset(LimitPolicy)
