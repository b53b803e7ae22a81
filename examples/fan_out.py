"""Publish orders that two groups read: each gets all of them, and what one returns the other does not notice.

    .venv/bin/python examples/fan_out.py --orders 3

`billing` fails with every second order at first and gets it again; `mail` gets each once. Ends when all is done.
"""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from miniqueue_client import Client, ClientError, Message, RefusedError


def make_groups(client: Client, topic: str) -> None:
    """Make the groups before there is anything to read; a topic that only they read keeps nothing for others."""
    for group in ("billing", "mail"):
        try:
            client.create_group(topic, group)
        except RefusedError as error:
            if error.code != "GROUPEXISTS":
                raise


def say(line: str) -> None:
    print(line + "\n", end="", flush=True)  # one write, or threads mix their lines


def bill(client: Client, message: Message) -> None:
    """Fail with every second order, once."""
    if int(message.text) % 2 and message.deliveries == 1:
        client.nack(message.topic, message)
        say(f"billing: order {message.text} failed")
    else:
        client.ack(message.topic, message)
        say(f"billing: order {message.text}, delivery {message.deliveries}")


def mail(client: Client, message: Message) -> None:
    client.ack(message.topic, message)
    say(f"mail: order {message.text}, delivery {message.deliveries}")


def read(client: Client, topic: str, group: str, handle: Callable[[Client, Message], None]) -> None:
    """Work through a group until nothing has come for a second."""
    for message in client.consume(topic, group=group, idle_seconds=1):
        handle(client, message)


def run(client: Client, options: argparse.Namespace) -> None:
    make_groups(client, options.topic)
    client.publish_many(options.topic, [str(number) for number in range(options.orders)])
    with ThreadPoolExecutor() as threads:
        for reading in [
            threads.submit(read, client, options.topic, group, handle)
            for group, handle in (("billing", bill), ("mail", mail))
        ]:
            reading.result()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--orders", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        run(client, options)


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
