"""Measures which lines the tests cover only while it counts; a traced test takes twice the CPU time.

    session starts ─▶ measured modules are imported ─▶ collection ─▶ each test of COVERING ─▶ other tests ─▶ report
    └──────────── traced ─────────────────────────┘                  └───── traced ──────┘

pytest-cov traces everything, in each process of pytest-xdist and in the one that only assigns the tests.
"""

import pkgutil
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple

import pytest

#: The tests that have to cover what `make test` measures. A line that is met by chance only is not covered: tests that
#: are slow, or random, do not count.
COVERING = "tests/core/", "tests/wire/", "tests/storage/format/", "tests/broker/", "tests/server/resp/commands/"
#: Contain all modules that are measured, pyproject.toml.
MEASURED = "miniqueue.core", "miniqueue.wire", "miniqueue.storage.format"


class Tracers(NamedTuple):
    """The trace functions of this thread and of new threads; None: without coverage."""

    this_thread: object
    new_threads: object


TRACERS = pytest.StashKey[Tracers]()


def is_covering(item: pytest.Item) -> bool:
    """Return whether the lines that a test runs count as covered."""
    is_slow = item.get_closest_marker("slow") is not None
    return item.nodeid.startswith(COVERING) and "at_random" not in item.nodeid and not is_slow


@contextmanager
def _tracing(tracers: Tracers) -> Iterator[None]:
    before = Tracers(sys.gettrace(), threading.gettrace())
    _set(tracers)
    try:
        yield
    finally:
        _set(before)


def _set(tracers: Tracers) -> None:
    sys.settrace(tracers.this_thread)
    threading.settrace(tracers.new_threads)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without tracing, once the definitions in all measured modules have been traced."""
    if sys.gettrace() is not None:
        for room in MEASURED:
            for module in pkgutil.walk_packages(import_module(room).__path__, f"{room}."):
                import_module(module.name)
    with _tracing(Tracers(None, None)):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)  # outside of it, pytest-cov stops measuring
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Trace nothing between the tests."""
    session.config.stash[TRACERS] = Tracers(sys.gettrace(), threading.gettrace())
    with _tracing(Tracers(None, None)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Trace a test that is covering."""
    if not is_covering(item):
        return (yield)
    with _tracing(item.config.stash[TRACERS]):
        return (yield)
