"""Work through a topic with threads: each job is done, tried again later, or given up.

    redis-cli PUBLISH jobs 3
    .venv/bin/python examples/worker.py --workers 4

A job is a number of seconds to work for. One that fails is tried again after `--pause` seconds; one that is no number
is given up, and becomes a dead letter in `jobs.dlq`. Ends on SIGTERM or ctrl-C, when the jobs in hand are done.
"""

import argparse
import random
import sys
import time

from miniqueue_client import Client, ClientError, Delay, Message, Reject, Worker


def handle(job: Message, options: argparse.Namespace) -> None:
    """Do a job; it may come twice, and doing it twice must do no harm."""
    try:
        seconds = float(job.text)
    except ValueError as error:
        raise Reject(f"{job.payload!r} is no number") from error
    if random.random() < options.failure_rate:
        raise Delay(options.pause)
    time.sleep(seconds)
    print(f"did {job.text}, delivery {job.deliveries}\n", end="", flush=True)  # one write, or threads mix their lines


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--failure-rate", type=float, default=0.0, help="from 0 to 1")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds until a job that failed is tried again")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    with Client(f"redis://{options.host}:{options.port}") as client:
        Worker(client, options.topic, lambda job: handle(job, options), concurrency=options.workers).run()


if __name__ == "__main__":
    try:
        main()
    except ClientError as error:
        sys.exit(str(error))
