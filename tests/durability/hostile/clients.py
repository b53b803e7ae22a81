"""What hostile clients do, each for as long as its process lives.

python -m tests.durability.hostile.clients NAME RESP HTTPS MONITOR CA TOKEN

The token is that of a user who may do everything, since a client without rights gets less far. What is sent is made
once, and replies are read without being parsed, so that it costs the broker more than the client.
"""

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import NamedTuple

from hiredis import pack_command
from hyperframe.frame import RstStreamFrame, SettingsFrame, WindowUpdateFrame

from tests.server.hypercorn.raw_http2 import RawHttp2, connect_raw

#: The topics of the victim that hostile clients use: one with messages of 1 MiB, one with partitions.
LARGE, WIDE = b"large", b"wide"
LARGE_MESSAGES, MESSAGE_BYTES = 8, (1 << 20) - 1024
STREAMS = 99
#: How many connections a client opens, if it needs more than one.
CONNECTIONS = 8
#: How long a client waits before it connects again, after the broker has closed its connection.
PAUSE_SECONDS = 0.05


class Target(NamedTuple):
    """A broker, and the token of a user of it."""

    resp: int
    https: int
    monitor: int
    ca: str
    token: str

    @property
    def words(self) -> list[str]:
        """What `python -m` needs to know of it."""
        return [str(self.resp), str(self.https), str(self.monitor), self.ca, self.token]


Hostile = Callable[[Target], Awaitable[None]]


async def _pour(target: Target, commands: bytes, *, signs_in: bool = True) -> None:
    """Send the same again and again as fast as it is accepted, and discard the replies; reconnect when it ends."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", target.resp)
            if signs_in:
                writer.write(pack_command((b"AUTH", b"hostile", target.token.encode())))
            discarding = asyncio.create_task(_discard(reader))
            while not discarding.done():
                writer.write(commands)
                await writer.drain()
            writer.transport.abort()
        await asyncio.sleep(PAUSE_SECONDS)


async def _discard(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(1 << 18):
            pass


async def tiny_commands(target: Target) -> None:
    await _pour(target, pack_command((b"PING",)) * 100_000)


async def long_replies(target: Target) -> None:
    read = pack_command((b"READ", LARGE, b"0", b"0", b"COUNT", b"4", b"BYTES", b"4194304"))
    await _pour(target, (pack_command((b"COMMAND", b"DOCS")) * 10 + read) * 10)


async def topics(target: Target) -> None:
    await _pour(target, pack_command((b"TOPICS",)) * 300)


async def info(target: Target) -> None:
    await _pour(target, pack_command((b"INFO",)) * 64)


async def stats(target: Target) -> None:
    await _pour(target, (pack_command((b"STATS",)) + pack_command((b"STATS", WIDE)) * 4) * 64)


async def seek(target: Target) -> None:
    words = [(b"GROUP", b"SEEK", WIDE, b"hostile", start) for start in (b"earliest", b"latest")]
    await _pour(target, b"".join(map(pack_command, words)) * 64)


async def large_messages(target: Target) -> None:
    """Publish as much as the broker stores, and remove it."""
    publish = pack_command((b"PUBLISH", b"poured", bytes(MESSAGE_BYTES)))
    await _pour(target, publish * 8 + pack_command((b"PURGE", b"poured")))


async def sign_in_attempts(target: Target) -> None:
    guesses = [pack_command((b"AUTH", b"human", b"guess %d" % number)) for number in range(100)]
    await asyncio.gather(*(_pour(target, b"".join(guesses), signs_in=False) for _ in range(CONNECTIONS)))


async def tls_handshakes(target: Target) -> None:
    """Agree on TLS, and leave."""
    context = ssl.create_default_context(cafile=target.ca)
    context.set_alpn_protocols(["h2"])

    async def shake() -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", target.https, ssl=context, server_hostname="localhost"
                )
                writer.transport.abort()

    await asyncio.gather(*(shake() for _ in range(CONNECTIONS)))


async def window_games(target: Target) -> None:
    """Ask for large messages, take a byte of each, and give up."""

    async def play() -> None:
        while True:
            with suppress(OSError):
                await _play(target)
            await asyncio.sleep(PAUSE_SECONDS)

    await asyncio.gather(*(play() for _ in range(CONNECTIONS)))


async def _play(target: Target) -> None:
    client = RawHttp2(await connect_raw(target.https, target.ca))
    try:
        await ask_in_vain(client, target.token)
        for stream_id in range(1, 2 * STREAMS, 2):
            client.send(WindowUpdateFrame(stream_id, window_increment=1))
            await asyncio.sleep(0.01)
        client.send(*(RstStreamFrame(stream_id, error_code=8) for stream_id in range(1, 2 * STREAMS, 2)))
        await asyncio.sleep(0.2)
    finally:
        client.peer.transport.abort()


async def ask_in_vain(client: RawHttp2, token: str, path: str = f"/topics/{LARGE.decode()}/messages?count=1") -> None:
    """Send as many requests as may be open, with windows in which no byte of a reply fits."""
    client.begin({SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    fields = [("authorization", f"Bearer {token}")] if token else []
    for stream_id in range(1, 2 * STREAMS, 2):
        client.send(client.request(stream_id, *fields, method="GET", path=path))
    await asyncio.sleep(0)


async def listings(target: Target) -> None:
    """Ask for all pages that name every topic, over HTTP."""
    context = ssl.create_default_context(cafile=target.ca)

    async def ask(port: int, path: str, tls: ssl.SSLContext | None) -> None:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {target.token}\r\n\r\n"
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("localhost", port, ssl=tls)
                writer.write(request.encode() * 10)
                await _discard(reader)
                writer.transport.abort()
            await asyncio.sleep(PAUSE_SECONDS)

    pages = ((target.https, "/topics", context), (target.monitor, "/stats", None), (target.monitor, "/metrics", None))
    await asyncio.gather(*(ask(*page) for page in pages * 3))


HOSTILE: Mapping[str, Hostile] = MappingProxyType(
    {
        client.__name__: client
        for client in (
            tiny_commands,
            long_replies,
            topics,
            info,
            stats,
            seek,
            large_messages,
            sign_in_attempts,
            tls_handshakes,
            window_games,
            listings,
        )
    }
)


@contextmanager
def at_work(name: str, target: Target) -> Iterator[None]:
    """Run a hostile client, in a process of its own, while the block runs."""
    command = [sys.executable, "-m", "tests.durability.hostile.clients", name, *target.words]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, f"{name} has ended by itself"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    os.nice(19)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    resp, https, monitor, ca, token = sys.argv[2:]
    asyncio.run(HOSTILE[sys.argv[1]](Target(int(resp), int(https), int(monitor), ca, token)))
