"""Publish orders to a topic with a JSON Schema: what does not fit is refused, with the place of the mistake.

    .venv/bin/python examples/schemas.py '{"id": 1, "items": [{"price": 5}]}' '{"id": 2, "items": [{"price": "free"}]}'

The broker needs the extra `schema`: pip install 'miniqueue[schema]'. Exits with 1 if a message was refused.
"""

import argparse
import sys

from miniqueue_client import Client, ClientError, RefusedError

PRICE = {"type": "number", "minimum": 0}
ITEM = {"type": "object", "required": ["price"], "properties": {"price": PRICE}}
ORDER = {
    "type": "object",
    "required": ["id", "items"],
    "properties": {"id": {"type": "integer"}, "items": {"type": "array", "items": ITEM}},
}


def make_topic(client: Client, topic: str) -> None:
    """Set the schema of the topic, which is created if it does not exist."""
    if topic in client.topics():
        client.set_topic(topic, schema=ORDER)
    else:
        client.create_topic(topic, schema=ORDER)


def publish(client: Client, topic: str, message: str) -> bool:
    """Publish a message, and print its id or why it is refused; return whether it was published."""
    try:
        print(client.publish(topic, message))
    except RefusedError as error:
        if error.code != "SCHEMA":
            raise
        print(f"refused: {error.text}")
        return False
    return True


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("message", nargs="+")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        make_topic(client, options.topic)
        refused_count = sum(not publish(client, options.topic, message) for message in options.message)
        return 1 if refused_count else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClientError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
