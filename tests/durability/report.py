"""What a checker has counted, for people to read."""

from collections import Counter
from dataclasses import dataclass, field

BAD = ("lost", "phantom", "duplicated", "out_of_order", "broken")
GOOD = (
    "confirmed",
    "unknown",
    "delivered",
    "acknowledged",
    "forgotten",
    "deleted",
    "crashes",
    "acts",
    "answered",
    "synced",
)


@dataclass(slots=True)
class Report:
    """What was counted, and for each fault a line with the ids."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not any(self.counts[kind] for kind in BAD)

    def add(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.findings.append(f"{kind}: {text}")

    def line(self) -> str:
        """Return all counts on one line."""
        return " ".join(f"{kind}={self.counts[kind]}" for kind in (*GOOD, *BAD))
