"""The README is run: what it says to paste is pasted, in order, and what it shows must come out.

A ```sh block is run by bash, in a fresh directory and in the order of the page. The ```console block after one shows
its output. Four things differ from a reader's terminal: the ports are free ones, not 8080, 6379 and 8081; redis-cli
writes as if to a terminal; `timeout` ends it when it has shown a message, since a second may be too short; and lines
that make or Docker would carry out are not run as they stand:

    make run        starts a broker on the directory, as the Makefile says; again after it was killed
    make …          `make -n`: the target exists
    docker …        is not run: there is a Dockerfile, with the volume, and the ports are the usual ones

The part about Spark, which need not be installed, is run by tests/spark/test_readme.py.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess
from tests.acceptance.tools import needs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_SECONDS = 60
#: What `timeout` returns when it had to end the program, as it is meant to do with a subscription that only looks.
TIMED_OUT = 124
#: In place of the program: ends a subscription when it has shown a message, in quotes, whenever that is.
TIMEOUT = f"""
timeout() {{
  shift
  exec 3< <("$@")
  local subscription=$!
  sed --unbuffered '/^"/q' <&3
  kill $subscription
  wait $subscription
  return {TIMED_OUT}
}}
"""

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, needs("curl", "redis-cli", "make", "bash")]


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


class Reader:
    """Somebody who pastes the README into a terminal."""

    def __init__(self, directory: Path, started: ExitStack, run_seconds: int = RUN_SECONDS) -> None:
        (directory / ".venv").symlink_to(sys.prefix)
        self._directory = directory
        self._started = started
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
        return text.replace("redis-cli ", f"redis-cli --no-raw -p {self._ports['6379']} ")

    def _run(self, text: str) -> str:
        done = subprocess.run(
            ["bash", "-uc", TIMEOUT + text],
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self._run_seconds,
            check=False,
        )
        assert done.returncode in (0, TIMED_OUT), done.stdout + done.stderr
        return done.stdout

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
def reader(tmp_path: Path) -> Iterator[Reader]:
    with ExitStack() as started:
        yield Reader(tmp_path, started)


def test_a_reader_who_pastes_it_all_sees_what_the_readme_shows(reader):
    paste_all(reader, parts()[0])


def paste_all(reader: Reader, text: str) -> None:
    """Paste the blocks of a part, and compare what comes out with what is shown."""
    for step in steps(text):
        output = reader.paste(step)
        if step.output is not None:
            assert output == step.output, step.text


def test_the_readme_has_blocks_that_are_run_and_compared():
    assert {match[1] for match in BLOCK.finditer(README)} == {"sh", "console"}
    assert sum(step.output is not None for step in steps(README)) >= 6
