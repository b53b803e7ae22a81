"""A run says what it is at, and ends if it stands still, or takes too long."""

import subprocess
import sys

from tests.overseeing import RUN_SECONDS, SAID_SECONDS, STILL_SECONDS, Overseer

FAILING = """
import threading, pytest

@pytest.fixture
def held():
    yield
    threading.Event().wait()

def test_fails(held):
    assert False

def test_passes():
    assert True
"""
STOPPED = """
import faulthandler, subprocess, sys
from tests.overseeing import end_children
code = "import faulthandler, os, signal; faulthandler.enable(); print(flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
    child.stdout.readline()
    end_children(stacks_seconds=0.2)
    print("ended by", -child.wait())
"""


class Run:
    """A run of tests with a clock that stands."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.ends = 0
        self.overseer = Overseer(self.said.append, self.end, lambda: self.now)

    def end(self) -> None:
        self.ends += 1

    def look_after(self, seconds: float) -> list[str]:
        self.now += seconds
        self.said.clear()
        self.overseer.look()
        return [line.partition(", load")[0] for line in self.said]


def test_a_run_says_now_and_then_what_it_is_at():
    run = Run()
    run.overseer.pytest_runtest_logstart("a")
    run.overseer.pytest_runtest_logstart("b")
    run.overseer.pytest_runtest_logfinish("a")
    assert run.look_after(SAID_SECONDS - 1) == []
    assert run.look_after(1) == ["1 tests in 300 s", "  300 s b"]
    assert run.look_after(SAID_SECONDS - 1) == []


def test_a_run_in_which_no_test_ends_is_ended_once():
    run = Run()
    run.overseer.pytest_runtest_logstart("a")
    run.look_after(STILL_SECONDS - 1)
    assert run.ends == 0
    assert run.look_after(1) == ["0 tests in 1500 s", "  1500 s a", "no test has ended for 1500 s"]
    run.look_after(STILL_SECONDS - 1)
    assert run.ends == 1


def test_a_run_that_takes_too_long_is_ended_although_tests_end():
    run = Run()
    while run.now < RUN_SECONDS - 1:
        run.overseer.pytest_runtest_logfinish("a")
        run.look_after(min(1000, RUN_SECONDS - 1 - run.now))
    assert run.ends == 0
    assert run.look_after(1)[-1] == "the run takes too long"
    run.look_after(1)
    assert run.ends == 1


def test_leaving_the_fixtures_of_a_failure_has_a_time_limit(tmp_path):
    (tmp_path / "test_failing.py").write_text(FAILING)
    flags = ["-p", "tests.overseeing", "-p", "no:cacheprovider", "-o", "timeout=3", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", "-q", *flags, str(tmp_path / "test_failing.py")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 1 error in")
    assert "ERROR at teardown of test_fails" in ran.stdout


def test_a_process_that_is_stopped_says_where_and_ends():
    ran = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "ended by 6"
    assert "Fatal Python error: Aborted" in ran.stderr
