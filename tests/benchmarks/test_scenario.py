"""How contenders are run: each round starts them again, on an empty store or on one that was filled before."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import cast

from benchmarks import running
from benchmarks.bench import Bench
from benchmarks.queues import Queue
from benchmarks.scenario import Contender, Scenario, fresh, stored
from benchmarks.servers import Server


class Starts:
    """A queue that does nothing; each start takes a second longer than the one before."""

    def __init__(self) -> None:
        self.folders: list[Path] = []

    @contextmanager
    def __call__(self, folder: Path) -> Iterator[Server]:
        self.folders.append(folder)
        nothing = cast("Popen[bytes]", None)
        yield Server(nothing, ["serve"], {"resp": 1}, start_seconds=len(self.folders))


def start_seconds(bench: Bench, server: Server) -> dict[str, float]:
    return {"start-up s": server.start_seconds}


def rounds(contender: Contender, tmp_path: Path) -> list[float]:
    measured = running.run(Scenario("Group", "name", (contender,)), Bench(tmp_path), 3, lambda text: None)
    return measured.values(contender.name, "start-up s")


def test_a_fresh_contender_starts_on_an_empty_store_in_each_round(tmp_path):
    starts = Starts()
    assert rounds(fresh(Queue("ours", "", starts, "miniqueue"), start_seconds), tmp_path) == [1, 2, 3]
    assert len(set(starts.folders)) == 3


def test_one_with_a_store_is_filled_once_and_started_on_it_in_each_round(tmp_path):
    starts, filled = Starts(), []

    def fill(bench, server):
        filled.append(server)
        return start_seconds

    assert rounds(stored(Queue("ours", "", starts, "miniqueue"), fill), tmp_path) == [2, 3, 4]
    assert len(set(starts.folders)) == len(filled) == 1
