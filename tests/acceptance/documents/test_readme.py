"""The README is run: what it says to paste is pasted, in order, and what it shows must come out.

A ```sh block is run by bash, in a fresh directory and in the order of the page. The ```console block after one shows
its output. All are run twice: on a terminal, and with their output in a pipe, where some programs write otherwise.
Nothing is changed but the ports, which are free ones instead of 8080, 6379 and 8081. Only lines that make or Docker
would carry out are not run as they stand:

    make run        starts a broker on the directory, as the Makefile says; again after it was killed
    make …          `make -n`: the target exists
    docker …        is not run: there is a Dockerfile, with the volume, and the ports are the usual ones

The part about Spark, which need not be installed, is run by tests/spark/test_readme.py.
"""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest

from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess
from tests.acceptance.tools import needs, run

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_SECONDS = 60

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, needs("curl", "redis-cli", "make", "bash", "git")]


class Step(NamedTuple):
    """Something to paste, and what comes out; None when the README does not show it."""

    text: str
    output: str | None


def parts() -> tuple[str, str]:
    """Return the README without its part about Spark, and that part."""
    before, spark, after = re.split(r"^(## Spark\n.*?)(?=^## )", README, flags=re.MULTILINE | re.DOTALL)
    return before + after, spark


def steps(text: str) -> list[Step]:
    blocks = [(match[1], match[2]) for match in BLOCK.finditer(text)]
    followers = [*blocks[1:], ("", "")]
    return [
        Step(text, after if next_language == "console" else None)
        for (language, text), (next_language, after) in zip(blocks, followers, strict=True)
        if language == "sh"
    ]


#: Runs a command in a directory for so many seconds at most; returns its exit code and what it has written.
Run = Callable[[Sequence[str], Path, float], tuple[int, str]]


def in_a_pipe(command: Sequence[str], directory: Path, seconds: float) -> tuple[int, str]:
    """Run a command whose output goes to another program, without what it says on its standard error output."""
    done = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
    )
    return done.returncode, done.stdout.decode()


def on_a_terminal(command: Sequence[str], directory: Path, seconds: float) -> tuple[int, str]:
    """Run a command of a terminal, and return all that a person sees there."""
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "rb", buffering=0) as screen,
        subprocess.Popen(
            command, cwd=directory, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        ) as process,
    ):
        os.close(theirs)
        watchdog = Timer(seconds, os.killpg, [process.pid, signal.SIGKILL])
        watchdog.start()
        shown = b""
        with suppress(OSError):  # EIO: no process has it open any more
            while part := screen.read(1 << 16):
                shown += part
        code = process.wait()
        watchdog.cancel()
    return code, shown.decode().replace("\r\n", "\n")


READERS = pytest.mark.parametrize("run_block", [in_a_pipe, on_a_terminal], ids=lambda run_block: run_block.__name__)


class Reader:
    """Somebody who pastes the README into a shell."""

    def __init__(self, directory: Path, started: ExitStack, run_block: Run, run_seconds: int = RUN_SECONDS) -> None:
        (directory / ".venv").symlink_to(sys.prefix)
        self._directory = directory
        self._started = started
        self._run_block = run_block
        self._run_seconds = run_seconds
        # The broker must come back on the same ones.
        held = [started.enter_context(hold_port()) for _ in range(3)]
        self._ports = dict(zip(("8080", "6379", "8081"), [str(port_of(port)) for port in held], strict=True))

    def paste(self, step: Step) -> str:
        if step.text.startswith("make "):
            return self._make(step.text)
        if step.text.startswith("docker "):
            return check_docker(step.text)
        return self._run(self._with_own_ports(step.text))

    def _with_own_ports(self, text: str) -> str:
        text = re.sub(r"\b(8080|6379|8081)\b", lambda match: self._ports[match[0]], text)
        return text.replace("redis-cli ", f"redis-cli -p {self._ports['6379']} ")  # 6379 is its default

    def _run(self, text: str) -> str:
        # The commands that are clients use 6379 if nothing says otherwise.
        own_port = f"export MINIQUEUE_URL=redis://localhost:{self._ports['6379']}\n"
        code, output = self._run_block(["bash", "-c", own_port + text], self._directory, self._run_seconds)
        assert code == 0, f"exit code {code}:\n{text}\n{output}"
        return output

    def _make(self, text: str) -> str:
        for line in text.splitlines():
            subprocess.run(
                ["bash", "-c", line.replace("make", "make -n", 1)], cwd=ROOT, check=True, capture_output=True
            )
        if text == "make run\n":
            flags = [*zip(("-port", "-resp-port", "-monitor-port"), self._ports.values(), strict=True)]
            broker = BrokerProcess([word for pair in flags for word in pair], cwd=self._directory)
            self._started.callback(broker.end)
            broker.wait_until_ready()
        return ""


def check_docker(text: str) -> str:
    """Check, without running it, that what the docker lines name is there."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    volumes = re.findall(r"-v [\w-]+:(\S+)", text)
    assert volumes
    assert all(f"VOLUME {volume}\n" in dockerfile for volume in volumes)
    published = re.findall(r"-p 127\.0\.0\.1:(\d+):(\d+)", text)
    assert published
    assert all(inside in re.findall(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE)[0].split() for _, inside in published)
    return ""


@pytest.fixture
def started() -> Iterator[ExitStack]:
    """Whatever was started ends with the test."""
    with ExitStack() as started:
        yield started


@READERS
def test_a_reader_who_pastes_it_all_sees_what_the_readme_shows(run_block, started, tmp_path):
    paste_all(Reader(tmp_path, started, run_block), parts()[0])
    assert {"data", "copy", "worker.token"} <= set(os.listdir(tmp_path))
    assert new_to_git(tmp_path) == []


def test_what_the_part_about_spark_leaves_is_ignored_by_git(tmp_path):
    (tmp_path / "archive").mkdir()
    names = ["rides.jsonl", "progress", "archive/part-0.parquet"]
    for name in names:
        (tmp_path / name).touch()
    assert new_to_git(tmp_path) == []


def new_to_git(directory: Path) -> list[str]:
    """Return what git would tell of a directory of this project after the tour, .venv apart, which is a link here."""
    (directory / ".venv").unlink(missing_ok=True)
    shutil.copy(ROOT / ".gitignore", directory)
    run(["git", "-C", str(directory), "init", "--quiet"])
    run(["git", "-C", str(directory), "add", ".gitignore"])
    return run(["git", "-C", str(directory), "status", "--porcelain"]).decode().splitlines()[1:]


def paste_all(reader: Reader, text: str) -> None:
    """Paste the blocks of a part, and compare what comes out with what is shown."""
    for step in steps(text):
        output = reader.paste(step)
        if step.output is not None:
            assert output == step.output, step.text


def test_the_readme_has_blocks_that_are_run_and_compared():
    assert {match[1] for match in BLOCK.finditer(README)} == {"sh", "console"}
    assert sum(step.output is not None for step in steps(README)) >= 6
