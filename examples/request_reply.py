"""Ask through a topic, and wait for the reply of whoever works on it.

    .venv/bin/python examples/request_reply.py --answer &
    .venv/bin/python examples/request_reply.py 2 3 4

Who answers squares numbers, until SIGTERM or ctrl-C; there may be any number of them. What is no number is given up,
and who asked for it hears nothing within `--timeout` seconds.
"""

import argparse
import sys

from miniqueue_client import Client, ClientError, Message, RefusedError, Reject, Worker


def square(question: Message) -> str:
    """Return the reply; the worker passes it on to whoever waits for it."""
    try:
        return str(float(question.text) ** 2)
    except ValueError as error:
        raise Reject(f"{question.payload!r} is no number") from error


def ask(client: Client, question: str, options: argparse.Namespace) -> str:
    try:
        reply: bytes = client.request(options.topic, question, timeout_seconds=options.timeout)
    except RefusedError as error:
        if error.code != "TIMEOUT":
            raise
        return "no reply"
    return reply.decode()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="squares")
    parser.add_argument("--answer", action="store_true", help="answer, instead of asking")
    parser.add_argument("--timeout", type=float, default=5.0, help="how long to wait for a reply, in seconds")
    parser.add_argument("questions", nargs="*", help="numbers")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        if options.answer:
            Worker(client, options.topic, square).run()
        for question in options.questions:
            print(f"{question}: {ask(client, question, options)}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
