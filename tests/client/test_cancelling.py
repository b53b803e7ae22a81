"""A task that is cancelled ends, in whatever line of the client it waits: the broker here answers nothing but PING."""

import asyncio

import hiredis
import pytest

from miniqueue_client import AsyncClient, ConnectError

#: More turns of the event loop than a call takes to be sent, and than a task that is cancelled takes to end.
TURNS = 30
#: The client would wait this long for what the broker never says; no test does.
WAIT_SECONDS = 3600
GREETING = b"%1\r\n$5\r\nproto\r\n:3\r\n"


class Mute:
    """A broker that greets, answers PING, and takes in everything else without a word."""

    def __init__(self, greets: bool = True) -> None:
        self._replies = {b"PING": b"+PONG\r\n", b"CLIENT": b"+OK\r\n"} | ({b"HELLO": GREETING} if greets else {})
        self.greeted = asyncio.Event()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        words = hiredis.Reader()
        try:
            while data := await reader.read(65_536):
                words.feed(data)
                while (command := words.gets()) is not False:
                    self.greeted.set()
                    writer.write(self._replies.get(command[0], b""))
        except ConnectionError:
            pass
        finally:
            writer.close()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("turn", range(TURNS))
async def test_a_task_that_is_cancelled_in_any_turn_of_a_receive_ends(turn):
    async with Mute() as url, AsyncClient(url, retries=0, timeout_seconds=WAIT_SECONDS) as client:
        await client.ping()
        receiving = asyncio.create_task(client.receive("t", wait_seconds=WAIT_SECONDS))
        await turns(turn)
        receiving.cancel()
        await turns(TURNS)
        is_over = receiving.done()
        receiving.cancel()
        await asyncio.wait([receiving])
        assert (is_over, await client.ping()) == (True, "PONG")


async def test_a_task_that_is_cancelled_while_it_signs_in_ends():
    broker = Mute(greets=False)
    async with broker as url, AsyncClient(url, retries=0, timeout_seconds=WAIT_SECONDS) as client:
        asking = asyncio.create_task(client.ping())
        await broker.greeted.wait()
        asking.cancel()
        await turns(TURNS)
        assert asking.cancelled()


async def test_a_broker_that_does_not_greet_is_given_up():
    async with Mute(greets=False) as url, AsyncClient(url, retries=0, timeout_seconds=0.05) as client:
        with pytest.raises(ConnectError, match="cannot connect to redis://127"):
            await client.ping()
