"""The plots of docs/benchmarks.md: throughput by pipeline depth, by payload size and by backlog size, as SVG."""

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path

from benchmarks import queues
from benchmarks.queues import MINIQUEUE, Shape, size_name
from benchmarks.results import Results
from benchmarks.scenarios import backlog, publish


@dataclass(frozen=True)
class Point:
    """One point: its label on the x axis, and where its value is found."""

    label: str
    scenario: str
    contender: str
    figure: str


@dataclass(frozen=True)
class Plot:
    """A plot: the name of its file, its titles, and its lines by name."""

    name: str
    title: str
    x_title: str
    lines: dict[str, list[Point]]


def _published(name: str, title: str, x_title: str, shapes: dict[str, Shape]) -> Plot:
    lines = {
        queue.name: [Point(label, publish.title(shape), queue.name, publish.RATE) for label, shape in shapes.items()]
        for queue in queues.ALL
    }
    return Plot(name, title, x_title, lines)


def _stored() -> Plot:
    scenario = backlog.SCENARIOS[0].name
    lines = {
        f"{queue.name}: {figure}": [
            Point(f"{size:,}", scenario, backlog.title(queue, size), figure) for size in backlog.SIZES
        ]
        for queue in backlog.QUEUES
        for figure in (backlog.PUBLISH, backlog.CONSUME)
    }
    return Plot("backlog", "Throughput by backlog size", "messages stored", lines)


PLOTS = (
    _published(
        "pipeline",
        "Publishing 10 B on 50 connections, by pipeline depth",
        "pipeline depth",
        {str(depth): Shape(10, depth) for depth in publish.PIPELINES},
    ),
    _published(
        "payload",
        "Publishing at pipeline 32 on 50 connections, by payload size",
        "payload",
        {size_name(size): Shape(size, 32) for size in publish.PAYLOADS},
    ),
    _stored(),
)


def require() -> None:
    """Stop now, and not after half an hour, when matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("--write needs matplotlib: pip install -e '.[bench]'")


def draw(results: Results, folder: Path) -> list[tuple[str, str]]:
    """Write the plots there is something for; return their titles and file names. Needs matplotlib."""
    drawn = []
    for plot in PLOTS:
        lines = {name: line for name, points in plot.lines.items() if (line := _measured(points, results))}
        if lines:
            folder.mkdir(parents=True, exist_ok=True)
            _draw(plot, lines, folder / f"{plot.name}.svg")
            drawn.append((plot.title, f"{plot.name}.svg"))
    return drawn


def _measured(points: list[Point], results: Results) -> list[tuple[str, float, float, float]]:
    """Return label, median, least and most of the points that were measured."""
    line = []
    for point in points:
        measured = results.scenarios.get(point.scenario)
        values = measured.values(point.contender, point.figure) if measured else []
        middle = measured.median(point.contender, point.figure) if measured else None
        if middle is not None:
            line.append((point.label, middle, min(values), max(values)))
    return line


def ticks(least: float, most: float) -> list[float]:
    """Return the marks of an axis with all values between them, two at least: 1, 2 and 5 times powers of ten."""
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
    marks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    first, last = max(mark for mark in marks if mark < least), min(mark for mark in marks if mark > most)
    return [mark for mark in marks if first <= mark <= last]


def _draw(plot: Plot, lines: dict[str, list[tuple[str, float, float, float]]], path: Path) -> None:
    import matplotlib  # noqa: PLC0415 - only `--write` needs it

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "miniqueue"  # the same figures make the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, not outlines
    from matplotlib import pyplot  # noqa: PLC0415

    labels = list(dict.fromkeys(point.label for points in plot.lines.values() for point in points))
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name, line in lines.items():
        at = [labels.index(label) for label, *_ in line]
        middles = [middle for _, middle, _, _ in line]
        errors = [[middle - least for _, middle, least, _ in line], [most - middle for _, middle, _, most in line]]
        style = {"linestyle": "-", "linewidth": 2} if name.startswith(MINIQUEUE.name) else {"linestyle": "--"}
        axes.errorbar(at, middles, yerr=errors, marker="o", markersize=4, capsize=3, label=name, **style)
    axes.set(title=plot.title, xlabel=plot.x_title, ylabel="messages/s", yscale="log")
    axes.set_xticks(range(len(labels)), labels)
    values = [value for line in lines.values() for _, _, least, most in line for value in (least, most)]
    marks = ticks(min(values), max(values))
    axes.set_ylim(marks[0], marks[-1])
    axes.set_yticks(marks, [f"{mark:,.0f}" for mark in marks])
    axes.minorticks_off()
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
