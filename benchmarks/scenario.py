"""What a scenario is: contenders that are measured in the same way, and what is wanted of the figures."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from benchmarks.bench import Bench
from benchmarks.queues import Queue
from benchmarks.servers import Server

#: What one measurement gives, by name; the name carries the unit: `messages/s`, `p99 ms`.
Figures = Mapping[str, float]
Measure = Callable[[], Figures]
#: What is done with a server in a round.
Load = Callable[[Bench, Server], Figures]


@dataclass(frozen=True)
class Contender:
    """One of those compared.

    Attributes:
      name: the name in the report.
      prepare: entered once for a scenario, before the first round; returns the function to call in each round.
      program: the program that must be installed, in addition to miniqueue.
    """

    name: str
    prepare: Callable[[Bench], AbstractContextManager[Measure]]
    program: str = ""


@dataclass(frozen=True)
class Goal:
    """What is wanted of one figure of one contender.

    Attributes:
      figure: its name.
      of: the contender.
      wants: whether more is better, or less.
      bound: the least or the most that is wanted.
      against: the contender to compare with; empty for the figure as it is.
      by: how to compare: by the ratio to it, or by the difference.
    """

    figure: str
    of: str
    wants: Literal["at least", "at most"]
    bound: float
    against: str = ""
    by: Literal["ratio", "difference"] = "ratio"

    def is_met(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.bound if self.wants == "at least" else value <= self.bound


@dataclass(frozen=True)
class Scenario:
    """A part of the report, which has the ratios of its first contender to the others.

    Attributes:
      group: the heading of its section.
      is_quick: whether a quick run includes it.
      note: sentences that say which peers take no part, and why.
    """

    group: str
    name: str
    contenders: tuple[Contender, ...]
    goals: tuple[Goal, ...] = ()
    is_quick: bool = True
    note: str = ""


def fresh(queue: Queue, load: Load, name: str = "") -> Contender:
    """Return a contender that is started in each round on an empty store."""

    @contextmanager
    def prepare(bench: Bench) -> Iterator[Measure]:
        def measure() -> Figures:
            with started(bench, queue) as server:
                return load(bench, server)

        yield measure

    return Contender(name or queue.name, prepare, queue.program)


def stored(queue: Queue, fill: Callable[[Bench, Server], Load], name: str = "") -> Contender:
    """Return a contender whose store is filled once, and that is started on it in each round for the load from `fill`.

    A round must consume what it publishes, otherwise the next round has more to do.
    """

    @contextmanager
    def prepare(bench: Bench) -> Iterator[Measure]:
        with TemporaryDirectory(dir=bench.folder, ignore_cleanup_errors=True) as folder:
            with started(bench, queue, Path(folder)) as server:
                load = fill(bench, server)

            def measure() -> Figures:
                with started(bench, queue, Path(folder)) as server:
                    return load(bench, server)

            yield measure

    return Contender(name or queue.name, prepare, queue.program)


@contextmanager
def started(bench: Bench, queue: Queue, folder: Path | None = None) -> Iterator[Server]:
    """Run a queue in a folder, or on an empty store that is removed afterwards."""
    with TemporaryDirectory(dir=bench.folder, ignore_cleanup_errors=True) as temporary:
        directory = folder or Path(temporary)
        with queue.start(directory) as server:
            bench.note_server(server.command, str(directory), *map(str, server.ports.values()))
            yield server
