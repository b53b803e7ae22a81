"""A broker under a mixed load, looked at again and again: does anything grow, and is nothing left at the end?"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.process import COMMAND, FREE_PORTS, BrokerProcess, Trust
from tests.durability.clients.publishers import Ports
from tests.durability.load import mixed_load
from tests.durability.load.flatness import MIB, Sample, findings, growth
from tests.durability.load.measuring import descriptor_count, rss_bytes

#: What a broker under this load may take. LevelDB's two write buffers take 32 MiB each, the broker's cache
#: 64 MiB, and files that are mapped 80 MiB; prefetching consumers hold 4 MiB each.
MAX_RSS_BYTES = 512 * MIB
_SAMPLES = 200
_MIN_INTERVAL_SECONDS = 0.1
#: Also on a machine that has little time for it.
_FEWEST_SAMPLES = 40


class Soaked(NamedTuple):
    """What came of it."""

    counts: Counter[str]
    samples: list[Sample]
    findings: list[str]

    def line(self) -> str:
        """Return all of it on one line."""
        grown, peak_bytes = growth(self.samples), max(sample.rss_bytes for sample in self.samples)
        return " ".join(
            [
                "load:",
                *(f"{name}={count}" for name, count in sorted(self.counts.items())),
                f"RSS at most {peak_bytes / MIB:.0f} MiB; in the last quarter {grown.rss_bytes / MIB:+.1f} MiB,",
                f"{grown.tasks:+.0f} tasks, {grown.descriptors:+.0f} descriptors, {grown.files:+.0f} files",
            ]
        )


def soak(
    directory: Path,
    trust: Trust,
    seconds: float,
    seed: int,
    command: Sequence[str] = COMMAND,
) -> Soaked:
    """Run a broker under the mixed load, and judge it."""
    broker = BrokerProcess([*FREE_PORTS, *trust.flags, "-period", "50ms"], cwd=directory, command=command)
    try:
        broker.wait_until_ready()
        ports = Ports(broker.resp_port, broker.https_port, broker.monitor_port, trust.ca)
        counts, samples = asyncio.run(_load_and_look(broker, directory / "data", ports, seconds, seed))
        found = findings(samples) + _left(broker) + _said(broker)
        if max(sample.rss_bytes for sample in samples) > MAX_RSS_BYTES:
            found.append(f"RSS is beyond {MAX_RSS_BYTES / MIB:.0f} MiB")
        broker.stop()
    finally:
        broker.end()
    return Soaked(counts, samples, found)


async def _load_and_look(
    broker: BrokerProcess, store: Path, ports: Ports, seconds: float, seed: int
) -> tuple[Counter[str], list[Sample]]:
    samples: list[Sample] = []

    def goes_on() -> bool:
        is_enough = len(samples) >= _FEWEST_SAMPLES and asyncio.get_running_loop().time() >= ends_at
        return not is_enough and not looking.done()

    ends_at = asyncio.get_running_loop().time() + seconds
    looking = asyncio.create_task(_look(broker, store, max(seconds / _SAMPLES, _MIN_INTERVAL_SECONDS), samples))
    try:
        return await mixed_load.run(ports, goes_on, seed), samples
    finally:
        looking.cancel()


async def _look(broker: BrokerProcess, store: Path, interval_seconds: float, samples: list[Sample]) -> None:
    while True:
        samples.append(await asyncio.to_thread(sample, broker, store))
        await asyncio.sleep(interval_seconds)


def sample(broker: BrokerProcess, store: Path) -> Sample:
    """Look at the broker once."""
    metrics = broker.monitor("/metrics").decode()
    return Sample(
        rss_bytes=rss_bytes(broker.process.pid),
        tasks=float(metrics.partition("\nminiqueue_tasks ")[2].split()[0]),
        descriptors=descriptor_count(broker.process.pid),
        files=sum(1 for _ in store.rglob("*")),
    )


def _left(broker: BrokerProcess) -> list[str]:
    """Return what the topics still hold; every cycle has acknowledged or deleted all of its messages."""
    topics = json.loads(broker.monitor("/stats"))["topics"]
    return [
        f"topic {name}: {topic['published'] - topic['acknowledged']} messages are left"
        for name, topic in topics.items()
        if topic["published"] != topic["acknowledged"]
    ]


def _said(broker: BrokerProcess) -> list[str]:
    return [f"the log says: {line}" for line in broker.output.splitlines() if '"level":"error"' in line][:10]
