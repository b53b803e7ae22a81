"""Print what was published to a topic from a time on, even what was acknowledged since.

    redis-cli TOPIC SET jobs retention_seconds 604800
    .venv/bin/python examples/replay.py --hours 24

The topic must retain its messages (the first line keeps them for a week). No consumer notices: nothing is leased,
and no position changes. It ends where the topic ended when it had been read. To let a group repeat its work
instead, `GROUP SEEK`.
"""

import argparse
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

from miniqueue_client import Client, ClientError, Page


def pages(client: Client, topic: str, partition: str, since: datetime) -> Iterator[Page]:
    """Yield the pages of a partition; each knows where the next one begins."""
    page = client.read_from(topic, since, partition, count=1000)
    yield page
    while page.next < page.end:
        page = client.read(topic, partition, page.next, count=1000)
        yield page


def replay(client: Client, topic: str, since: datetime) -> None:
    for bounds in client.partitions(topic):
        for page in pages(client, topic, bounds.partition, since):
            if page.missed:
                print(f"{page.missed} messages are no longer there", file=sys.stderr)
            for message in page.messages:
                print(message.id, message.payload.decode(errors="replace"))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--hours", type=float, default=24.0, help="how far to go back")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        replay(client, options.topic, datetime.now() - timedelta(hours=options.hours))


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
