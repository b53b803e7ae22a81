"""What shards bring and cost, for docs/shards.md: `python -m benchmarks.shards --help`.

Eight clients publish, 32 in a pipeline or one by one, to a broker of one process, and to one of two shards, in turn.
Then eight consumers take what is there, 100 at a time, and acknowledge it. For each load, the medians of all rounds:
the rate, and the CPU time of all processes of the broker for each message.
"""

import argparse
import asyncio
import contextlib
import random
import socket
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, cast

import hiredis
import uvloop

from benchmarks.bench import MeasurementError
from benchmarks.clients.dialects import pack
from benchmarks.servers import TOPIC, Server, miniqueue
from miniqueue.core.settings.placing import Placing

CLIENTS: Final = 8
#: Connections of each publisher.
CONNECTIONS: Final = 6
SHARDS: Final = 2
PARTS: Final = 8
PIPELINES: Final = (32, 1)
PAYLOAD: Final = b"x" * 100
#: How many messages are received at a time.
BATCH: Final = b"100"


def topic_in(shard: int, client: int) -> str:
    """Return the name of the topic of a client, which is in a shard."""
    names = (f"t{client}-{number}" for number in range(1_000))
    return next(name for name in names if Placing(0, SHARDS).shard_of(name.encode()) == shard)


class Setup(NamedTuple):
    """A broker, and what its clients do.

    Attributes:
      has_shards: whether it has shards.
      topics: the topic of each client.
      doors: the shard to whose port each client is connected.
    """

    has_shards: bool
    topics: Sequence[str]
    doors: Sequence[int]


ALL_AT_ONE: Final = [0] * CLIENTS
IN_TURN: Final = [client % SHARDS for client in range(CLIENTS)]
#: Of two clients at a door, the topic of one is there.
HALF_THERE: Final = [client // SHARDS % SHARDS for client in range(CLIENTS)]
EACH_ITS_OWN: Final = [topic_in(shard, client) for client, shard in enumerate(IN_TURN)]
ONE_FOR_ALL: Final = [TOPIC] * CLIENTS
SETUPS: Final = {
    "eight topics": {
        "one process": Setup(False, EACH_ITS_OWN, ALL_AT_ONE),
        "two shards, go straight": Setup(True, EACH_ITS_OWN, IN_TURN),
        "two shards, any": Setup(True, EACH_ITS_OWN, HALF_THERE),
    },
    "one topic": {
        "one process": Setup(False, ONE_FOR_ALL, ALL_AT_ONE),
        "spread, clients at both": Setup(True, ONE_FOR_ALL, IN_TURN),
        "spread, clients at one": Setup(True, ONE_FOR_ALL, ALL_AT_ONE),
    },
}


class Figures(NamedTuple):
    """What was measured of one load: messages in a second, and microseconds of CPU time for each."""

    rate: float
    cost: float


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often to measure everything (5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long to publish (3)")
    parser.add_argument("--only", choices=SETUPS, help="measure with eight topics, or with one")
    args = parser.parse_args()
    measured: dict[tuple[str, str, str], list[Figures]] = defaultdict(list)
    for _ in range(args.rounds):
        for kind in [args.only] if args.only else SETUPS:
            for name, setup in SETUPS[kind].items():
                for pipeline in PIPELINES:
                    for load, figures in measure(setup, pipeline, args.seconds):
                        measured[kind, load, name].append(figures)
    print("\n".join(table(measured)))


def table(measured: dict[tuple[str, str, str], list[Figures]]) -> Iterator[str]:
    """Yield a line for each load of each broker: its medians, and its rate as a multiple of that of one process."""
    rates = {key: statistics.median(each.rate for each in figures) for key, figures in measured.items()}
    for (kind, load, name), figures in sorted(measured.items(), key=lambda item: item[0][:2]):
        rate, cost = rates[kind, load, name], statistics.median(each.cost for each in figures)
        ratio = rate / rates[kind, load, "one process"]
        yield f"{kind:13} {load:24} {name:24} {rate:9.0f}/s {ratio:5.2f} {cost:7.1f} µs"


def measure(setup: Setup, pipeline: int, seconds: float) -> Iterator[tuple[str, Figures]]:
    """Yield the loads of one broker, each with its figures."""
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder), setup) as (server, ports):

        def publish(count: int) -> int:
            return published(setup.topics, ports, pipeline, count)

        publish(64 * pipeline)  # makes topics and links
        few = timed(server, lambda: publish(500 * pipeline))
        count = int(few.rate * seconds / CLIENTS)
        yield f"publish, {pipeline} in a pipeline", timed(server, lambda: publish(count))
        yield f"receive after {pipeline}", timed(server, lambda: uvloop.run(receive(setup.topics, ports)))


def timed(server: Server, load: Callable[[], int]) -> Figures:
    """Return the figures of a load that returns how many messages it was."""
    before, began = cpu_seconds(server.process.pid), time.perf_counter()
    count = load()
    return Figures(count / (time.perf_counter() - began), (cpu_seconds(server.process.pid) - before) / count * 1e6)


def free_ports() -> int:
    """Return the first of as many ports as there are shards, which are free, and which no connection is given."""
    while True:
        first = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as listeners:
            for shard in range(SHARDS):
                listeners.enter_context(socket.create_server(("127.0.0.1", first + shard)))
            return first


@contextlib.contextmanager
def broker(folder: Path, setup: Setup) -> Iterator[tuple[Server, list[int]]]:
    """Run a broker; yield it, with the port of each client."""
    first = free_ports()
    options = ["-shards", str(SHARDS), "-shard-ports", str(first)] if setup.has_shards else []
    with miniqueue(folder, *options) as server:
        if not setup.has_shards:
            yield server, [server.port] * CLIENTS
            return
        if setup.topics is ONE_FOR_ALL:
            words = ["TOPIC", "CREATE", TOPIC, "SPREAD", str(PARTS)]
            subprocess.run(["redis-cli", "-p", str(first), *words], check=True, stdout=subprocess.DEVNULL)
        yield server, [first + door for door in setup.doors]


def published(topics: Sequence[str], ports: Sequence[int], pipeline: int, count: int) -> int:
    """Publish `count` messages, or a few more, as each client; return how many all of them were."""
    count = -(-count // pipeline) * pipeline
    amounts = ["-c", str(CONNECTIONS), "-P", str(pipeline), "-n", str(count), "--csv", "-x"]
    processes = list[subprocess.Popen[bytes]]()
    for topic, port in zip(topics, ports, strict=True):
        command = ["redis-benchmark", "-p", str(port), *amounts, "PUBLISH", topic]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        stdin = processes[-1].stdin
        assert stdin is not None
        stdin.write(PAYLOAD)
        stdin.close()
    for process in processes:  # at the end of its count it may say that all clients are gone, and fail
        process.wait()
    return count * len(processes)


class Consumer(asyncio.Protocol):
    """Receives and acknowledges in turn, until there is nothing more."""

    def __init__(self, topic: bytes) -> None:
        self.count = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._topic = topic
        self._receive = pack(b"RECEIVE", topic, b"COUNT", BATCH)
        self._reader = hiredis.Reader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first messages."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._receive)

    def data_received(self, data: bytes) -> None:
        """Acknowledge messages, and ask for more."""
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._take(reply)

    def _take(self, reply: object) -> None:
        if isinstance(reply, Exception):
            self.done.set_exception(MeasurementError(str(reply)))
        elif reply == []:
            self.done.set_result(None)
        elif isinstance(reply, list) and isinstance(reply[0], list):
            self.count += len(reply)
            self._transport.write(pack(b"ACK", self._topic, *[receipt for receipt, *_ in reply]))
        else:
            self._transport.write(self._receive)


async def receive(topics: Sequence[str], ports: Sequence[int]) -> int:
    """Receive and acknowledge all messages, with a consumer for each client; return how many there were."""
    loop, consumers = asyncio.get_running_loop(), list[Consumer]()
    for topic, port in zip(topics, ports, strict=True):
        _, consumer = await loop.create_connection(partial(Consumer, topic.encode()), "127.0.0.1", port)
        consumers.append(consumer)
    await asyncio.gather(*[consumer.done for consumer in consumers])
    return sum(consumer.count for consumer in consumers)


def cpu_seconds(pid: int) -> float:
    """Return the time that a process and those that it has started have been running."""
    threads = Path(f"/proc/{pid}/task")
    own = sum(int(each.read_text().split()[0]) for each in threads.glob("*/schedstat")) / 1e9
    children = [int(child) for each in threads.glob("*/children") for child in each.read_text().split()]
    return own + sum(map(cpu_seconds, children))


if __name__ == "__main__":
    main()
