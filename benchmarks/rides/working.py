"""One of the workers: does rides, and notes each in a file that outlives it.

    python -m benchmarks.rides.working <url> <topic> <file> <rides>

The file has 8 bytes for each ride: how often it was done, and the checksum of the message. It is mapped into memory, so
that what a process has noted is there after a kill.
"""

import logging
import sys
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import orjson

from benchmarks.rides.failing import MISSING, Fate, fate_of
from miniqueue_client import Client, Message, Reject, Worker

CONCURRENCY: Final = 64
LEASE_SECONDS: Final = 10.0
NOTED: Final = np.dtype([("times", np.uint32), ("checksum", np.uint32)])


def noted(file: Path, count: int) -> np.memmap:
    """Return what a worker notes of each ride, in a file that is made if there is none."""
    if not file.exists():
        with file.open("wb") as empty:
            empty.truncate(count * NOTED.itemsize)
    return np.memmap(file, NOTED, "r+", shape=(count,))


def main(url: str, topic: str, file: Path, count: int) -> None:
    notes = noted(file, count)

    def handle(message: Message) -> None:
        ride_id = orjson.loads(message.payload)["ride_id"]
        match fate_of(ride_id):
            case Fate.REJECTED:
                raise Reject(MISSING)
            case Fate.POISONOUS:
                raise ValueError("no such ride")
            case Fate.DONE_LATER if message.deliveries == 1:
                raise OSError("the card was not read")
        note = notes[ride_id]
        note["times"] += 1
        note["checksum"] = crc32(message.payload)

    logging.getLogger("miniqueue_client").setLevel(logging.ERROR)  # the failures are meant
    with Client(url, retries=-1) as client:
        Worker(client, topic, handle, concurrency=CONCURRENCY, lease_seconds=LEASE_SECONDS).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
