"""Run the scenarios in turn, several rounds, and print medians, spreads and ratios.

Contenders of a scenario alternate within each round, so that a noisy minute hits both. Nothing here fails when a
figure is low: machines differ. The goals are printed beside the figures.
"""

import argparse
import os
import platform
import statistics

from benchmarks import scenarios, servers
from benchmarks.scenarios import SCENARIOS, Scenario

TOOLS = ("redis-server", "redis-benchmark", "h2load", "curl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round with a fifth of the operations")
    parser.add_argument("--only", default="", help="run the scenarios whose name contains this")
    args = parser.parse_args()
    missing = [tool for tool in TOOLS if not servers.is_installed(tool)]
    if missing:
        parser.exit(2, f"not installed: {', '.join(missing)}\n")
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    rounds, scale = (1, 0.2) if args.quick else (3, 1.0)
    for scenario in SCENARIOS:
        if args.only in scenario.name:
            _report(scenario, [scenario.run(scale) for _ in range(rounds)])
    if args.only in "backlog":
        _report_backlog([scenarios.backlog(scale) for _ in range(rounds)])


def _report(scenario: Scenario, rounds: list[dict[str, float]]) -> None:
    print(scenario.name)
    for name in rounds[0]:
        values = sorted(figures[name] for figures in rounds)
        spread = f"{values[0]:,.0f} … {values[-1]:,.0f}"
        print(f"  {name:<26}{statistics.median(values):>12,.0f}{scenario.unit}   ({spread})")
    if scenario.is_ratio:
        ours, theirs = list(rounds[0])
        ratio = statistics.median(figures[ours] / figures[theirs] for figures in rounds)
        print(f"  ratio{ratio:>33.2f}     goal: at least {scenario.goal}")
    else:
        print(f"  goal: at least {scenario.goal:,.0f}{scenario.unit}")


def _report_backlog(rounds: list[scenarios.Backlog]) -> None:
    def median(name: str) -> float:
        return statistics.median(getattr(figures, name) for figures in rounds)

    print("backlog of 2,000,000 messages, after a restart, against an empty store")
    print(f"  start-up               {median('start_seconds'):>8.2f} s     goal: under 1 s")
    print(f"  memory after the load  {median('memory_mib'):>8.0f} MiB   goal: under 300 MB")
    print(f"  publish rate, ratio    {median('publish_ratio'):>8.2f}       goal: at least 0.8")
    print(f"  consume rate, ratio    {median('consume_ratio'):>8.2f}       goal: at least 0.8")


if __name__ == "__main__":
    main()
