"""What holds for all tests: where CI is set, a test that skips itself has failed; and examples are always the same.

A skip says "this machine lacks something", and the machine of the continuous integration must lack nothing.

The examples of Hypothesis depend on the test alone, and may take their time: no run fails for its luck, or since the
machine stood still for a moment. To look for others is for `make soak`.

What is proven, and has not changed since, is left out, tests/proofs.py.
"""

import gc
import os
import signal
from collections.abc import AsyncIterator, Generator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from tests import proofs
from tests.broker.support import World, started_world
from tests.covering import pytest_collection, pytest_runtest_protocol, pytest_runtestloop
from tests.overseeing import pytest_configure, pytest_exception_interact
from tests.scheduling import put_longest_first, pytest_xdist_make_scheduler

#: Hooks.
__all__ = [
    "pytest_collection",
    "pytest_configure",
    "pytest_exception_interact",
    "pytest_runtest_protocol",
    "pytest_runtestloop",
    "pytest_xdist_make_scheduler",
]

#: The start of a test's id, and why it may be skipped even there.
MAY_SKIP_IN_CI: dict[str, str] = {
    "tests/acceptance/lifecycle/test_systemd.py": "to boot a systemd takes root, overlays, and cgroups",
    "tests/durability/disk/test_disk_full.py": "to mount a small disk takes root",
    "tests/durability/disk/test_disk_errors.py": "to trace a process takes strace, and the right to do so",
}


settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("other", settings.get_profile("same"), derandomize=False, max_examples=2000)
settings.load_profile("same")

# A shell that starts the tests in the background has them ignore SIGINT, and whatever they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# nohup has them ignore SIGHUP. They still do with a handler, but a process that they start has the default action.
for _number in (signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


#: What takes long, or starts processes, has this long before it counts as hanging: a busy machine takes its time.
LONG_SECONDS = 1200


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    """Return what async tests and their fixtures run on: asyncio, with a loop for each test; see `on_loop`."""
    mark = request.node.get_closest_marker("on_loop")
    return "asyncio", {"loop_factory": mark.kwargs["factory"]} if mark else {}


@pytest.fixture(autouse=True)
def nobody_acts() -> Generator[None]:
    """Make each test act as no client: that of the test before it may have used up its memory."""
    token = CURRENT_ACTOR.set(b"")
    yield
    CURRENT_ACTOR.reset(token)


@pytest.fixture(autouse=True)
def logs_as_it_was() -> Generator[None]:
    """Fail tests that configure the log of this process: loggers would keep that, and log nothing to later tests."""
    yield
    assert not structlog.get_config()["cache_logger_on_first_use"], "the test calls logs.configure"


@pytest.fixture
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Yield a broker over a store, with the options of the mark `world_with`."""
    mark = request.node.get_closest_marker("world_with")
    async with started_world(**(mark.kwargs if mark else {})) as world:
        yield world


def pytest_report_header() -> str:
    due = [proof.mark for proof in proofs.PROOFS.values() if proof.is_due()]
    return f"proofs: {' and '.join(due) or 'none'} due, others left out"


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if left_out := proofs.leave_out(items):
        config.hook.pytest_deselected(items=left_out)
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        put_longest_first(items)
    for item in items:
        is_long = item.get_closest_marker("slow") or item.get_closest_marker("acceptance")
        if is_long and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


def pytest_collectstart() -> None:
    """Collect the tests without collecting garbage, of which there is little: it takes a quarter of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Hide the tests and their modules from the garbage collector, which takes 0.3 s to look at all of them."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # What was logged may hold bytes that are no text; another process cannot be told of these.
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    if not hasattr(report, "wasxfail"):
        _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    is_strict = os.environ.get("CI", "").lower() in ("1", "true")
    if is_strict and report.skipped and not report.nodeid.startswith(tuple(MAY_SKIP_IN_CI)):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: nothing may be skipped in CI, but: {reason}"
