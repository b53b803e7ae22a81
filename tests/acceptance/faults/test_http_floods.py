"""Two hostile clients at work, and an innocent publisher and consumer beside them.

What must hold: every message that was acknowledged is consumed, once and in order; memory and log stay small; the
process stops in good order. How much slower the innocent get is printed (`pytest -s`), and bounded generously as a
ratio: the hostile clients take processor time on this machine, too.
"""

import asyncio
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from miniqueue_client import Http2Client, connect
from tests.acceptance.floods import FLOODS
from tests.acceptance.process import BrokerProcess, Trust
from tests.acceptance.tools import MAX_SECONDS, on_both_http_servers
from tests.fakes import settle_down

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, on_both_http_servers]

HOSTILE_CLIENTS = 2
CALM_SECONDS = 0.3
#: For the hostile clients to begin.
START_SECONDS = 0.4
FLOOD_SECONDS = 0.7
MIN_PUBLISHES = 15
BAIT = [bytes(50_000)] * 100
#: Beyond what the broker had at first; one client could make it grow by 1,451 MB in 2 s.
MAX_GROWTH_BYTES = 192 << 20
MAX_LOG_BYTES = 64 << 10
MAX_SLOWDOWN = 200


class Innocent:
    """Publishes numbers one by one, and consumes them beside it."""

    def __init__(self, publisher: Http2Client, consumer: Http2Client, topic: str) -> None:
        self._publisher = publisher
        self._consumer = consumer
        self._topic = topic
        self.published_count = 0
        self.consumed: list[int] = []

    async def publish_for(self, seconds: float) -> float:
        """Publish as fast as it goes; return the median of what a publish took, in seconds.

        It is one of so many that a machine that stands still for a while does not count.
        """
        took_seconds = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(took_seconds) < MIN_PUBLISHES:
            begun = time.monotonic()
            await self._publisher.publish(self._topic, b"%d" % self.published_count)
            took_seconds.append(time.monotonic() - begun)
            self.published_count += 1
        return statistics.median(took_seconds)

    async def consume(self) -> None:
        async with self._consumer.subscribe(self._topic) as deliveries:
            async for delivery in deliveries:
                self.consumed.append(int(delivery.payload))
                deliveries.ack()

    async def has_all(self) -> None:
        async with asyncio.timeout(MAX_SECONDS):
            while len(self.consumed) < self.published_count:  # noqa: ASYNC110 - the consumer sets no event
                await asyncio.sleep(0.01)


def resident_bytes(broker: BrokerProcess) -> int:
    sample = r'^process_resident_memory_bytes(?:\{shard="0"\})? (\S+)$'
    found = re.search(sample, broker.monitor("/metrics").decode(), re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


@contextmanager
def hostile_clients(name: str, port: int, cafile: str) -> Iterator[None]:
    """Run two hostile clients, each as a process, until the block ends."""
    command = [sys.executable, "-m", "tests.acceptance.floods", name, str(port), cafile]
    hostile = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(HOSTILE_CLIENTS)]
    try:
        yield
    finally:
        for process in hostile:
            process.kill()
            process.wait()


async def leave(*clients: Http2Client) -> None:
    for client in clients:
        client.close()
        client._connection._transport.abort()
    await settle_down()  # until the sockets are closed


@pytest.mark.parametrize("name", FLOODS)
async def test_the_innocent_go_on_beside_a_flood(broker: BrokerProcess, trust: Trust, http_server, name):
    before_bytes, said_bytes = resident_bytes(broker), len(broker.output)
    port = broker.https_port
    publisher = await connect("localhost", port, cafile=trust.ca)
    consumer = await connect("localhost", port, cafile=trust.ca)
    for payload in BAIT if name == "zero_windows" else []:
        await publisher.publish("bait", payload)
    innocent = Innocent(publisher, consumer, f"{name}-{http_server}")
    consuming = asyncio.create_task(innocent.consume())
    calm_seconds = await innocent.publish_for(CALM_SECONDS)
    with hostile_clients(name, port, trust.ca):
        await innocent.publish_for(START_SECONDS)
        flooded_seconds = await innocent.publish_for(FLOOD_SECONDS)
    await innocent.has_all()
    consuming.cancel()
    with suppress(asyncio.CancelledError):
        await consuming
    await leave(publisher, consumer)
    assert innocent.consumed == list(range(innocent.published_count))
    slowdown = flooded_seconds / calm_seconds
    growth_bytes, log_bytes = resident_bytes(broker) - before_bytes, len(broker.output) - said_bytes
    print(f"{http_server} {name}: {slowdown:.1f} times slower, {growth_bytes >> 20} MiB, {log_bytes} bytes of log")
    assert growth_bytes < MAX_GROWTH_BYTES
    assert log_bytes < MAX_LOG_BYTES
    assert slowdown < MAX_SLOWDOWN
    assert "Traceback" not in broker.output
