"""A real broker process: started on free ports, ready when it says so, stopped by its process id.

MINIQUEUE_COMMAND is the command to test, with absolute paths, such as the one-file program; by default it is the
miniqueue of this Python.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.request import Request, urlopen

#: Far longer than a start takes on a machine that does nothing else.
START_SECONDS = 60
#: The broker disconnects what hangs after 8 s; the rest is for a machine that has other things to do.
STOP_SECONDS = 60
HTTP_SERVERS = ("hypercorn", "granian")
ROOT = Path(__file__).parents[2]
OTHER_COMMAND = tuple(shlex.split(os.environ.get("MINIQUEUE_COMMAND", "")))
COMMAND = OTHER_COMMAND or (sys.executable, "-m", "miniqueue")
#: MINIQUEUE_TEST_SHARDS is the number of shards of the brokers to test; empty: they have none.
#: MINIQUEUE_TEST_SPREAD is the number of parts of the topics of the tests; empty: they are not spread.
SPREAD = os.environ.get("MINIQUEUE_TEST_SPREAD", "")
SHARDS = os.environ.get("MINIQUEUE_TEST_SHARDS", "3" if SPREAD else "")
#: How many processes serve clients.
PROCESS_COUNT = int(SHARDS or 1)
FREE_PORTS = ("-port", "0", "-resp-port", "0", "-monitor-port", "0")


def environment(**variables: str) -> dict[str, str]:
    """Return the environment for a broker: that of the tests without settings that a person has made.

    The ballast is a small one: pytest keeps the stores of its last three runs.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MINIQUEUE_")}
    shards = {"MINIQUEUE_SHARDS": SHARDS} if SHARDS else {}
    return inherited | {"MINIQUEUE_BALLAST": "1MiB"} | shards | variables


def python_path(directory: Path) -> str:
    """Return a PYTHONPATH that begins with a directory and leads to this source tree, whichever one is installed."""
    return os.pathsep.join([str(directory), str(ROOT), str(ROOT / "client/src")])


def run_to_end(
    *arguments: str, cwd: Path, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `miniqueue` with words after which it ends by itself."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(**(variables or {})),
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


def value_of(sample: str, metrics: bytes) -> float:
    """Return the value of a sample of metrics, with shards the sum of all; fails if there is none."""
    lines = re.sub(r'shard="\d+",?', "", metrics.decode()).replace("{}", "").splitlines()
    values = [float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == sample]
    assert values, f"no metric has the sample {sample}"
    return sum(values)


@dataclass(frozen=True)
class Trust:
    """The certificate that brokers of this run use, and the authority that clients trust."""

    directory: Path

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.pem")

    @property
    def flags(self) -> tuple[str, ...]:
        cert, key = self.directory / "localhost.pem", self.directory / "localhost-key.pem"
        return ("-cert", str(cert), "-key", str(key))


class BrokerProcess:
    """One process, from its start to its exit.

    Args:
      arguments: after the name of the program.
      cwd: where it runs.
      command: the program; by default the one to test.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path,
        command: Sequence[str] = COMMAND,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._has_ended = False
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=cwd,
            env=environment() if env is None else env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    @property
    def output(self) -> str:
        """Everything that it has said so far."""
        with self._news:
            return "".join(self._lines)

    def wait_for_event(self, event: str, seconds: float = START_SECONDS) -> dict[str, Any]:
        """Return the first log line with that event; fails when the process ends without it."""
        found: list[dict[str, Any]] = []

        def is_settled() -> bool:
            found.extend(fields for fields in map(_fields, self._lines) if fields.get("event") == event)
            return bool(found) or self._has_ended

        with self._news:
            self._news.wait_for(is_settled, seconds)
        assert found, f"no event {event!r} in {seconds} s, but:\n{self.output}"
        return found[0]

    def wait_for_events(self, event: str, count: int = PROCESS_COUNT, seconds: float = START_SECONDS) -> None:
        """Return when there are so many log lines with that event; by default, one of each process."""
        with self._news:
            self._news.wait_for(lambda: self._count_of(event) >= count or self._has_ended, seconds)
        assert self._count_of(event) >= count, self.output

    def _count_of(self, event: str) -> int:
        return sum(fields.get("event") == event for fields in map(_fields, self._lines))

    def wait_for_line(self, word: str, seconds: float = START_SECONDS) -> None:
        """Return when a log line holds `word`; fails when the process ends without one."""
        with self._news:
            self._news.wait_for(lambda: word in "".join(self._lines) or self._has_ended, seconds)
        assert word in self.output

    def wait_until_ready(self) -> "BrokerProcess":
        """Learn the ports; returns itself."""
        ready = self.wait_for_event("ready")
        self.https_port: int = ready["https"]
        self.resp_port: int = ready["resp"]
        self.monitor_port: int = ready["monitor"]
        return self

    def url(self, path: str) -> str:
        """Return the address of a path of the HTTPS port."""
        return f"https://localhost:{self.https_port}{path}"

    def monitor(self, path: str, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
        """Return what the monitoring port answers."""
        request = Request(f"http://127.0.0.1:{self.monitor_port}{path}", headers=dict(headers))
        with urlopen(request, timeout=START_SECONDS) as answer:
            body: bytes = answer.read()
        return body

    def sample(self, sample: str) -> float:
        """Return the value of a sample of the metrics, with shards the sum of all; fails if there is none."""
        return value_of(sample, self.monitor("/metrics"))

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Return the exit code; fails when it takes longer."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {seconds} s:\n{self.output}") from None
        self._end_reading()
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to stop, and expect that it does so in good order."""
        self.process.send_signal(number)
        code = self.wait()
        assert code == 0, f"exit code {code}:\n{self.output}"
        assert "Traceback" not in self.output

    def kill(self) -> None:
        """Do to it what a power cut does to a process."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)
        self._end_reading()

    def end(self) -> None:
        """Leave nothing running, whatever the test did; close the pipe."""
        if self.is_alive():
            self.kill()
        self._end_reading()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _end_reading(self) -> None:
        self._reading.join(STOP_SECONDS)
        assert not self._reading.is_alive(), f"a process that it started is still running:\n{self.output}"


def _fields(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
