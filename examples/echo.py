"""Publish what is typed or piped in, line by line, and print what comes back.

    .venv/bin/python examples/echo.py
    seq 5 | .venv/bin/python examples/echo.py

Start it twice to see two consumers share a topic. It ends when the input has ended and as many messages have come.
"""

import argparse
import asyncio
import sys
from threading import Thread

from miniqueue_client import Http2Client, Subscription, connect

Lines = asyncio.Queue[bytes | None]


async def echo(options: argparse.Namespace) -> None:
    async with (
        await connect(options.host, options.port, cafile=options.cafile) as client,
        client.subscribe(options.topic) as subscription,
        asyncio.TaskGroup() as tasks,
    ):
        printing = tasks.create_task(print_messages(subscription, printed := asyncio.Queue()))
        for _ in range(await publish_lines(client, options.topic, read_input())):
            await printed.get()
        printing.cancel()


async def publish_lines(client: Http2Client, topic: str, lines: Lines) -> int:
    """Publish until the input ends; return how many there were, each durable by then."""
    count = 0
    while (line := await lines.get()) is not None:
        await client.publish(topic, line)
        count += 1
    return count


async def print_messages(subscription: Subscription, printed: asyncio.Queue[None]) -> None:
    async for delivery in subscription:
        print(delivery.payload.decode("utf-8", "replace"), flush=True)
        subscription.ack()
        printed.put_nowait(None)


def read_input() -> Lines:
    """Read lines in a thread of its own: a terminal, a pipe and a file are alike there."""
    loop, lines = asyncio.get_running_loop(), Lines()

    def read() -> None:
        # Not `sys.stdin`, which Python closes when it ends: that fails while this thread waits in it.
        with open(sys.stdin.fileno(), "rb", closefd=False) as stdin:
            for line in stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line.rstrip(b"\r\n"))
        loop.call_soon_threadsafe(lines.put_nowait, None)

    Thread(target=read, daemon=True).start()
    return lines


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--cafile", default="certs/ca.pem")
    parser.add_argument("--topic", default="echo")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        asyncio.run(echo(parse_options()))
    except KeyboardInterrupt:
        sys.exit(130)
