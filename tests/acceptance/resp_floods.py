"""What hostile RESP clients do, each for as long as its process lives.

python -m tests.acceptance.resp_floods NAME PORT CA        CA: of a port with TLS; "-" for one without
"""

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from hiredis import pack_command

from tests.acceptance.floods import HALF_A_HANDSHAKE

COMMANDS = 100_000
#: What each of two hostile clients holds.
HANDSHAKES = 500
CONNECTIONS = 100

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
#: Opens a connection; `tls=False` for one that speaks no TLS to a port that does.
Connect = Callable[..., Awaitable[Streams]]
Flood = Callable[[Connect], Awaitable[None]]

PING = pack_command((b"PING",))


async def _drain(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(1 << 18):
            pass


async def _pour(connect: Connect, commands: bytes) -> None:
    """Send the same bytes as fast as the server reads them, and read the replies; connect again after the end."""
    while True:
        with suppress(OSError):
            reader, writer = await connect()
            draining = asyncio.create_task(_drain(reader))
            while not draining.done():
                writer.write(commands)
                await writer.drain()
            writer.transport.abort()


async def _hold(connect: Connect, said: bytes, count: int, *, tls: bool = True) -> None:
    """Say something on many connections, and hold them."""
    held = []
    for _ in range(count):
        with suppress(OSError):
            held.append(await connect(tls=tls))
            held[-1][1].write(said)
    await asyncio.Event().wait()


async def _come_and_go(connect: Connect, said: bytes) -> None:
    while True:
        with suppress(OSError):
            _, writer = await connect()
            writer.write(said)
            await asyncio.sleep(0)
            writer.transport.abort()


async def multibulk(connect: Connect) -> None:
    await _pour(connect, PING * COMMANDS)


async def inline(connect: Connect) -> None:
    await _pour(connect, b"PING\r\n" * COMMANDS)


async def empty_lines(connect: Connect) -> None:
    await _pour(connect, b"\n" * COMMANDS)


async def slow_to_read(connect: Connect) -> None:
    """Commands that hiredis is not trusted with, for what is in one of them."""
    await _pour(connect, (pack_command((b"PING", b"*1000")) + PING * 100) * (COMMANDS // 100))


async def long_replies(connect: Connect) -> None:
    await _pour(connect, pack_command((b"COMMAND", b"DOCS")) * 1000)


async def inline_on_many(connect: Connect) -> None:
    pouring = [_pour(connect, b"PING\r\n" * (COMMANDS // CONNECTIONS)) for _ in range(CONNECTIONS)]
    await asyncio.gather(*pouring)


async def half_open_handshakes(connect: Connect) -> None:
    await _hold(connect, HALF_A_HANDSHAKE, HANDSHAKES, tls=False)


async def half_commands(connect: Connect) -> None:
    await _hold(connect, b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$1000000\r\n" + bytes(200_000), CONNECTIONS)


async def huge_lengths(connect: Connect) -> None:
    await _come_and_go(connect, b"*2147483647\r\n$2000000000\r\n")


async def come_and_go(connect: Connect) -> None:
    await _come_and_go(connect, pack_command((b"SUBSCRIBE", b"come-and-go")))


async def never_read(connect: Connect) -> None:
    await _hold(connect, pack_command((b"ECHO", bytes(10_000))) * 300, CONNECTIONS)


async def guesses(connect: Connect) -> None:
    await _pour(connect, pack_command((b"AUTH", b"admin", b"a guess")) * 100)


FLOODS: Mapping[str, Flood] = MappingProxyType(
    {
        flood.__name__: flood
        for flood in (
            multibulk,
            inline,
            empty_lines,
            slow_to_read,
            long_replies,
            inline_on_many,
            half_open_handshakes,
            half_commands,
            huge_lengths,
            come_and_go,
            never_read,
            guesses,
        )
    }
)


def connector(port: int, cafile: str | None) -> Connect:
    """Return what opens connections to a port."""
    context = ssl.create_default_context(cafile=cafile) if cafile else None

    async def connect(*, tls: bool = True) -> Streams:
        if context is None or not tls:
            return await asyncio.open_connection("127.0.0.1", port)
        return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")

    return connect


if __name__ == "__main__":
    asyncio.run(FLOODS[sys.argv[1]](connector(int(sys.argv[2]), None if sys.argv[3] == "-" else sys.argv[3])))
