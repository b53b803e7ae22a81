"""The queues that are compared: how each is started, how messages get in, and what each lacks."""

import shutil
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import hiredis

from benchmarks import loads, servers
from benchmarks.bench import Bench, MeasurementError
from benchmarks.clients.dialects import pack
from benchmarks.servers import TOPIC, Server


@dataclass(frozen=True)
class Shape:
    """How messages are published."""

    payload_bytes: int = 10
    pipeline: int = 1
    connections: int = 50

    def __str__(self) -> str:
        return (
            f"{size_name(self.payload_bytes)}, pipeline {self.pipeline}, {count_name(self.connections, 'connection')}"
        )


@dataclass(frozen=True)
class Queue:
    """One contender with the settings that matter.

    Attributes:
      name: the name in the report.
      program: what must be installed; empty for ourselves.
      start: runs it in a folder of its own.
      dialect: the name of its protocol in `clients.dialects`.
      words: how redis-benchmark publishes to it, without the payload; empty when it does not speak RESP.
    """

    name: str
    program: str
    start: Callable[[Path], AbstractContextManager[Server]]
    dialect: str
    words: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        """Whether it can be run here."""
        return not self.program or shutil.which(self.program) is not None

    def publish(self, bench: Bench, server: Server, shape: Shape, count: int) -> float:
        """Publish `count` messages; return the rate."""
        amounts = {"count": count, "pipeline": shape.pipeline, "connections": shape.connections}
        payload = b"x" * shape.payload_bytes
        if self.words:
            return loads.resp(bench, server, list(self.words), payload=payload, **amounts)
        return loads.publish(bench, server, self.dialect, payload=payload, **amounts)

    def publish_rate(self, bench: Bench, server: Server, shape: Shape) -> float:
        """Publish for as long as a rate is measured; return it."""
        first = max(500, shape.pipeline * shape.connections)
        return bench.rate(lambda count: self.publish(bench, server, shape, count), first)

    def fill(self, bench: Bench, server: Server, count: int, payload_bytes: int = 10) -> None:
        """Publish at least `count` messages in the fastest way."""
        self.publish(bench, server, Shape(payload_bytes, pipeline=256), count)


def miniqueue(name: str, *options: str) -> Queue:
    """Return miniqueue with options."""
    return Queue(name, "", lambda folder: servers.miniqueue(folder, *options), "miniqueue", ("PUBLISH", TOPIC))


def _redis(name: str, appendfsync: str | None) -> Queue:
    start = partial(servers.redis, appendfsync=appendfsync)
    return Queue(name, "redis-server", start, "redis", ("XADD", TOPIC, "*", "field"))


MINIQUEUE = miniqueue("miniqueue")
MINIQUEUE_INTERVAL = miniqueue("miniqueue -sync interval", "-sync", "interval")
MINIQUEUE_NEVER = miniqueue("miniqueue -sync never", "-sync", "never")
REDIS = _redis("Redis, AOF always", "always")
REDIS_EVERYSEC = _redis("Redis, AOF everysec", "everysec")
REDIS_OFF = _redis("Redis, AOF off", None)
JETSTREAM = Queue("NATS JetStream, file", "nats-server", servers.nats, "nats")
BEANSTALKD = Queue("beanstalkd -f 0", "beanstalkd", partial(servers.beanstalkd, is_durable=True), "beanstalk")
BEANSTALKD_MEMORY = Queue(
    "beanstalkd in memory", "beanstalkd", partial(servers.beanstalkd, is_durable=False), "beanstalk"
)
ALL = (
    MINIQUEUE,
    MINIQUEUE_INTERVAL,
    MINIQUEUE_NEVER,
    REDIS,
    REDIS_EVERYSEC,
    REDIS_OFF,
    JETSTREAM,
    BEANSTALKD,
    BEANSTALKD_MEMORY,
)


def command(server: Server, *words: str) -> object:
    """Make one RESP request, such as creating a group."""
    with socket.create_connection(("127.0.0.1", server.ports["resp"]), timeout=60) as connection:
        connection.sendall(pack(*(word.encode() for word in words)))
        reader = hiredis.Reader()
        while (reply := reader.gets()) is False:
            reader.feed(connection.recv(65536))
    if isinstance(reply, Exception):
        raise MeasurementError(str(reply))
    return reply


def size_name(size_bytes: int) -> str:
    """Return a size as in a title: `10 B`, `64 KiB`."""
    return f"{size_bytes} B" if size_bytes < 1024 else f"{size_bytes // 1024} KiB"


def count_name(count: int, thing: str) -> str:
    """Return a number of things as in a title: `1 stream`, `10,000 topics`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")
