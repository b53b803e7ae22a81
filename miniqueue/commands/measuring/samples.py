"""Times of round trips, and what is computed from them. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_PERCENTILES: Final = (50, 95, 99)


@dataclass(slots=True)
class Samples:
    """What one step of a measurement has done.

    Attributes:
      step: the name of the step.
      message_count: number of messages.
      byte_count: number of bytes of their payloads.
      seconds: how long the step took.
      latencies: the seconds of each round trip.
    """

    step: str
    message_count: int = 0
    byte_count: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return the figures of the step; those that cannot be computed are None."""
        ordered = sorted(self.latencies)
        return {
            "step": self.step,
            "messages": self.message_count,
            "seconds": round(self.seconds, 3),
            "messages_per_second": _ratio(self.message_count, self.seconds),
            "bytes_per_second": _ratio(self.byte_count, self.seconds),
            **{f"p{percent}_ms": _ms(percentile(ordered, percent)) for percent in _PERCENTILES},
            "max_ms": _ms(percentile(ordered, 100)),
        }


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that at least `percent` of all values do not exceed; None if there are none."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _ratio(count: int, seconds: float) -> float | None:
    return round(count / seconds, 1) if seconds > 0 else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
