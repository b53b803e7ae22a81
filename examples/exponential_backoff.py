"""Try again later and later: DACK with delays that double, then give up.

    curl --cacert certs/ca.pem https://localhost:8080/publish/calls -d 3
    .venv/bin/python examples/exponential_backoff.py

The text of a message says how often it fails. The broker counts the delays of a message and tells them with it,
so the consumer need not remember anything and may be restarted, or be one of many. What is given up goes to a
topic of its own.
"""

import argparse
import asyncio
import sys

from miniqueue_client import Delivery, Http2Client, Subscription, connect


class CallError(Exception):
    """The call failed; it may succeed later."""


async def call(delivery: Delivery) -> None:
    """Do what the message asks for; here, fail as often as it says."""
    if delivery.dack_count < int(delivery.payload):
        raise CallError(f"failed {delivery.dack_count + 1} times")


async def serve(options: argparse.Namespace) -> None:
    async with (
        await connect(options.host, options.port, cafile=options.cafile) as client,
        client.subscribe(options.topic) as subscription,
    ):
        async for delivery in subscription:
            try:
                await call(delivery)
            except CallError as error:
                await put_off(client, subscription, delivery, error, options)
            else:
                say(delivery, "done")
                subscription.ack()


async def put_off(
    client: Http2Client, subscription: Subscription, delivery: Delivery, error: CallError, options: argparse.Namespace
) -> None:
    """Delay the message, or give it up. It is in the other topic before it leaves this one, so it cannot get lost."""
    if delivery.dack_count + 1 >= options.max_attempts:
        await client.publish(f"{options.topic}-failed", delivery.payload)
        say(delivery, f"{error}: given up")
        subscription.ack()
        return
    delay_seconds = min(options.first_delay * 2**delivery.dack_count, options.max_delay)
    say(delivery, f"{error}: again in {delay_seconds:g} s")
    subscription.dack(delay_seconds)


def say(delivery: Delivery, text: str) -> None:
    print(f"{delivery.payload.decode('utf-8', 'replace')}: {text}", flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--cafile", default="certs/ca.pem")
    parser.add_argument("--topic", default="calls")
    parser.add_argument("--first-delay", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--max-delay", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--max-attempts", type=int, default=6)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        asyncio.run(serve(parse_options()))
    except KeyboardInterrupt:
        sys.exit(130)
