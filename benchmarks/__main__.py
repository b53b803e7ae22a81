"""Run the scenarios in turn, several rounds each, and print medians, spreads, ratios and goals.

Nothing here fails when a figure is low: machines differ. What is not installed is left out and named.
"""

import argparse
import json
import re
import resource
import shlex
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
RAW = FIGURES / "results.json"


def main() -> None:
    args = _arguments()
    chosen = _chosen(args.only, is_quick=args.quick)
    if args.list:
        print("\n".join(f"{scenario.group}: {scenario.name}" for scenario in chosen))
        return
    if args.write or args.add or args.rewrite:
        plots.require()
    results = _read() if args.rewrite else _run(chosen, args)
    if args.add:
        results = _joined(_read(), results)
    if args.write or args.add or args.rewrite:
        _write(results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="those with goals, but not of Spark, one round, small")
    parser.add_argument("--only", default="", metavar="REGEX", help="scenarios whose name matches, or of that group")
    parser.add_argument("--rounds", type=int, help="how often to measure everything (3, or 1 with --quick)")
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long a rate is measured (1)")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md, its plots and its figures")
    parser.add_argument("--add", action="store_true", help="the same, with these rounds added to those that are there")
    parser.add_argument("--rewrite", action="store_true", help="measure nothing; write the page from its figures")
    parser.add_argument("--folder", help="where stores are made; by default the system's folder for temporary files")
    parser.add_argument("--list", action="store_true", help="name the scenarios and do nothing")
    return parser.parse_args()


def _chosen(only: str, *, is_quick: bool) -> list[Scenario]:
    """Return the scenarios to run; what is asked for by name is also run quickly."""
    matching = [scenario for scenario in SCENARIOS if re.search(only, scenario.name) or only == scenario.group]
    return [scenario for scenario in matching if scenario.is_quick or only or not is_quick]


def _run(chosen: Sequence[Scenario], args: argparse.Namespace) -> Results:
    rounds = args.rounds or (1 if args.quick else 3)
    _allow_many_connections()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="miniqueue-bench-") as folder:
        bench = Bench(Path(folder), seconds=args.seconds)
        if args.quick:
            bench = Bench(Path(folder), seconds=0.2, scale=0.05)
        results = Results(machine.described(Path(folder)), args.quick, bench.seconds, made_by=[_command(args.folder)])
        print("\n".join(f"{name}: {value}" for name, value in results.machine.items()), end="\n\n")
        if args.quick:
            print("Quick: counts, also those in names, are a twentieth; the figures say little.\n")
        _measure(chosen, bench, rounds, results)
    print(f"{results.seconds:.0f} s in all")
    return results


def _command(folder: str | None) -> str:
    """Return the command of this run, for the page."""
    words = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    return words.replace(folder, "…") if folder else words


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as it goes; the servers inherit it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _measure(chosen: Sequence[Scenario], bench: Bench, rounds: int, results: Results) -> None:
    began_at = time.perf_counter()
    for scenario in chosen:
        measured = running.run(scenario, bench, rounds, _progress)
        _progress("")
        print(report.text(scenario, measured), flush=True)
        results.scenarios[scenario.name] = measured
        results.seconds = time.perf_counter() - began_at


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:110]}", end="", file=sys.stderr, flush=True)


def _read() -> Results:
    try:
        return Results.from_json(json.loads(RAW.read_text()))
    except (OSError, TypeError) as error:
        raise SystemExit(f"{RAW.name} is missing, or of another version; --write replaces it. ({error})") from error


def _joined(earlier: Results, later: Results) -> Results:
    if _conditions(earlier) != _conditions(later):
        raise SystemExit(
            "The page is of another day or machine, or of other versions, counts or seconds: nothing was added to it."
        )
    earlier.join(later)
    return earlier


def _conditions(results: Results) -> tuple[dict[str, str], bool, float]:
    return results.machine, results.is_quick, results.load_seconds


def _write(results: Results) -> None:
    FIGURES.mkdir(exist_ok=True)
    RAW.write_text(json.dumps(results.to_json(), indent=1, ensure_ascii=False) + "\n")
    drawn = [(title, f"{FIGURES.name}/{name}") for title, name in plots.draw(results, FIGURES)]
    PAGE.write_text(report.page(SCENARIOS, results, drawn))
    print(f"wrote {PAGE} and {FIGURES}")


if __name__ == "__main__":
    main()
