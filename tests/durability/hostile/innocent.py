"""A producer and a consumer that do no harm, and how fast they are served."""

import time
from typing import NamedTuple

from tests.durability.clients.resp import Resp

#: How many publishes are in one pipeline, and how many messages are received at once.
PIPELINE = 256
TOPIC = b"innocent"


class Served(NamedTuple):
    """What the innocent got: pipelined messages a second, published and consumed; and how long one publish took."""

    rate: float
    took_seconds: list[float]


class Innocent:
    """A producer and a consumer, signed in."""

    def __init__(self, producer: Resp, consumer: Resp) -> None:
        self._producer = producer
        self._consumer = consumer
        self._payload = bytes(100)

    @classmethod
    async def sign_in(cls, port: int, token: str) -> "Innocent":
        """Connect twice."""
        producer, consumer = await signed_in(port, token), await signed_in(port, token)
        return cls(producer, consumer)

    async def work_for(self, seconds: float) -> Served:
        """Publish and consume pipelined half of the time, and publish one by one the other half."""
        rate = await self._rate(seconds / 2)
        took_seconds: list[float] = []
        end, count = time.monotonic() + seconds / 2, 0
        while time.monotonic() < end or not took_seconds:
            begun = time.monotonic()
            count += await self._publish(1)
            took_seconds.append(time.monotonic() - begun)
        await self._consume(count)
        return Served(rate, took_seconds)

    async def _rate(self, seconds: float) -> float:
        count, begun = 0, time.monotonic()
        while time.monotonic() < begun + seconds:
            published = await self._publish(PIPELINE)
            await self._consume(published)
            count += published
        return count / (time.monotonic() - begun)

    async def _publish(self, count: int) -> int:
        """Publish so many messages; return how many the broker had memory for."""
        self._producer.send(*[(b"PUBLISH", TOPIC, self._payload)] * count)
        replies = [await self._producer.hear() for _ in range(count)]
        assert all(reply == b"OK" or str(reply).startswith("LIMIT") for reply in replies), replies
        return replies.count(b"OK")

    async def _consume(self, count: int) -> None:
        """Take so many messages; there are no others."""
        while count > 0:
            words = (b"COUNT", b"%d" % min(count, PIPELINE), b"WAIT", b"1", b"AUTOACK")
            messages = await self._consumer.ask(b"RECEIVE", TOPIC, *words)
            assert isinstance(messages, list), messages
            count -= len(messages)

    def leave(self) -> None:
        """Close the connections."""
        self._producer.close()
        self._consumer.close()


async def signed_in(port: int, token: str) -> Resp:
    """Return a connection of the innocent user."""
    connection = await Resp.connect(port)
    try:
        assert await connection.ask(b"AUTH", b"innocent", token.encode()) == b"OK"
    except BaseException:
        connection.abort()
        raise
    return connection
