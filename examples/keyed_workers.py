"""Work on the changes of accounts with several workers: those of one account one at a time and in order.

    .venv/bin/python examples/keyed_workers.py --accounts 5 --changes 4 --workers 3

The topic is `ordered`, and the account is the key of a message. Now and then a change fails and comes again; those of
its account wait until it is done, the other accounts go on. Ends when all is done.
"""

import argparse
import random
import sys
import threading
import time

from miniqueue_client import Client, ClientError, Delay, Message, Outgoing, RefusedError, Worker


def make_topic(client: Client, topic: str) -> None:
    try:
        client.create_topic(topic, ordered=True)
    except RefusedError as error:
        if error.code != "EXISTS":
            raise
        client.set_topic(topic, ordered=True)


class Accounts:
    """The last change of each account; two workers never have the same account, so only the count needs a lock."""

    def __init__(self, expected: int, failure_rate: float) -> None:
        self._failure_rate = failure_rate
        self._last: dict[str, int] = {}
        self._left = expected
        self._counting = threading.Lock()

    def change(self, message: Message) -> bool:
        """Do a change; return whether it was the last one of all."""
        account, number = message.key.decode(), int(message.text)
        time.sleep(0.01)
        if random.random() < self._failure_rate:
            raise Delay(0.1)
        in_order = number == self._last.get(account, -1) + 1
        self._last[account] = number
        print(f"account {account}: change {number}{'' if in_order else ' out of order'}\n", end="", flush=True)
        with self._counting:
            self._left -= 1
            return self._left == 0


def run(client: Client, options: argparse.Namespace) -> None:
    make_topic(client, options.topic)
    changes = [
        Outgoing(str(number), key=str(account))
        for number in range(options.changes)
        for account in range(options.accounts)
    ]
    client.publish_each(options.topic, changes)
    accounts = Accounts(len(changes), options.failure_rate)

    def handle(message: Message) -> None:
        if accounts.change(message):
            worker.stop()

    worker = Worker(client, options.topic, handle, concurrency=options.workers, poll_seconds=0.2)
    worker.run()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="accounts")
    parser.add_argument("--accounts", type=int, default=5)
    parser.add_argument("--changes", type=int, default=4, help="of each account")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--failure-rate", type=float, default=0.1, help="from 0 to 1")
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
