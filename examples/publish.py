r"""Publish each line of the standard input, with the options that the command line names.

    printf 'one\ntwo\n' | .venv/bin/python examples/publish.py --topic jobs --header source=shell

Prints the id of each message, which is durable by then. A broker that is gone for a moment is waited for, and no line
is published twice.
"""

import argparse
import sys

from miniqueue_client import Client, ClientError


def publish_lines(client: Client, options: argparse.Namespace) -> None:
    headers = [tuple(header.split("=", 1)) for header in options.header]
    for line in sys.stdin:
        print(client.publish(options.topic, line.rstrip("\n"), key=options.key, headers=headers), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--key", help="what the messages are about")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="any number of them")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        publish_lines(client, options)


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
