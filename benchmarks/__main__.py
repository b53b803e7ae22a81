"""Run the scenarios in turn, several rounds each, and print medians, spreads, ratios and goals.

Nothing here fails when a figure is low: machines differ. What is not installed is left out and named.
"""

import argparse
import json
import re
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, plots, report, running
from benchmarks.bench import Bench
from benchmarks.results import Results
from benchmarks.scenario import Scenario
from benchmarks.scenarios import SCENARIOS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
FIGURES = DOCS / "benchmarks"


def main() -> None:
    args = _arguments()
    chosen = [scenario for scenario in SCENARIOS if re.search(args.only, scenario.name) or args.only == scenario.group]
    if args.quick:
        chosen = [scenario for scenario in chosen if scenario.is_quick or args.only]
    if args.list:
        print("\n".join(f"{scenario.group}: {scenario.name}" for scenario in chosen))
        return
    if args.write:
        plots.require()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # for the idle connections; inherited by all servers
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="miniqueue-bench-") as folder:
        results = _run(chosen, Path(folder), rounds=args.rounds or (1 if args.quick else 3), is_quick=args.quick)
    if args.write:
        _write(results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the scenarios with goals, one round, small counts")
    parser.add_argument("--only", default="", metavar="REGEX", help="scenarios whose name matches, or of that group")
    parser.add_argument("--rounds", type=int, help="how often to measure everything (3, or 1 with --quick)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, its plots and its figures")
    parser.add_argument("--folder", help="where stores are made; by default the system's folder for temporary files")
    parser.add_argument("--list", action="store_true", help="name the scenarios and do nothing")
    return parser.parse_args()


def _run(chosen: Sequence[Scenario], folder: Path, *, rounds: int, is_quick: bool) -> Results:
    results = Results(machine.described(folder), rounds, is_quick)
    print("\n".join(f"{name}: {value}" for name, value in results.machine.items()), end="\n\n")
    bench = Bench(folder, seconds=0.2, scale=0.05) if is_quick else Bench(folder)
    began_at = time.perf_counter()
    for scenario in chosen:
        results.scenarios[scenario.name] = running.run(scenario, bench, rounds, _progress)
        _progress("")
        print(report.text(scenario, results.scenarios[scenario.name]), flush=True)
    results.seconds = time.perf_counter() - began_at
    print(f"{results.seconds:.0f} s in all")
    return results


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:110]}", end="", file=sys.stderr, flush=True)


def _write(results: Results) -> None:
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / "results.json").write_text(json.dumps(results.to_json(), indent=1, ensure_ascii=False) + "\n")
    drawn = [(title, f"{FIGURES.name}/{name}") for title, name in plots.draw(results, FIGURES)]
    PAGE.write_text(report.page(SCENARIOS, results, drawn))
    print(f"wrote {PAGE} and {FIGURES}")


if __name__ == "__main__":
    main()
