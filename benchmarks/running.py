"""Run a scenario: its contenders take turns within each round, so that a noisy minute hits all of them."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from benchmarks.bench import Bench, MeasurementError
from benchmarks.results import Measured
from benchmarks.scenario import Contender, Measure, Scenario

Tell = Callable[[str], None]


def run(scenario: Scenario, bench: Bench, rounds: int, tell: Tell) -> Measured:
    """Measure a scenario; a contender that is not installed, or fails, is left out and named."""
    measured = Measured()
    with ExitStack() as stack:
        ready = _prepared(scenario, bench, measured, stack, tell)
        for number in range(rounds):
            for contender, (its_bench, measure) in list(ready.items()):
                tell(f"{scenario.name}: round {number + 1}: {contender}")
                try:
                    measured.add(contender, measure())
                except MeasurementError as error:
                    measured.drop(contender, str(error))
                    del ready[contender]
                else:
                    measured.commands[contender] = list(its_bench.commands.values())
                    measured.servers[contender] = list(its_bench.servers.values())
    return measured


def _prepared(
    scenario: Scenario, bench: Bench, measured: Measured, stack: ExitStack, tell: Tell
) -> dict[str, tuple[Bench, Measure]]:
    ready = {}
    for contender in scenario.contenders:
        its_bench = replace(bench, commands={}, servers={})
        tell(f"{scenario.name}: {contender.name}")
        try:
            ready[contender.name] = its_bench, stack.enter_context(_entered(contender, its_bench))
        except MeasurementError as error:
            measured.drop(contender.name, str(error))
    return ready


def _entered(contender: Contender, bench: Bench) -> AbstractContextManager[Measure]:
    if contender.program and shutil.which(contender.program) is None:
        raise MeasurementError(f"{contender.program} is not installed")
    return contender.prepare(bench)
