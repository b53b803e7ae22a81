"""Unmodified Redis clients of many languages: each publishes, consumes, carries out transactions and reconnects.

All programs run at once, against one broker, which is killed when each has said that it waits for that.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.clients.languages.scenario import HERE, PROGRAM_SECONDS, PROGRAMS, RESP3, SAID
from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import FREE_PORTS, ROOT, BrokerProcess, Trust

pytestmark = pytest.mark.acceptance

#: The name of each client, with the version of RESP that it speaks.
RUNS = [(name, protocol) for name in PROGRAMS for protocol in (2, 3) if protocol == 2 or name in RESP3]
IDS = [f"{name}, RESP{protocol}" for name, protocol in RUNS]


def topic_of(name: str, protocol: int) -> str:
    """Return how the names of the topics of a program begin: with a tag, so that transactions have one shard."""
    return f"{{{name}-{protocol}}}".lower()


class Told(NamedTuple):
    """What a program has said, and how many messages are then ready, and leased, in its three topics."""

    lines: list[str]
    errors: str
    left: list[tuple[int, int]]


class _Run:
    """One program, from its start to its end."""

    def __init__(self, name: str, protocol: int) -> None:
        self.name = name
        self.protocol = protocol
        self.lines: list[str] = []
        self.errors = ""
        self._program: subprocess.Popen[str] | None = None

    def begin(self, directory: Path, port: int) -> None:
        """Run it until it waits for another broker, or has ended."""
        directory.mkdir()
        self._program = PROGRAMS[self.name].start(directory, port, topic_of(self.name, self.protocol), self.protocol)
        watchdog = threading.Timer(PROGRAM_SECONDS, self._program.kill)
        watchdog.daemon = True
        watchdog.start()
        assert self._program.stdout is not None
        for line in self._program.stdout:
            self.lines.append(line.rstrip("\n"))
            if self.lines[-1] == "restart":
                break

    def end(self) -> None:
        """Send the line for which the program waits, and wait until it ends."""
        assert self._program is not None
        try:
            rest, self.errors = self._program.communicate("\n", PROGRAM_SECONDS)
        finally:
            self._program.kill()
        self.lines += rest.splitlines()


@pytest.fixture(scope="module")
def told(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, int], Told]]:
    """What the programs of all clients have said that are installed."""
    directory = tmp_path_factory.mktemp("languages")
    runs = [_Run(name, protocol) for name, protocol in RUNS if not PROGRAMS[name].missing]
    with hold_port() as held, ThreadPoolExecutor(len(runs)) as pool:
        flags = [*FREE_PORTS, *trust.flags, "-resp-port", str(port_of(held))]
        first = BrokerProcess(flags, cwd=directory)
        try:
            first.wait_until_ready()
            list(pool.map(lambda run: run.begin(directory / topic_of(run.name, run.protocol), port_of(held)), runs))
        finally:
            first.end()
        second = BrokerProcess(flags, cwd=directory)
        try:
            second.wait_until_ready()
            list(pool.map(_Run.end, runs))
            yield {(run.name, run.protocol): _told(run, second) for run in runs}
        finally:
            second.end()


def _told(run: _Run, broker: BrokerProcess) -> Told:
    orders = topic_of(run.name, run.protocol)
    stats = json.loads(broker.monitor("/stats"))["topics"]
    found = [stats.get(topic, {}) for topic in (orders, f"{orders}-billing", f"{orders}-audit")]
    return Told(run.lines, run.errors, [(topic.get("ready", 0), topic.get("leased", 0)) for topic in found])


@pytest.mark.parametrize(("name", "protocol"), RUNS, ids=IDS)
def test_a_client_goes_through_the_scenario(name, protocol, request):
    if missing := PROGRAMS[name].missing:
        pytest.skip(f"not installed: {missing}")
    lines, errors, left = request.getfixturevalue("told")[name, protocol]
    said = "\n".join([*lines, errors])
    assert len(lines) == len(SAID), said
    for line, pattern in zip(lines, PROGRAMS[name].said, strict=True):
        assert re.fullmatch(pattern, line), said
    assert left == [(1, 0)] * 3, said


# --- the page about clients -------------------------------------------------------------------------------------

PAGE = ROOT / "docs" / "clients.md"


def example_of(file: str) -> str:
    """Return the part of a program that the page shows."""
    lines = (HERE / file).read_text().splitlines()
    (first,) = [n for n, line in enumerate(lines) if line.strip().strip("-/#* ") == "docs:"]
    (last,) = [n for n, line in enumerate(lines) if line.strip().strip("-/#* ") == "docs end"]
    indent = len(lines[first]) - len(lines[first].lstrip())
    return "\n".join(line[indent:] for line in lines[first + 1 : last])


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_page_shows_the_tested_example(name):
    assert f"\n{example_of(PROGRAMS[name].file)}\n```\n" in PAGE.read_text()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_page_names_the_tested_version(name):
    if missing := PROGRAMS[name].missing:
        pytest.skip(f"not installed: {missing}")
    assert re.search(rf"^\| \[?{re.escape(name)}\S* \| {re.escape(PROGRAMS[name].version)} \|", PAGE.read_text(), re.M)
