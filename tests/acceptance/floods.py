"""What hostile clients do, each for as long as its process lives: `python -m tests.acceptance.floods NAME PORT CA`.

None of them waits for an answer that it could do without, and what they send is made once: they are to cost the
server more than themselves.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
)

from tests.server.hypercorn.raw_http2 import RawConnection, RawHttp2, connect_raw

#: Begins as TLS does, and never goes on: a handshake record of 512 bytes of which these come.
HALF_A_HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
FRAMES = 2000

Flood = Callable[[int, str], Awaitable[None]]


async def _again_and_again(port: int, cafile: str, make_frames: Callable[[RawHttp2], list[Frame]]) -> None:
    """Connect and send; connect again whenever the server has closed the connection."""
    prepared = b"".join(frame.serialize() for frame in make_frames(RawHttp2(RawConnection())))
    while True:
        client = RawHttp2(await connect_raw(port, cafile))
        client.begin()
        client.peer.write(prepared)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.peer.until_over()
        client.peer.transport.abort()


async def rapid_reset(port: int, cafile: str) -> None:
    def frames(client: RawHttp2) -> list[Frame]:
        streams = range(1, FRAMES, 2)
        pairs = [(client.request(n, path="/publish/flooded"), RstStreamFrame(n, error_code=8)) for n in streams]
        return [frame for pair in pairs for frame in pair]

    await _again_and_again(port, cafile, frames)


async def pings(port: int, cafile: str) -> None:
    await _again_and_again(port, cafile, lambda client: [PingFrame(0, opaque_data=bytes(8))] * FRAMES)


async def settings(port: int, cafile: str) -> None:
    await _again_and_again(port, cafile, lambda client: [SettingsFrame(0)] * FRAMES)


async def continuations(port: int, cafile: str) -> None:
    def frames(client: RawHttp2) -> list[Frame]:
        return [HeadersFrame(1, data=client.headers()), *[ContinuationFrame(1, data=bytes(1000))] * 100]

    await _again_and_again(port, cafile, frames)


async def empty_data(port: int, cafile: str) -> None:
    def frames(client: RawHttp2) -> list[Frame]:
        return [client.post(1, path="/publish/flooded"), *[DataFrame(1)] * FRAMES]

    await _again_and_again(port, cafile, frames)


async def slow_headers(port: int, cafile: str, connections: int = 200) -> None:
    """Hold connections whose first request never ends."""
    clients = [RawHttp2(await connect_raw(port, cafile)) for _ in range(connections)]
    for client in clients:
        client.begin()
        client.send(HeadersFrame(1, data=client.headers()))
    await asyncio.Event().wait()


async def zero_windows(port: int, cafile: str, connections: int = 5, streams: int = 99) -> None:
    """Consume what is there, and take nothing of it."""
    clients = [RawHttp2(await connect_raw(port, cafile)) for _ in range(connections)]
    for client in clients:
        client.begin({SettingsFrame.INITIAL_WINDOW_SIZE: 0})
        for stream_id in range(1, 2 * streams, 2):
            client.send(client.post(stream_id, path="/subscribe/bait?prefetch=100"))
            client.send(DataFrame(stream_id, data=b'"INIT"'))
    await asyncio.Event().wait()


async def half_open_handshakes(port: int, _cafile: str, connections: int = 500) -> None:
    """Hold connections that have not agreed on TLS."""
    peers = [await connect_raw(port, None) for _ in range(connections)]
    for peer in peers:
        peer.write(HALF_A_HANDSHAKE)
    await asyncio.Event().wait()


FLOODS: Mapping[str, Flood] = MappingProxyType(
    {
        flood.__name__: flood
        for flood in (
            rapid_reset,
            pings,
            settings,
            continuations,
            empty_data,
            slow_headers,
            zero_windows,
            half_open_handshakes,
        )
    }
)

if __name__ == "__main__":
    asyncio.run(FLOODS[sys.argv[1]](int(sys.argv[2]), sys.argv[3]))
