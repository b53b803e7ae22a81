"""Runs commands against a real broker: in this process, as a process in a pipe, and as one on a terminal."""

import fcntl
import io
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest

from miniqueue import cli
from tests.acceptance.process import COMMAND, environment, python_path

RUN_SECONDS = 60
COLUMNS = 100


class Ended(NamedTuple):
    """A command that has ended, and what it has written."""

    code: int
    out: str
    err: str = ""


class CommandLine:
    """Runs `miniqueue` with words, for a person with a home of their own.

    Args:
      url: the address of the broker; "" leaves it to the command.
      home: the home directory.
      capsys: captures what commands write in this process.
    """

    def __init__(self, url: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.variables = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
        if url:
            self.variables["MINIQUEUE_URL"] = url
        self.home = home
        self._capsys = capsys

    def __call__(self, *words: str, stdin: bytes = b"") -> Ended:
        """Run a command in this process."""
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
        try:
            code = cli.main(list(words), self.variables)
        finally:
            sys.stdin = before
        return Ended(code, *self._capsys.readouterr())

    def out(self, *words: str, stdin: bytes = b"") -> str:
        """Run a command that must succeed, and return what it writes."""
        ended = self(*words, stdin=stdin)
        assert ended.code == 0, ended
        return ended.out

    def refused(self, *words: str) -> tuple[int, str]:
        """Run a command that must fail with one line, and return its exit code and the line."""
        ended = self(*words)
        assert ended.out == ""
        [line] = ended.err.splitlines()
        return ended.code, line.removeprefix("miniqueue: ")

    def in_a_pipe(self, *words: str, stdin: bytes = b"", **variables: str) -> Ended:
        """Run a command as a process."""
        done = subprocess.run(
            [*COMMAND, *words],
            env=self.environ(variables),
            cwd=self.home,
            input=stdin,
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def on_a_terminal(self, *words: str, typed: bytes = b"", prompt: bytes = b"", **variables: str) -> Ended:
        """Run a command as a process of a terminal; return all that a person sees there, colors included."""
        environ = self.environ({"TERM": "xterm-256color", **variables})
        return on_a_terminal([*COMMAND, *words], environ, self.home, typed, prompt)

    def started(
        self, *words: str, stdin: int | None = subprocess.DEVNULL, **variables: str
    ) -> "subprocess.Popen[bytes]":
        """Start a command as a process with pipes."""
        return subprocess.Popen(
            [*COMMAND, *words],
            env=self.environ(variables),
            cwd=self.home,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def environ(self, variables: Mapping[str, str]) -> dict[str, str]:
        inherited = {
            name: value for name, value in environment().items() if name not in ("NO_COLOR", "COLUMNS", "TERM")
        }
        inherited.pop("MINIQUEUE_BALLAST")
        return {**inherited, "PYTHONPATH": python_path(self.home), **self.variables, **variables}


def on_a_terminal(
    command: Sequence[str], environ: Mapping[str, str], directory: Path, typed: bytes = b"", prompt: bytes = b""
) -> Ended:
    """Run a command of a terminal that is `COLUMNS` wide.

    `typed` waits in its keyboard, or is typed once, after a prompt.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    if typed and not prompt:
        os.write(ours, typed)  # before the command starts, so that its echo always comes first
    with (
        os.fdopen(ours, "r+b", buffering=0) as screen,
        subprocess.Popen(
            command, cwd=directory, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        ) as process,
    ):
        os.close(theirs)
        watchdog = Timer(RUN_SECONDS, os.killpg, [process.pid, signal.SIGKILL])
        watchdog.start()
        shown = b""
        with suppress(OSError):  # EIO: no process has it open any more
            while part := screen.read(1 << 16):
                shown += part
                if prompt and shown.endswith(prompt):
                    screen.write(typed)
                    prompt = b""  # a shell shows it again
        code = process.wait()
        watchdog.cancel()
    return Ended(code, shown.decode().replace("\r\n", "\n"))


#: Makes a command line for a URL.
MakeLine = Callable[[str], CommandLine]
