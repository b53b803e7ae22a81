"""Show the dead letters of a topic: what they are, where they were, and why they were given up.

    .venv/bin/python examples/dead_letters.py --topic jobs
    .venv/bin/python examples/dead_letters.py --topic jobs --redrive --rate 10

With `--redrive` those in `jobs.dlq` go back to where they came from, when the reason is gone: so many a second at most.
"""

import argparse
import sys
from collections.abc import Iterator

from miniqueue_client import Client, ClientError, Message

PAGE = 100


def dead_letters(client: Client, topic: str) -> Iterator[Message]:
    """Yield them all, page by page; none is taken."""
    after = None
    while page := client.peek(topic, state="dead", count=PAGE, after=after):
        yield from page
        after = page[-1].id


def show(letter: Message) -> None:
    if (origin := letter.origin) is not None:
        print(f"{origin.id} {letter.text}: {origin.reason}; it had come back {sum(origin.counts)} times")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs", help="where the messages were before they died")
    parser.add_argument("--redrive", action="store_true", help="move them back")
    parser.add_argument("--rate", type=float, help="how many a second")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        for letter in dead_letters(client, options.topic):
            show(letter)
        if options.redrive:
            moved = client.redrive(f"{options.topic}.dlq", per_second=options.rate)
            print(f"{moved} moved back")


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
