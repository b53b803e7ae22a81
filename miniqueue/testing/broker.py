"""A broker in memory as a child process: started on free ports, cleared between tests, killed at the end.

process ─▶ standard output ─▶ lines until `ready`, with the ports ─▶ broker.log, by a thread
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

#: The broker's flags: memory instead of a store, any free ports, and lines of the log as JSON, which name the ports.
FLAGS: Final = (
    *("-storage", "memory", "-level", "info", "-human=false"),
    *("-port", "0", "-resp-port", "0", "-monitor-port", "0"),
)


class StartError(RuntimeError):
    """The broker did not start; the text contains its log."""


class MemoryBroker:
    """A running broker.

    Args:
      directory: where it runs, and writes its certificates and its log; it must exist.
      flags: more flags of the broker.

    Attributes:
      url: the URL for the clients over RESP.
      https_port: the port for HTTP/2.
      monitor_port: the port for monitoring.
      cafile: the certificate authority that clients over HTTP/2 trust, PEM.
    """

    def __init__(self, directory: Path, *flags: str) -> None:
        # Settings of the person who runs the tests must not change what is tested.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIQUEUE_")}
        self._log = directory / "broker.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "miniqueue", *FLAGS, *flags],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._process.stdout is not None
        try:
            ports = self._read_ports(self._process.stdout)
        except BaseException:  # such as KeyboardInterrupt
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            raise
        self.url = f"redis://127.0.0.1:{ports['resp']}"
        self.https_port = ports["https"]
        self.monitor_port = ports["monitor"]
        self.cafile = directory / "certs/ca.pem"
        self._copying = threading.Thread(target=self._copy_log, args=(self._process.stdout,), daemon=True)
        self._copying.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill the broker, which has nothing to save; safe to call twice."""
        self._process.kill()
        self._process.wait()
        self._copying.join()

    def clear(self) -> None:
        """Delete all topics and schedules."""
        from miniqueue_client import Client  # noqa: PLC0415 - redis-py is imported by the tests that use a broker only

        with Client(self.url) as client:
            for schedule in client.schedules():
                client.delete_schedule(schedule.name)
            for topic in client.topics():
                client.delete_topic(topic)

    def _read_ports(self, output: IO[str]) -> dict[str, int]:
        """Return the ports, when the broker is ready; raises StartError if it ends before."""
        lines = []
        for line in output:
            lines.append(line)
            if line.startswith("{") and (event := json.loads(line)).get("event") == "ready":
                self._log.write_text("".join(lines))
                return {name: event[name] for name in ("resp", "https", "monitor")}
        code = self._process.wait()
        raise StartError(f"the broker did not start, exit code {code}:\n{''.join(lines)}")

    def _copy_log(self, output: IO[str]) -> None:
        with output, self._log.open("a") as log:
            for line in output:
                log.write(line)
                log.flush()
