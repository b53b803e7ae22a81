"""What was measured, and what follows from it: medians, spreads, ratios, goals met or missed. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Self

from benchmarks.scenario import Goal, Scenario


@dataclass
class Measured:
    """The figures of one scenario.

    Attributes:
      rounds: the values of all rounds, by contender and figure.
      absent: contenders that could not be measured, and why.
      commands: the loads that were run for each contender.
      servers: the servers that were run for it.
    """

    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    servers: dict[str, list[str]] = field(default_factory=dict)

    def add(self, contender: str, figures: Mapping[str, float]) -> None:
        """Add the figures of one round."""
        for figure, value in figures.items():
            self.rounds.setdefault(contender, {}).setdefault(figure, []).append(value)

    def drop(self, contender: str, reason: str) -> None:
        """Leave a contender out."""
        self.rounds.pop(contender, None)
        self.absent[contender] = reason

    def join(self, later: Self) -> None:
        """Add the rounds of a later run; a contender that is absent in one of them is left out."""
        for contender, figures in later.rounds.items():
            for figure, values in figures.items():
                self.rounds.setdefault(contender, {}).setdefault(figure, []).extend(values)
        for contender, reason in (later.absent | self.absent).items():
            self.drop(contender, reason)
        self.commands = later.commands | self.commands
        self.servers = later.servers | self.servers

    @property
    def round_counts(self) -> set[int]:
        """The numbers of rounds; usually one number, the same for all."""
        return {len(values) for figures in self.rounds.values() for values in figures.values()}

    def values(self, contender: str, figure: str) -> list[float]:
        """Return the values of all rounds; none if it was not measured."""
        return self.rounds.get(contender, {}).get(figure, [])

    def median(self, contender: str, figure: str) -> float | None:
        """Return the median of the rounds."""
        values = self.values(contender, figure)
        return median(values) if values else None

    def compared(self, contender: str, against: str, figure: str, by: str = "ratio") -> float | None:
        """Return the median of the ratios, or differences, of the rounds; both values of each are of one round."""
        pairs = list(zip(self.values(contender, figure), self.values(against, figure), strict=False))
        if by == "difference":
            return median(value - other for value, other in pairs) if pairs else None
        ratios = [value / other for value, other in pairs if other]
        return median(ratios) if ratios else None


@dataclass
class Results:
    """A whole run, or several that were joined.

    Attributes:
      machine: what it ran on, by name.
      is_quick: whether the counts were small; then the figures say little.
      load_seconds: about how long a rate was measured.
      seconds: how long all of it took.
      made_by: the command of each run, without folders.
      scenarios: the measured scenarios, by name.
    """

    machine: dict[str, str]
    is_quick: bool
    load_seconds: float
    seconds: float = 0.0
    made_by: list[str] = field(default_factory=list)
    scenarios: dict[str, Measured] = field(default_factory=dict)

    def join(self, later: Self) -> None:
        """Add the scenarios, and the rounds, of a later run."""
        self.seconds += later.seconds
        self.made_by += later.made_by
        for name, measured in later.scenarios.items():
            self.scenarios.setdefault(name, Measured()).join(measured)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return what `to_json` was made of."""
        scenarios = {name: Measured(**measured) for name, measured in value["scenarios"].items()}
        return cls(**(value | {"scenarios": scenarios}))


@dataclass(frozen=True)
class Verdict:
    """What became of a goal; no value means that it was not measured, for this reason."""

    scenario: str
    goal: Goal
    value: float | None
    reason: str = ""

    @property
    def word(self) -> str:
        """`met`, `missed` or `not available`."""
        if self.value is None:
            return "not available"
        return "met" if self.goal.is_met(self.value) else "missed"


def verdicts(scenario: Scenario, measured: Measured) -> list[Verdict]:
    """Judge the goals of a scenario."""
    return [_verdict(scenario.name, goal, measured) for goal in scenario.goals]


def _verdict(name: str, goal: Goal, measured: Measured) -> Verdict:
    if goal.against:
        value = measured.compared(goal.of, goal.against, goal.figure, goal.by)
    else:
        value = measured.median(goal.of, goal.figure)
    return Verdict(name, goal, value, measured.absent.get(goal.of) or measured.absent.get(goal.against, ""))
