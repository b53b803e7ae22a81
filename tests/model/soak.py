"""Many runs of the model check, on new random choices: `python -m tests.model.soak [--runs N]`.

One line for each way through the broker, and one for all; the exit code is 1 when there was a divergence. Then the
steps that show it are printed, cut down to the fewest with `--shorten`, which may take minutes.
"""

import argparse
import random
import sys
import traceback
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.chance import EVEN
from tests.model.machine import BrokerMachine, LevelDBMachine, ProtocolMachine, WaitingMachine
from tests.model.rules.limits import small_limits
from tests.model.walk import STEPS as WALK_STEPS
from tests.model.walk import walks

STEPS = 50
#: Of a hundred runs: restarts of LevelDB take their time.
SHARES = ((BrokerMachine, 59), (WaitingMachine, 15), (ProtocolMachine, 25), (LevelDBMachine, 1))


class Outcome(NamedTuple):
    """What one way showed: how many runs there were, and how many steps; `divergence` is an exception or None."""

    name: str
    run_count: int
    step_count: int
    divergence: Exception | None

    def __str__(self) -> str:
        found = 0 if self.divergence is None else 1
        return f"model: {self.name}: {self.run_count} runs, {self.step_count} steps, {found} divergences"


def check(machine: type[BrokerMachine], runs: int, *, is_repeatable: bool, shortens: bool = False) -> Outcome:
    """Run `machine` at least `runs` times, or up to the first divergence.

    Args:
      machine: what to run.
      runs: how often.
      is_repeatable: make the same runs every time.
      shortens: look for the fewest steps that show a divergence.
    """
    tally = {"runs": 0, "steps": 0}

    class Counted(machine):  # type: ignore[misc, valid-type]  # it is a class, only known when this runs
        def teardown(self) -> None:
            tally["runs"] += 1
            tally["steps"] += self.step
            super().teardown()

    chosen = settings(
        max_examples=runs,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=is_repeatable,
        backend=EVEN,
        database=None,
        phases=[Phase.generate, Phase.shrink] if shortens else [Phase.generate],
        report_multiple_bugs=False,
    )
    divergence: Exception | None = None
    try:
        with small_limits():
            run_state_machine_as_test(Counted, settings=chosen)
    except Exception as exc:
        divergence = exc
    return Outcome(machine.__name__, tally["runs"], tally["steps"], divergence)


def walk_about(runs: int) -> Outcome:
    """Make `count` new walks, up to the first that finds something; print a line."""
    first, divergence = random.randrange(10**9), None
    try:
        walks(range(first, first + runs))
    except AssertionError as exc:
        divergence = exc
    outcome = Outcome(f"walks from seed {first} on", runs, runs * WALK_STEPS, divergence)
    print(outcome, flush=True)
    if divergence is not None:
        print(divergence)
    return outcome


def soak(runs: int, *, shortens: bool = False) -> bool:
    """Make `runs` runs in all ways together, print a line for each way and one for all; return whether all agreed."""
    outcomes = []
    for machine, share in SHARES:
        outcome = check(machine, max(1, runs * share // 100), is_repeatable=False, shortens=shortens)
        outcomes.append(outcome)
        print(outcome, flush=True)
        if outcome.divergence is not None:
            traceback.print_exception(outcome.divergence)
    outcomes.append(walk_about(max(1, runs // 5)))
    divergence_count = sum(outcome.divergence is not None for outcome in outcomes)
    run_count = sum(outcome.run_count for outcome in outcomes)
    print(f"model: {run_count} runs, {divergence_count} divergences", flush=True)
    return divergence_count == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Run miniqueue beside a model of it, and compare.")
    parser.add_argument("--runs", type=int, default=20_000, help="how many, in all ways together (%(default)s)")
    parser.add_argument("--shorten", action="store_true", help="cut a divergence down to the fewest steps")
    options = parser.parse_args()
    return 0 if soak(options.runs, shortens=options.shorten) else 1


if __name__ == "__main__":
    sys.exit(main())
