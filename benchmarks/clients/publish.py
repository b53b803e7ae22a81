"""Publish in runs: each connection sends a run of messages, waits for all replies, and sends the next.

That is what redis-benchmark does with -P; this client does it for NATS and beanstalkd.
"""

import argparse
import asyncio
import json
from typing import cast

import uvloop

from benchmarks.clients.countdown import Countdown
from benchmarks.clients.dialects import DIALECTS, Dialect


class Publisher(asyncio.Protocol):
    """One connection that keeps a run of publishes under way."""

    def __init__(self, countdown: Countdown, dialect: Dialect, number: int, payload: bytes, pipeline: int) -> None:
        self._countdown = countdown
        self._dialect = dialect
        self._hello = dialect.hello % number if dialect.hello else b""
        self._run = dialect.publish(payload, number) * pipeline
        self._pipeline = pipeline
        self._unanswered = 0
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first run."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._hello)
        self._send()

    def _send(self) -> None:
        self._unanswered = self._pipeline
        self._transport.write(self._run)

    def data_received(self, data: bytes) -> None:
        """Count replies; go on when the run is answered."""
        if data.endswith(b"PING\r\n"):
            self._transport.write(b"PONG\r\n")
        accepted = self._dialect.accepted
        answered = (self._tail + data).count(accepted)
        self._tail = data[-len(accepted) + 1 :] if len(accepted) > 1 else b""
        if any(word in data for word in self._dialect.refused):
            self._countdown.fail(RuntimeError(data[:200].decode(errors="replace").strip()))
        self._unanswered -= answered
        if self._countdown.take(answered) and self._unanswered <= 0:
            self._send()


async def publish(
    port: int, dialect: Dialect, *, count: int, payload: bytes, pipeline: int, connections: int
) -> dict[str, float]:
    """Publish `count` messages, or a few more; return the rate."""
    countdown = Countdown(count)
    loop = asyncio.get_running_loop()
    for number in range(connections):
        await loop.create_connection(
            lambda number=number: Publisher(countdown, dialect, number, payload, pipeline),  # type: ignore[misc]  # number
            "127.0.0.1",
            port,
        )
    return await countdown.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dialect", choices=sorted(DIALECTS))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--bytes", type=int, default=10)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--connections", type=int, default=50)
    args = parser.parse_args()
    load = publish(
        args.port,
        DIALECTS[args.dialect],
        count=args.count,
        payload=b"x" * args.bytes,
        pipeline=args.pipeline,
        connections=args.connections,
    )
    print(json.dumps(uvloop.run(load)))


if __name__ == "__main__":
    main()
