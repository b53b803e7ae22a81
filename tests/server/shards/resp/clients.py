"""A client of RESP at the door of a shard."""

import asyncio

from miniqueue.errors import ProtocolError
from miniqueue.server.resp.server import RespServer
from miniqueue.wire.resp_splitting import end_of_reply
from tests.server.resp.clients import Client, command
from tests.server.shards.http.tunnels import until

#: Far longer than a reply takes, and shorter than the waits that are to be ended.
LIMIT_SECONDS = 30


class DoorClient(Client):
    """A client at the door of a shard, whose replies take the time that sockets take."""

    def __init__(self, server: RespServer) -> None:
        super().__init__(server)
        self.heard = b""

    def tell(self, *commands: tuple[bytes, ...]) -> None:
        """Send commands in one piece."""
        self.connection.data_received(b"".join(command(*words) for words in commands))

    async def hear(self, count: int = 1) -> list[bytes]:
        """Return the next replies, unparsed."""
        replies: list[bytes] = []

        def is_enough() -> bool:
            self.heard += self.transport.take()
            while self.heard and len(replies) < count:
                try:
                    end = end_of_reply(self.heard, 0)
                except ProtocolError:  # the rest is missing
                    break
                replies.append(self.heard[:end])
                self.heard = self.heard[end:]
            return len(replies) == count

        async with asyncio.timeout(LIMIT_SECONDS):
            await until(is_enough)
        return replies

    async def ask(self, *words: bytes) -> bytes:
        """Send a command, and return the reply."""
        self.tell(words)
        [reply] = await self.hear()
        return reply
