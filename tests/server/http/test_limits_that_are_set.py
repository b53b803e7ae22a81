"""Limits of HTTP and of RESP output with other figures than the usual ones: what an operator sets holds."""

import asyncio

from hyperframe.frame import DataFrame

from miniqueue.broker.runtime.accounts import Memory
from miniqueue.server.resp.closing import SlowReader
from tests.loops import on_loop
from tests.server.hypercorn.hostile import LeapingLoop, leap, on_both, publish, victim
from tests.server.hypercorn.raw_http2 import connect_raw


@on_both
@on_loop(LeapingLoop)
async def test_less_time_for_a_body(certificates, is_tls):
    limits = {"body_seconds": 4}
    async with victim(certificates, is_tls=is_tls, limits=limits) as server, server.http2() as client:
        client.send(client.post(1, path="/publish/t"), DataFrame(1, data=b"begun"))
        await asyncio.sleep(0.01)
        await leap(7)
        assert await client.status(1) == 408


@on_both
@on_loop(LeapingLoop)
async def test_less_room_for_headers(certificates, is_tls):
    limits = {"max_header_bytes": 1000}
    async with victim(certificates, is_tls=is_tls, limits=limits) as server:
        async with server.http2() as client:
            assert await publish(client, 1) == 201
            client.send(client.request(3, ("x", "y" * 1000)))
            await client.goodbye()
        peer = await server.raw()
        peer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 1000 + b"\r\n\r\n")
        assert (await peer.until_over()).startswith(b"HTTP/1.1 431 ")
        assert server.refused("large_headers") == 2


@on_loop(LeapingLoop)
async def test_less_time_for_tls(certificates):
    async with victim(certificates, is_tls=True, limits={"handshake_seconds": 3}) as server:
        peer = await connect_raw(server.served.port, None)
        server.peers.append(peer)
        peer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        await asyncio.sleep(0.01)
        await leap(5)
        await peer.until_over()


class Buffer:
    """A transport, as far as its reader is concerned."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def get_write_buffer_size(self) -> int:
        return self.size_bytes


async def test_less_room_for_replies_that_are_not_taken():
    cuts, account = [], Memory()
    for size_bytes in (1000, 1001):
        reader = SlowReader(10, max_bytes=1000)
        reader.watch(Buffer(size_bytes), lambda size_bytes=size_bytes: cuts.append(size_bytes), account)
        reader.stop()
    assert cuts == [1001]
