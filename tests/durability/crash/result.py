"""What came of a loop of crashes, and what it says of it."""

from dataclasses import dataclass, field

from tests.durability.report import Report


@dataclass
class Result:
    """What came of a loop."""

    name: str
    crashes: int
    report: Report
    seconds: float
    seed: int
    start_seconds: list[float]
    torn_tails: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return self.report.is_clean and not self.problems

    def line(self) -> str:
        """Return one line for a person."""
        starts = sorted(self.start_seconds) or [0.0]
        half, most = starts[len(starts) // 2], starts[len(starts) * 99 // 100]
        return (
            f"{self.name} n={self.crashes} {self.report.line()} problems={len(self.problems)}"
            f" torn_tails={self.torn_tails} start_p50={half:.2f}s start_p99={most:.2f}s"
            f" seed={self.seed} {self.seconds:.0f}s"
        )

    def faults(self, limit: int = 20) -> str:
        """Return what was wrong, with the ids."""
        return "\n".join([*self.report.findings[:limit], *self.problems])
