"""Print what was published to a topic from a time on, also what was acknowledged since.

    redis-cli TOPIC SET jobs retention_seconds 604800
    .venv/bin/python examples/replay.py --hours 24

The topic must retain its messages (the first line has it keep them for a week). No consumer notices: nothing is taken,
and nobody's place changes. It ends where the topic ended when it had been read.
"""

import argparse
import sys
import time
from collections.abc import Iterator

import redis


def pages(client: "redis.Redis", topic: str, partition: bytes, since_ms: int) -> Iterator[dict[bytes, object]]:
    """Yield the pages of a partition; each knows where the next one begins."""
    start = ("TIME", since_ms)
    while True:
        answer = client.execute_command("READ", topic, partition, *start, "COUNT", 1000)
        page = dict(zip(answer[::2], answer[1::2], strict=True))
        yield page
        if page[b"next"] == page[b"end"]:
            return
        start = (page[b"next"],)


def replay(client: "redis.Redis", topic: str, since_ms: int) -> None:
    for figures in client.execute_command("PARTITIONS", topic):
        partition = dict(zip(figures[::2], figures[1::2], strict=True))[b"partition"]
        for page in pages(client, topic, partition, since_ms):
            if page[b"missed"]:
                print(f"{page[b'missed']} messages are no longer there", file=sys.stderr)
            for message_id, payload, _attributes in page[b"messages"]:
                print(message_id.decode(), payload.decode(errors="replace"))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--hours", type=float, default=24.0, help="how far to go back")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    since_ms = round((time.time() - options.hours * 3600) * 1000)
    with redis.Redis(host=options.host, port=options.port, protocol=2) as client:
        replay(client, options.topic, since_ms)


if __name__ == "__main__":
    try:
        main()
    except redis.RedisError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
