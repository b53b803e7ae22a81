"""Take taxi rides from Parquet through a topic to Parquet, with workers that fail, and compare what came out."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import machine
from benchmarks.rides import drawing
from benchmarks.rides.making import make_rides
from benchmarks.rides.running import Run
from benchmarks.rides.sampling import read_table, write_table

SAMPLES, EVENTS = "samples.csv", "events.csv"


def main() -> None:
    args = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and its processes with it
    if args.redraw:
        _draw(args.redraw)
        return
    if args.make:
        for file in make_rides(args.make, args.rows, args.seed):
            print(file)
        return
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="miniqueue-rides-") as folder:
        run = Run(Path(folder), args.rows, args.seed)
        try:
            run.run()
        finally:
            if args.plots:
                write_table(args.plots / SAMPLES, run.samples)
                write_table(args.plots / EVENTS, [event._asdict() for event in run.events])
                _draw(args.plots)
        described = machine.described(Path(folder))
    run.summary.append(f"machine: {described['processor']}, {described['memory']}, {described['system']}")
    print("\n".join(run.summary))


def _draw(folder: Path) -> None:
    events = [drawing.Event(float(row["seconds"]), row["what"]) for row in read_table(folder / EVENTS)]
    samples = [{name: float(text) for name, text in row.items() if text} for row in read_table(folder / SAMPLES)]
    drawing.draw(samples, events, folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rides", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="how many rides (5,000,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the rides, and of what is done to the workers (1)")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="only make the files, in that folder")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="where the plots and their figures go")
    parser.add_argument("--redraw", type=Path, metavar="FOLDER", help="only draw the plots of that folder again")
    parser.add_argument("--folder", help="where all of it is stored; by default the folder for temporary files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
