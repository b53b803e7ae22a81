"""Space of a log that is written ahead, so that a sync has only data to write.

    log    batch batch batch │ zeroes, `STEP_BYTES` at a time
                             └ the next batch goes over them

A log that grows with each batch has its size synced too, a second write that waits for the first: 200 µs for a batch of
800 bytes where 130 are enough, on a file system with a journal 600 where 370 are. Zeroes at the end are no damage,
neither for LevelDB, which knows them from its own writers, nor for `log_tail`.

Only the end of a file is written to, and LevelDB writes nothing meanwhile: its logs are written by the writer thread,
which is where this runs. Nothing depends on it: where it fails, for lack of space as a rule, a log just grows.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from miniqueue.storage.own_files import open_file

#: So much is written ahead. A sync that brings it to the disk takes 0.2 ms longer, one in 300 of small batches.
STEP_BYTES: Final = 256 << 10
#: Larger batches gain less than the zeroes cost: with 26 kB each a sync took 240 µs before and 170 after, zeroes
#: included; with 64 kB 275 and 255.
MAX_BATCH_BYTES: Final = 32 << 10
_ZEROES = bytes(STEP_BYTES)


class Preallocation:
    """Writes ahead in the newest log of a LevelDB directory; used by the thread that writes to it."""

    def __init__(self, directory: Path, *, write: Callable[[int, bytes], int] = os.write) -> None:
        self._directory = directory
        self._write = write
        self._log = 0
        self._descriptor = -1
        self._used_bytes = 0  # about, until the next look
        self._end_bytes = 0
        self._is_small = True  # the batch before

    def follow(self, log: int, batch_bytes: int) -> None:
        """Note that a batch of about so many bytes is in the log of that number, and make room for the next."""
        was_small, self._is_small = self._is_small, batch_bytes <= MAX_BATCH_BYTES
        try:
            if log != self._log:
                self._begin(log)
            self._used_bytes += batch_bytes
            is_near_end = self._used_bytes > self._end_bytes - MAX_BATCH_BYTES
            if was_small and self._is_small and is_near_end and self._descriptor >= 0:
                self._extend()
        except OSError:  # a disk that is full, or worse: the batches themselves will meet it
            self.close()

    def close(self) -> None:
        """Close the log; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _begin(self, log: int) -> None:
        self.close()
        self._log = log
        with suppress(FileNotFoundError):  # it is in a table by now, or there is none yet
            path = self._directory / f"{log:06d}.log"
            self._descriptor = open_file(path, os.O_RDWR | os.O_APPEND)
            self._used_bytes = self._end_bytes = os.fstat(self._descriptor).st_size

    def _extend(self) -> None:
        """Look what is used, and write zeroes behind the end."""
        end_bytes = os.fstat(self._descriptor).st_size
        start = max(end_bytes - STEP_BYTES - MAX_BATCH_BYTES, 0)
        used = os.pread(self._descriptor, end_bytes - start, start).rstrip(b"\0")
        self._used_bytes = start + len(used)
        self._end_bytes = end_bytes + self._write(self._descriptor, _ZEROES)
