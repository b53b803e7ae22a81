"""Work through a topic with several workers, each on a RESP connection of redis-py.

    redis-cli PUBLISH jobs hello
    .venv/bin/python examples/workers.py --workers 4 --failure-rate 0.2

A job that succeeds is acknowledged. A job that fails returns to the front, and the next free worker tries it
again. A worker whose connection is lost connects again, however long that takes; by then, another worker has
its job.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from threading import Thread, current_thread

import redis

MAX_PAUSE_SECONDS = 5.0


class JobError(Exception):
    """The job failed; it may succeed next time."""


def handle(job: bytes, failure_rate: float) -> None:
    """Do the work; here, fail now and then. A job may come twice: doing it twice must do no harm."""
    if random.random() < failure_rate:
        raise JobError("bad luck")
    say(f"did {job.decode('utf-8', 'replace')}")


def work(options: argparse.Namespace) -> None:
    pause_seconds = 0.1
    while True:
        # No timeout for replies: a topic may be idle for hours, and redis-py 8 gives up after 5 s by default.
        connection = redis.Connection(
            host=options.host, port=options.port, socket_timeout=None, socket_connect_timeout=5, socket_keepalive=True
        )
        try:
            for _ in jobs_done(connection, options):
                pause_seconds = 0.1  # the broker is well again
        except redis.RedisError as error:
            say(f"{type(error).__name__}: {error}; again in {pause_seconds:.1f} s")
        finally:
            connection.disconnect()
        time.sleep(pause_seconds * random.uniform(0.5, 1))  # not all workers at the same moment
        pause_seconds = min(2 * pause_seconds, MAX_PAUSE_SECONDS)


def jobs_done(connection: redis.Connection, options: argparse.Namespace) -> Iterator[bytes]:
    """Yield after each job that has been settled; raises RedisError when the connection breaks."""
    connection.send_command("SUBSCRIBE", options.topic)
    while True:
        job = connection.read_response()
        try:
            handle(job, options.failure_rate)
            connection.send_command("ACK")
        except JobError as error:
            say(f"failed: {error}")
            connection.send_command("NACK")
        connection.read_response()
        yield job


def say(text: str) -> None:
    print(f"{current_thread().name}: {text}\n", end="", flush=True)  # one write, or threads mix their lines


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="jobs")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--failure-rate", type=float, default=0.0, help="from 0 to 1")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    workers = [Thread(target=work, args=[options], name=f"worker {i + 1}", daemon=True) for i in range(options.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
