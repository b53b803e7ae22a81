"""Measure how many messages a second can be consumed over RESP: each is received, then acknowledged, then the next.

    .venv/bin/python examples/consume_benchmark.py --messages 50000 --connections 10

The figure is that of broker and client together; on a machine with few cores they share them.
"""

import argparse
import asyncio
import time
from typing import cast

import hiredis
import redis


class Consumer(asyncio.Protocol):
    """One connection. Replies alternate: a message, then the OK to its ACK, then the next message."""

    def __init__(self, topic: str, consumed: list[int], done: "asyncio.Future[None]") -> None:
        self._subscribe = hiredis.pack_command(("SUBSCRIBE", topic))
        self._consumed = consumed  # how many are left, for all connections
        self._done = done
        self._replies = hiredis.Reader()
        self._is_message_next = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for messages."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._subscribe)

    def data_received(self, data: bytes) -> None:
        """Acknowledge what came."""
        self._replies.feed(data)
        while (reply := self._replies.gets()) is not False:
            if isinstance(reply, hiredis.ReplyError):
                self._done.set_exception(reply)
                return
            if self._is_message_next:
                self._transport.write(b"*1\r\n$3\r\nACK\r\n")
            else:
                self._count()
            self._is_message_next = not self._is_message_next

    def _count(self) -> None:
        self._consumed[0] -= 1
        if not self._consumed[0]:
            self._done.set_result(None)


def publish(options: argparse.Namespace) -> None:
    client = redis.Redis(host=options.host, port=options.port, socket_timeout=None)  # the default is 5 s
    pipeline = client.pipeline(transaction=False)
    for number in range(options.messages):
        pipeline.execute_command("PUBLISH", options.topic, str(number).zfill(options.size))
        if number % 1000 == 999:
            pipeline.execute()
    pipeline.execute()


async def consume(options: argparse.Namespace) -> float:
    """Return how many seconds it took."""
    loop, left = asyncio.get_running_loop(), [options.messages]
    done = loop.create_future()
    began_at = time.perf_counter()
    for _ in range(options.connections):
        await loop.create_connection(lambda: Consumer(options.topic, left, done), options.host, options.port)
    await done
    return time.perf_counter() - began_at


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="benchmark")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=10)
    parser.add_argument("--size", type=int, default=100, metavar="BYTES")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    publish(options)
    seconds = asyncio.run(consume(options))
    print(f"{options.messages} messages in {seconds:.2f} s: {options.messages / seconds:,.0f} a second")


if __name__ == "__main__":
    main()
