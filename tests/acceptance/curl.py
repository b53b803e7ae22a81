"""curl, for single requests and for streams that go both ways."""

import base64
import json
import subprocess
import threading
from typing import Any, NamedTuple

from tests.acceptance.process import BrokerProcess, Trust

MAX_SECONDS = 20


class Answer(NamedTuple):
    status: int
    http_version: str
    body: bytes


class Curl:
    """Sends requests to one broker over HTTP/2, verifying its certificate."""

    def __init__(self, broker: BrokerProcess, trust: Trust) -> None:
        self._broker = broker
        self._command = ["curl", "--silent", "--http2", "--cacert", trust.ca]

    def __call__(self, path: str, *options: str, body: bytes | None = None) -> Answer:
        """Make one request and return its answer."""
        with_body = [] if body is None else ["--data-binary", "@-"]
        command = [*self._command, "--write-out", "\n%{http_code} %{http_version}", *with_body, *options]
        done = subprocess.run(
            [*command, self._broker.url(path)],
            input=body,
            capture_output=True,
            timeout=MAX_SECONDS,
            check=True,
        )
        body, _, last_line = done.stdout.rpartition(b"\n")
        status, version = last_line.decode().split()
        return Answer(int(status), version, body)

    def publish(self, topic: str, message: bytes) -> None:
        assert self(f"/publish/{topic}", body=message).status == 201

    def subscribe(self, topic: str) -> "Subscription":
        """Open a stream; use it in a `with` statement."""
        # `-T .` reads standard input without blocking, so that curl prints what comes back meanwhile;
        # `--max-time` would make it block all the same.
        command = [*self._command, "--no-progress-meter", "--no-buffer", "-X", "POST", "-T", "."]
        return Subscription([*command, self._broker.url(f"/subscribe/{topic}")])


class Subscription:
    """A running curl whose input and output are the two directions of a subscription."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._watchdog = threading.Timer(MAX_SECONDS, self.process.kill)
        self._watchdog.start()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        with self.process:
            self.process.kill()

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next line; fails when the stream ends."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the stream has ended"
        fields: dict[str, Any] = json.loads(line)
        return fields

    def receive_message(self) -> bytes:
        return base64.b64decode(self.receive()["msg"])
