"""A load client for SUBSCRIBE over RESP: every connection settles what it gets and waits for the next.

Run as a process of its own: `python -m benchmarks.stream_client --port 6379 --topic t --count 100000`. Prints the
seconds from the first message to the last, as JSON.
"""

import argparse
import asyncio
import json
import time
from typing import cast

import hiredis
import uvloop


class Run:
    """What all connections of a run share: how many messages there still are, and when it began and ended."""

    def __init__(self, count: int) -> None:
        self.remaining = count
        self.began_at = 0.0
        self.done = asyncio.get_running_loop().create_future()

    def count(self) -> bool:
        """Note one message; return whether to go on."""
        if not self.began_at:
            self.began_at = time.perf_counter()
        self.remaining -= 1
        if self.remaining == 0:
            self.done.set_result(time.perf_counter() - self.began_at)
        return self.remaining > 0


class StreamClient(asyncio.Protocol):
    """One subscribed connection that answers every message with the same word."""

    def __init__(self, run: Run, topic: str, word: bytes) -> None:
        self._run = run
        self._reader = hiredis.Reader()
        self._hello = hiredis.pack_command((b"SUBSCRIBE", topic))
        self._settle = hiredis.pack_command((word,))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Subscribe."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        """Settle every message; `OK` is no message."""
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, Exception):
                self._run.done.set_exception(reply)
            elif reply != b"OK" and self._run.remaining > 0 and self._run.count():
                self._transport.write(self._settle)


async def consume(port: int, topic: str, word: bytes, count: int, connections: int) -> float:
    """Settle `count` messages with `word` over `connections` connections; return the seconds it took."""
    run = Run(count)
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: StreamClient(run, topic, word), "127.0.0.1", port)
    return await asyncio.wait_for(run.done, 300)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--word", default="ACK")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--connections", type=int, default=50)
    args = parser.parse_args()
    seconds = uvloop.run(consume(args.port, args.topic, args.word.encode(), args.count, args.connections))
    print(json.dumps({"seconds": seconds, "rate": args.count / seconds}))


if __name__ == "__main__":
    main()
