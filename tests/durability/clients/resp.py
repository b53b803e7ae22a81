"""A RESP connection for tests, on asyncio: commands out, replies in, and no more."""

import asyncio

import hiredis


class Resp:
    """One connection. Every method raises `ConnectionError` when it is over."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._replies = hiredis.Reader()

    @classmethod
    async def connect(cls, port: int) -> "Resp":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20))

    def send(self, *commands: tuple[bytes, ...]) -> None:
        """Send commands, without waiting for their replies."""
        if self._writer.is_closing():
            raise ConnectionResetError("closed by the broker")
        self._writer.write(b"".join(hiredis.pack_command(command) for command in commands))

    async def hear(self) -> object:
        """Return the next reply or delivery; an error reply is returned, not raised."""
        while (reply := self._replies.gets()) is False:
            received = await self._reader.read(1 << 16)
            if not received:
                raise ConnectionResetError("closed by the broker")
            self._replies.feed(received)
        return reply

    async def ask(self, *command: bytes) -> object:
        """Send one command and return its reply."""
        self.send(command)
        return await self.hear()

    def close(self) -> None:
        self._writer.close()

    async def end(self) -> None:
        """Close it, and wait until it is closed; what was not sent yet is lost if the broker does not read."""
        self._writer.close()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except (TimeoutError, ConnectionError):
            self.abort()
            await asyncio.sleep(0)

    def abort(self) -> None:
        """End it without a word, and without what was not sent yet."""
        self._writer.transport.abort()
