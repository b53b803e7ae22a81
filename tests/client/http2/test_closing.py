"""The end of a connection over HTTP/2: after the block, nothing of it is open, whatever the server does."""

import asyncio

import pytest

from miniqueue_client.http2.connection import Connection
from tests.serving import serving


class Transport:
    """A transport that tells its protocol that it is closed in the next iteration, or not before it is aborted."""

    def __init__(self, protocol: asyncio.Protocol, *, is_answered: bool) -> None:
        self._protocol = protocol
        self._is_answered = is_answered
        self.was_aborted = False
        protocol.connection_made(self)

    def write(self, data: bytes) -> None:
        """Send nothing."""

    def close(self) -> None:
        if self._is_answered:
            self._end()

    def abort(self) -> None:
        self.was_aborted = True
        self._end()

    def _end(self) -> None:
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_server_that_does_not_close_its_side_is_not_waited_for(is_answered):
    connection = Connection()
    transport = Transport(connection, is_answered=is_answered)
    connection.close()
    await connection.wait_closed(60 if is_answered else 0)
    assert transport.was_aborted is not is_answered


async def test_the_connection_is_closed_when_the_block_ends(certificates):
    async with serving(certificates) as served:
        async with await served.client() as client:
            await client.publish("t", b"x")
            socket = client._connection._transport.get_extra_info("socket")
        assert socket.fileno() == -1
