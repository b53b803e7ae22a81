"""The order in which the processes of pytest-xdist get the tests.

A process runs all tests of a file, as with `--dist=loadfile`: they share what is slow to start. The
files that take longest come first, so that no process is left with one of them while the others have nothing to do.
The tests in one session of Spark count as one file, since each process would start a session of its own.
"""

import re
from typing import Any

import pytest

try:
    from xdist.scheduler import LoadFileScheduling
except ImportError:  # without it, all tests run in one process
    LoadFileScheduling = object

#: The starts of the ids of what takes minutes; the first takes longest, with the rest of its session. What is not named
#: takes seconds, in any order.
LONGEST = (
    "tests/spark/jobs/",
    "tests/durability/crash/test_loops.py",
    "tests/spark/",
    "tests/durability/",
    "tests/browser/",
    "tests/model/",
    "tests/acceptance/documents/",
    "tests/acceptance/",
    "tests/commands/",
    "tests/budget/",
    "tests/fuzz/",
)
#: The files whose tests share a session of Spark, tests/spark/conftest.py; those in `cluster` have sessions of their
#: own, and the README and the benchmarks start processes that have.
IN_ONE_SESSION = re.compile(r"tests/spark/(?!cluster/|test_readme|test_benchmarks).*")


def unit_of(node_id: str) -> str:
    """Return what the tests that one process runs in a row have in common."""
    file = node_id.partition("::")[0]
    return "tests/spark/" if IN_ONE_SESSION.fullmatch(file) else file


def put_longest_first(items: list[pytest.Item]) -> None:
    """Sort the tests as `LONGEST` says; others keep their order."""
    items.sort(key=lambda item: rank_of(item.nodeid))


def rank_of(node_id: str) -> int:
    """Return the index in `LONGEST`, or its length."""
    return next((rank for rank, start in enumerate(LONGEST) if node_id.startswith(start)), len(LONGEST))


class Scheduling(LoadFileScheduling):
    """Assigns units, as `unit_of` defines them, instead of files."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Schedule as above, if files are distributed."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None
