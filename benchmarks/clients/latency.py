"""Publish at a fixed rate while consumers wait; measure the time from the write of a message to its delivery.

The publishers do not wait for replies, so a slow server does not slow them down. They and the consumers are in one
process and read one clock. A message carries the time at which it was written.
"""

import argparse
import asyncio
import json
import time
from typing import cast

import uvloop

from benchmarks.clients.consumers import CONSUMERS, Consumer
from benchmarks.clients.dialects import DIALECTS, Dialect

#: Messages published in this first part of the time are not counted.
WARM_UP = 0.2
#: How long the last messages may take.
TAIL_SECONDS = 5.0


class Latencies:
    """Collects what the consumers receive."""

    def __init__(self) -> None:
        self.nanoseconds: list[int] = []
        self.error: Exception | None = None

    def received(self, payloads: list[bytes]) -> bool:
        """Note how old the payloads are."""
        now = time.perf_counter_ns()
        self.nanoseconds.extend([now - int(payload) for payload in payloads])
        return True

    def fail(self, error: Exception) -> None:
        """Note the first error."""
        self.error = self.error or error


class Writer(asyncio.Protocol):
    """One publishing connection."""

    def __init__(self, latencies: Latencies, dialect: Dialect, number: int) -> None:
        self._latencies = latencies
        self._dialect = dialect
        self._number = number

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        self._transport = cast(asyncio.Transport, transport)
        if self._dialect.hello:
            self._transport.write(self._dialect.hello % self._number)

    def data_received(self, data: bytes) -> None:
        """Look for errors only."""
        if data.endswith(b"PING\r\n"):
            self._transport.write(b"PONG\r\n")
        if any(word in data for word in self._dialect.refused):
            self._latencies.fail(RuntimeError(data[:200].decode(errors="replace").strip()))

    def publish(self) -> None:
        """Publish the time."""
        self._transport.write(self._dialect.publish(b"%d" % time.perf_counter_ns(), self._number))


async def publish_at(rate: int, seconds: float, writers: list[Writer]) -> int:
    """Publish `rate` messages per second, spread over the writers and over each second; return their number."""
    began_at, sent, total = time.perf_counter(), 0, int(rate * seconds)
    while sent < total:
        due = min(total, int((time.perf_counter() - began_at) * rate))
        for number in range(sent, due):
            writers[number % len(writers)].publish()
        sent = due
        await asyncio.sleep(0.001)
    return sent


async def measure(
    port: int, writers: list[Writer], readers: list[Consumer], latencies: Latencies, rate: int, seconds: float
) -> dict[str, float]:
    """Return the percentiles in milliseconds, and the messages delivered per second."""
    loop = asyncio.get_running_loop()
    for protocol in (*readers, *writers):
        await loop.create_connection(lambda protocol=protocol: protocol, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.sleep(0.2)  # until all are waiting
    await publish_at(rate, seconds * WARM_UP, writers)
    await _arrived(latencies, int(rate * seconds * WARM_UP))
    latencies.nanoseconds.clear()
    began_at = time.perf_counter()
    sent = await publish_at(rate, seconds, writers)
    await _arrived(latencies, sent)
    if latencies.error is not None:
        raise latencies.error
    if len(latencies.nanoseconds) < sent:
        raise RuntimeError(f"{sent - len(latencies.nanoseconds):,} of {sent:,} messages did not arrive in time")
    return percentiles(latencies.nanoseconds) | {"rate": sent / (time.perf_counter() - began_at)}


async def _arrived(latencies: Latencies, count: int) -> None:
    deadline = time.perf_counter() + TAIL_SECONDS
    while len(latencies.nanoseconds) < count and time.perf_counter() < deadline and latencies.error is None:  # noqa: ASYNC110 - the hot path shall not signal
        await asyncio.sleep(0.001)


def percentiles(nanoseconds: list[int]) -> dict[str, float]:
    """Return the 50th, 99th and 99.9th percentile, in milliseconds."""
    ranked = sorted(nanoseconds)
    return {f"p{at}": ranked[min(len(ranked) - 1, int(len(ranked) * at / 100))] / 1e6 for at in (50, 99, 99.9)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dialect", choices=sorted(DIALECTS))
    parser.add_argument("consumer", choices=sorted(CONSUMERS))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--consumers", type=int, default=50)
    parser.add_argument("--publishers", type=int, default=10)
    args = parser.parse_args()
    latencies = Latencies()
    writers = [Writer(latencies, DIALECTS[args.dialect], number) for number in range(args.publishers)]
    numbers = range(args.publishers, args.publishers + args.consumers)
    readers = [CONSUMERS[args.consumer](latencies, number, args.batch, b"ACK") for number in numbers]
    print(json.dumps(uvloop.run(measure(args.port, writers, readers, latencies, args.rate, args.seconds))))


if __name__ == "__main__":
    main()
