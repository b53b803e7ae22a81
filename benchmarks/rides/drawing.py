"""The plots of docs/pipeline.md, from the samples: rate and lag over time, and memory over time, as PNG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.rides.sampling import Sample

#: Rates are means of so many samples.
_SMOOTHED: Final = 5
_MEMORY: Final = {
    "broker": "broker",
    "broker_anonymous": "broker, without mapped files",
    "driver_jvm": "Spark: JVM",
    "driver_python": "Spark: the driver's program",
    "python_worker": "Spark: largest Python worker",
    "worker_1": "worker 1",
    "worker_2": "worker 2",
    "worker_3": "worker 3",
}


class Event(NamedTuple):
    """A disturbance of a process, or the start of a part of the run: its time and its text."""

    seconds: float
    text: str


def draw(samples: Sequence[Sample], events: Sequence[Event], directory: Path) -> None:
    """Write `rates.png` and `memory.png`; needs matplotlib."""
    import matplotlib  # noqa: PLC0415 - only drawing needs it

    matplotlib.use("agg")
    from matplotlib import pyplot  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    for name, plot in (("rates", _draw_rates), ("memory", _draw_memory)):
        figure, axes = pyplot.subplots(2 if name == "rates" else 1, figsize=(9, 5), sharex=True, layout="constrained")
        plot(axes, samples, events)
        figure.savefig(directory / f"{name}.png", dpi=110, metadata={"Software": None})
        pyplot.close(figure)


def _draw_rates(axes: Any, samples: Sequence[Sample], events: Sequence[Event]) -> None:  # noqa: ANN401 - matplotlib's
    rates, lag = axes
    for name, label in (("published", "loaded"), ("acknowledged", "done by the workers")):
        rates.plot(*_rate(samples, name), label=label)
    rates.set(ylabel="rides/s")
    times, depths = [sample["seconds"] for sample in samples], [sample["depth"] for sample in samples]
    lag.plot(times, depths, color="tab:red", label="lag")
    lag.set(xlabel="seconds", ylabel="rides that are not done")
    for plot in axes:
        _finish(plot, events)


def _draw_memory(axes: Any, samples: Sequence[Sample], events: Sequence[Event]) -> None:  # noqa: ANN401 - matplotlib's
    for name, label in _MEMORY.items():
        points = [(sample["seconds"], sample[name]) for sample in samples if sample.get(name)]
        if points:
            axes.plot(*zip(*points, strict=True), ".", markersize=2, label=label)
    axes.set(xlabel="seconds", ylabel="resident memory, MB")
    _finish(axes, events)


def _finish(axes: Any, events: Sequence[Event]) -> None:  # noqa: ANN401 - matplotlib's
    for event in events:
        is_part = event.text.startswith("start of")
        style = {"color": "black", "linewidth": 0.8} if is_part else {"color": "tab:gray", "linewidth": 0.4}
        axes.axvline(event.seconds, linestyle="-" if is_part else ":", **style)
        if is_part:
            above = axes.get_xaxis_transform()
            axes.text(event.seconds, 1.0, event.text[9:], transform=above, rotation=40, fontsize="small")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small", frameon=False, markerscale=4)


def _rate(samples: Sequence[Sample], name: str) -> tuple[list[float], list[float]]:
    pairs = list(zip(samples, samples[_SMOOTHED:], strict=False))
    times = [(first["seconds"] + last["seconds"]) / 2 for first, last in pairs]
    return times, [(last[name] - first[name]) / (last["seconds"] - first["seconds"]) for first, last in pairs]
