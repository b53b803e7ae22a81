"""Consume messages that are there already, over many connections, as fast as the server gives them."""

import argparse
import asyncio
import json

import uvloop

from benchmarks.clients.consumers import CONSUMERS, Consumer
from benchmarks.clients.countdown import Countdown


async def consume(
    port: int, consumer: type[Consumer], *, count: int, batch: int, word: bytes, connections: int
) -> dict[str, float]:
    """Take and settle `count` messages, the last batches half; return the rate."""
    countdown = Countdown(count)
    loop = asyncio.get_running_loop()
    for number in range(connections):
        protocol = consumer(countdown, number, batch, word)
        await loop.create_connection(lambda protocol=protocol: protocol, "127.0.0.1", port)  # type: ignore[misc]
    return await countdown.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("consumer", choices=sorted(CONSUMERS))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--word", default="ACK", help="how to settle, where there is a choice")
    parser.add_argument("--connections", type=int, default=50)
    args = parser.parse_args()
    load = consume(
        args.port,
        CONSUMERS[args.consumer],
        count=args.count,
        batch=args.batch,
        word=args.word.encode(),
        connections=args.connections,
    )
    print(json.dumps(uvloop.run(load)))


if __name__ == "__main__":
    main()
