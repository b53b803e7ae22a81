"""Work through a topic with tasks: hundreds of jobs at a time that mostly wait for something.

    redis-cli PUBLISH jobs 3
    .venv/bin/python examples/async_worker.py --jobs 100

A job is a number of seconds to wait for. One that is no number is given up, and becomes a dead letter in `jobs.dlq`.
Ends on SIGTERM or ctrl-C, when the jobs in hand are done.
"""

import argparse
import asyncio
import sys

from miniqueue_client import AsyncClient, AsyncWorker, ClientError, Message, Reject


async def handle(job: Message) -> None:
    """Do a job; it may come twice, and doing it twice must do no harm."""
    try:
        seconds = float(job.text)
    except ValueError as error:
        raise Reject(f"{job.payload!r} is no number") from error
    await asyncio.sleep(seconds)
    print(f"did {job.text}", flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--jobs", type=int, default=100, help="how many at a time")
    return parser.parse_args()


async def main() -> None:
    options = parse_options()
    async with AsyncClient(f"redis://{options.host}:{options.port}") as client:
        await AsyncWorker(client, options.topic, handle, concurrency=options.jobs).run()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except ClientError as error:
        sys.exit(str(error))
