"""Programs that tests drive the broker with; a test whose program is missing is skipped, except in CI."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

import pytest

from tests.acceptance.process import HTTP_SERVERS

#: Longer than anything here takes; a program that hangs is killed then, and its test fails.
MAX_SECONDS = 60


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test unless all `programs` are installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


#: Marks tests of a broker that are to hold whatever serves HTTP.
on_both_http_servers = pytest.mark.parametrize("http_server", HTTP_SERVERS, indirect=True, scope="module")


def run(command: Sequence[str], given: bytes = b"") -> bytes:
    """Run a program to its end and return its output."""
    return subprocess.run(command, input=given, capture_output=True, timeout=MAX_SECONDS, check=True).stdout


def until(holds: Callable[[], bool]) -> None:
    """Return when a condition holds; fails after `MAX_SECONDS`."""
    ends_at = time.monotonic() + MAX_SECONDS
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.02)  # there is nothing to wait on in another process


class Conversation:
    """A running program, spoken to line by line.

    Args:
      given: its standard input.
      said: its standard output.
    """

    def __init__(self, given: IO[bytes], said: IO[bytes]) -> None:
        self._given = given
        self._said = said

    def say(self, line: str) -> None:
        self._given.write(line.encode() + b"\n")
        self._given.flush()

    def hear(self) -> str:
        """Return the next line; fails when the program has ended."""
        line = self._said.readline()
        assert line.endswith(b"\n"), f"ended with {line!r}"
        return line.decode().rstrip("\r\n")


@contextmanager
def conversation(command: Sequence[str], max_seconds: float = MAX_SECONDS) -> Iterator[Conversation]:
    """Start a program to talk with; it is killed at the end, and after `max_seconds`."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        watchdog = threading.Timer(max_seconds, process.kill)
        watchdog.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Conversation(process.stdin, process.stdout)
        finally:
            watchdog.cancel()
            process.kill()
