"""curl, for single requests and for streams that go both ways."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.acceptance.process import BrokerProcess, Trust
from tests.acceptance.tools import MAX_SECONDS, Conversation, conversation, run


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
        report = ["--write-out", "\n%{http_code} %{http_version}"]
        said = run([*self._command, *report, *with_body, *options, self._broker.url(path)], body or b"")
        body, _, last_line = said.rpartition(b"\n")
        status, version = last_line.decode().split()
        return Answer(int(status), version, body)

    def publish(self, topic: str, message: bytes) -> None:
        assert self(f"/publish/{topic}", body=message).status == 201

    @contextmanager
    def subscribe(self, topic: str, max_seconds: float = MAX_SECONDS) -> Iterator["Subscription"]:
        """Open a stream; closing it breaks the connection off."""
        # `-T .` reads standard input without blocking, so that curl prints what comes back meanwhile;
        # `--max-time` would make it block all the same.
        options = ["--no-progress-meter", "--no-buffer", "-X", "POST", "-T", "."]
        with conversation([*self._command, *options, self._broker.url(f"/subscribe/{topic}")], max_seconds) as curl:
            yield Subscription(curl)


class Subscription:
    """A running curl whose input and output are the two directions of a subscription."""

    def __init__(self, curl: Conversation) -> None:
        self._curl = curl

    def send(self, command: str) -> None:
        self._curl.say(json.dumps(command))

    def receive(self) -> dict[str, Any]:
        """Return the next line; fails when the stream ends."""
        fields: dict[str, Any] = json.loads(self._curl.hear())
        return fields

    def receive_message(self) -> bytes:
        return base64.b64decode(self.receive()["msg"])
