"""Two hostile RESP clients at work, and an innocent publisher and consumer beside them.

What must hold: every message that was acknowledged is consumed, once and in order; memory and log stay small; the
process stops in good order. How long the innocent wait is printed (`pytest -s`): on a machine that the hostile clients
use, too, it says little about the broker alone. What a turn of the loop may hold is in tests/server/resp/test_turns.py.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from hiredis import pack_command

from tests.acceptance.process import FREE_PORTS, BrokerProcess
from tests.acceptance.resp_floods import FLOODS, Connect, Streams, connector
from tests.acceptance.users import UsersFile
from tests.durability.load.measuring import rss_bytes

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

HOSTILE_CLIENTS = 2
CALM_SECONDS = 0.3
#: For the hostile clients to begin.
START_SECONDS = 0.4
FLOOD_SECONDS = 0.7
PATIENCE_SECONDS = 60
MAX_GROWTH_BYTES = 192 << 20
MAX_LOG_BYTES = 16 << 10
TOPIC = b"innocent"


@dataclass
class Innocent:
    """Publishes numbers one by one, and consumes them beside it."""

    connect: Connect
    credentials: tuple[str, str]
    published_count: int = 0
    consumed: list[int] = field(default_factory=list)

    async def sign_in(self) -> Streams:
        reader, writer = await self.connect()
        writer.write(pack_command((b"AUTH", *self.credentials)))
        assert await reader.readuntil(b"\r\n") == b"+OK\r\n"
        return reader, writer

    async def publish_for(self, streams: Streams, seconds: float) -> list[float]:
        """Publish as fast as it goes; return what each took, in seconds, sorted."""
        reader, writer = streams
        took_seconds: list[float] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or not took_seconds:
            begun = time.monotonic()
            writer.write(pack_command((b"PUBLISH", TOPIC, b"%d" % self.published_count)))
            assert await reader.readuntil(b"\r\n") == b"+OK\r\n"
            took_seconds.append(time.monotonic() - begun)
            self.published_count += 1
        return sorted(took_seconds)

    async def consume(self, streams: Streams) -> None:
        reader, writer = streams
        writer.write(pack_command((b"SUBSCRIBE", TOPIC)))
        while True:
            await reader.readuntil(b"\r\n")
            self.consumed.append(int(await reader.readuntil(b"\r\n")))
            writer.write(pack_command((b"ACK",)))
            assert await reader.readuntil(b"\r\n") == b"+OK\r\n"

    async def has_all(self) -> None:
        while len(self.consumed) < self.published_count:  # noqa: ASYNC110 - the consumer sets no event
            await asyncio.sleep(0.01)


@contextmanager
def hostile_clients(name: str, port: int, cafile: str | None) -> Iterator[None]:
    """Run two hostile clients, each as a process, until the block ends."""
    command = [sys.executable, "-m", "tests.acceptance.resp_floods", name, str(port), cafile or "-"]
    hostile = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(HOSTILE_CLIENTS)]
    try:
        yield
    finally:
        for process in hostile:
            process.kill()
            process.wait()


def p99(seconds: list[float]) -> float:
    return seconds[len(seconds) * 99 // 100]


@dataclass
class Victim:
    """A broker, what its RESP port requires, and a user with all rights."""

    broker: BrokerProcess
    cafile: str | None
    credentials: tuple[str, str]


async def beside(name: str, victim: Victim) -> str:
    """Publish and consume in the calm and beside a flood; return what is to be told of it."""
    port = victim.broker.resp_port
    innocent = Innocent(connector(port, victim.cafile), victim.credentials)
    publisher, consumer = await innocent.sign_in(), await innocent.sign_in()
    consuming = asyncio.create_task(innocent.consume(consumer))
    calm = await innocent.publish_for(publisher, CALM_SECONDS)
    with hostile_clients(name, port, victim.cafile):
        await innocent.publish_for(publisher, START_SECONDS)
        flooded = await innocent.publish_for(publisher, FLOOD_SECONDS)
    await innocent.has_all()
    consuming.cancel()
    with suppress(asyncio.CancelledError):
        await consuming
    for _, writer in (publisher, consumer):
        writer.transport.abort()
    await asyncio.sleep(0.01)  # until they are closed
    assert innocent.consumed == list(range(innocent.published_count))
    return f"p99 {p99(calm) * 1e3:.1f} ms in the calm, {p99(flooded) * 1e3:.1f} ms beside it, {len(flooded)} publishes"


@pytest.fixture(scope="module")
def victims(trust, tmp_path_factory):
    """Brokers: one without users, one with TLS, and one with users."""
    directory = tmp_path_factory.mktemp("flooded")
    users = UsersFile(directory)
    token = users.add("innocent", "-admin", "*")
    started: dict[str, Victim] = {}
    for kind, flags in (("open", ()), ("TLS", ("-resp-tls",)), ("users", ("-users", str(users.path)))):
        process = BrokerProcess([*FREE_PORTS, *trust.flags, "-db", kind, *flags], cwd=directory)
        credentials = ("innocent", token) if kind == "users" else ("default", "any")
        started[kind] = Victim(process, trust.ca if kind == "TLS" else None, credentials)
    try:
        for victim in started.values():
            victim.broker.wait_until_ready()
        yield started
        for victim in started.values():
            victim.broker.stop()
    finally:
        for victim in started.values():
            victim.broker.end()


ON_OPEN = [("open", name) for name in FLOODS if name not in ("half_open_handshakes", "guesses")]
ON_TLS = [("TLS", name) for name in ("half_open_handshakes", "multibulk", "inline", "come_and_go", "never_read")]
WITH_USERS = [("users", name) for name in ("guesses", "inline", "half_commands", "come_and_go")]


@pytest.mark.parametrize(("kind", "name"), ON_OPEN + ON_TLS + WITH_USERS)
async def test_the_innocent_go_on_beside_a_flood(victims, kind, name):
    broker = victims[kind].broker
    before_bytes, said_bytes = rss_bytes(broker.process.pid), len(broker.output)
    async with asyncio.timeout(PATIENCE_SECONDS):
        told = await beside(name, victims[kind])
    growth_bytes, log_bytes = rss_bytes(broker.process.pid) - before_bytes, len(broker.output) - said_bytes
    print(f"{kind} {name}: {told}, {growth_bytes >> 20} MiB, {log_bytes} bytes of log")
    assert growth_bytes < MAX_GROWTH_BYTES
    assert log_bytes < MAX_LOG_BYTES
    assert "Traceback" not in broker.output
