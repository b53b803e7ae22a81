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
      name: as in the report.
      prepare: is entered once for a scenario, before the first round; gives what is called once in each round.
      program: what must be installed, besides miniqueue.
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
    """A part of the report; the first contender is the one whose ratio to each other is told.

    Attributes:
      group: under which heading it stands.
      is_quick: whether a quick run has it.
      note: in sentences, which peers take no part, and why.
    """

    group: str
    name: str
    contenders: tuple[Contender, ...]
    goals: tuple[Goal, ...] = ()
    is_quick: bool = True
    note: str = ""


def fresh(queue: Queue, load: Load, name: str = "") -> Contender:
    """Return a contender that is started anew, on an empty store, in each round."""

    @contextmanager
    def prepare(bench: Bench) -> Iterator[Measure]:
        def measure() -> Figures:
            with started(bench, queue) as server:
                return load(bench, server)

        yield measure

    return Contender(name or queue.name, prepare, queue.program)


def stored(queue: Queue, fill: Callable[[Bench, Server], Load], name: str = "") -> Contender:
    """Return a contender whose store is filled once; in each round it is started anew on it, for the load from `fill`.

    What a round publishes it has to consume, or the next one has more to do.
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
        place = folder or Path(temporary)
        with queue.start(place) as server:
            bench.note_server(server.command, str(place), *map(str, server.ports.values()))
            yield server
