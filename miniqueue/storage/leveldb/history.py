"""The latest writes of a store, for copies that follow it: LevelDB's logs, which it would remove.

    write ─▶ db/000012.log ── hard link ─▶ recent/000012.log ─▶ followers       the oldest are removed first

LevelDB writes every batch to a log before anything else, numbers its changes, and removes the log when its content is
in a table. So nothing has to be recorded for a follower: a log that it may still need gets a second name. A place in
the history is a `Position`: the number of a change, which is the last one of a batch, and the digest of that batch. The
digest shows that the batch is the one that the follower has: after a power failure, changes that were not synced are
missing, and others get their numbers.

Logs are kept from the first snapshot for a follower until there was none for an hour, until the disk is nearly full,
or until they are too many. A restart continues with those of the process before. What is not kept costs a follower a
new copy, and the store nothing: no memory, and as long as nothing follows, one comparison for each write.

`keep` and `follow` run on the thread that writes; `position_at`, `after`, and `drop` on the thread that reads. They
share the directory, and until when logs are kept; a log that one of them misses costs a follower a new copy. Without
hard links, as on some network file systems, `keep` fails.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from miniqueue.errors import PositionLostError
from miniqueue.storage.leveldb.directory import DATABASE_NAME, RECENT_NAME
from miniqueue.storage.leveldb.directory_sync import TICK_NS, log_number
from miniqueue.storage.leveldb.files.batches import Batch, batches_from
from miniqueue.storage.port import Position, Writes

#: Maximum size of the kept logs.
KEPT_BYTES: Final = 4 << 30
#: How long logs are kept for followers that do not ask.
KEPT_SECONDS: Final = 3600.0
#: Number of remembered ends of batches, so that a follower that continues is found without a search.
_MAX_ENDS = 16
#: Size of each end of a batch that its digest includes: hashing takes four times as long as a checksum.
_DIGESTED_BYTES = 4096


def digest_of(batch: bytes) -> bytes:
    """Return the digest of a batch, which is that of both ends and of a checksum of the whole."""
    ends = batch[:_DIGESTED_BYTES] + batch[-_DIGESTED_BYTES:]
    return blake2b(ends + crc32(batch).to_bytes(4, "big"), digest_size=16).digest()


class _BatchEnd(NamedTuple):
    """Where a batch ends: in which log, at which offset; and its digest."""

    log: int
    offset: int
    digest: bytes


class History:
    """The history of the store in a directory; nothing is kept until `keep` or `resume`.

    Args:
      directory: directory of the store.
      max_bytes: maximum size of the kept logs; the newest is always kept.
      seconds: how long they are kept for followers that do not ask.
      monotonic: returns the time in seconds.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int = KEPT_BYTES,
        seconds: float = KEPT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = directory / DATABASE_NAME
        self._recent = directory / RECENT_NAME
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._monotonic = monotonic
        self._until: float | None = None  # None: nothing is kept
        self._linked_mtime_ns: int | None = None  # None: the next look must link
        self._ends: dict[int, _BatchEnd] = {}  # key: number of the last change

    def resume(self) -> None:
        """Continue to keep logs if an earlier process did; call it before LevelDB opens, which removes logs."""
        if self._recent.is_dir():
            with suppress(OSError):  # a follower needs a new copy
                self.keep()

    def keep(self) -> None:
        """Keep the present logs and those to come; raises OSError."""
        self._recent.mkdir(mode=0o700, exist_ok=True)
        self._until = self._monotonic() + self._seconds
        self._link()

    def follow(self) -> None:
        """Keep the log of the last write; it fails never, but may stop keeping."""
        until = self._until
        if until is None:
            return
        if self._monotonic() > until:
            self.drop()
            return
        try:
            mtime_ns = self._database.stat().st_mtime_ns
            if mtime_ns != self._linked_mtime_ns:
                self._link()
                is_settled = abs(time.time_ns() - mtime_ns) > TICK_NS
                self._linked_mtime_ns = mtime_ns if is_settled else None
        except OSError:
            self.drop()

    def drop(self) -> None:
        """Stop keeping logs, and remove those that are kept."""
        self._until = None
        with suppress(OSError):
            for path in self._recent.glob("*.log"):
                path.unlink(missing_ok=True)
            self._recent.rmdir()

    def position_at(self, change: int) -> Position:
        """Return the position after `change`; raises PositionLostError if no kept batch ends with it."""
        return Position(change, self._end_at(change).digest)

    def after(self, position: Position, last_change: int, max_bytes: int) -> Writes:
        """Return the batches after a position, up to `last_change`, which the last of a batch is.

        Ends with the batch with which they reach `max_bytes`. Raises PositionLostError.
        """
        if self._until is not None:
            self._until = self._monotonic() + self._seconds
        end = self._end_at(position.change)
        if end.digest != position.digest:
            raise PositionLostError(position.change)
        change, size_bytes, batches = position.change, 0, list[bytes]()
        for log, batch in self._batches(end):
            if change >= last_change or size_bytes >= max_bytes:
                break
            if batch.first_change != change + 1:
                break
            if not batch.is_empty:
                batches.append(batch.content)
                size_bytes += len(batch.content)
                change = batch.last_change
                end = _BatchEnd(log, batch.end_offset, b"")
        if batches:
            end = end._replace(digest=digest_of(batches[-1]))
            self._remember(change, end)
        elif change < last_change:
            raise PositionLostError(position.change)
        rest_bytes = self._rest_bytes(end) if change < last_change else 0
        return Writes(batches, Position(change, end.digest), last_change, size_bytes, rest_bytes)

    def _link(self) -> None:
        for path in self._database.glob("*.log"):
            with suppress(FileExistsError, FileNotFoundError):
                os.link(path, self._recent / path.name)
        total_bytes = 0
        for path in sorted(self._recent.glob("*.log"), key=log_number, reverse=True):
            is_newest = not total_bytes
            total_bytes += path.stat().st_size
            if total_bytes > self._max_bytes and not is_newest:
                path.unlink()

    def _logs(self) -> list[int]:
        """Return the numbers of all logs that can be read, in order."""
        return sorted({log_number(path) for where in (self._recent, self._database) for path in where.glob("*.log")})

    def _batches_of(self, log: int, offset: int = 0) -> Iterator[Batch]:
        name = f"{log:06d}.log"
        for where in (self._recent, self._database):
            with suppress(FileNotFoundError):
                yield from batches_from(where / name, offset)
                return

    def _batches(self, end: _BatchEnd) -> Iterator[tuple[int, Batch]]:
        """Yield the batches after the end of a batch, with the numbers of their logs."""
        for log in self._logs():
            if log >= end.log:
                for batch in self._batches_of(log, end.offset if log == end.log else 0):
                    yield log, batch

    def _end_at(self, change: int) -> _BatchEnd:
        end = self._ends.get(change)
        if end is not None:
            return end
        for log in reversed(self._logs()):
            first = next(self._batches_of(log), None)
            if first is None or first.first_change > change:
                continue
            for batch in self._batches_of(log):
                if batch.last_change == change and not batch.is_empty:
                    end = _BatchEnd(log, batch.end_offset, digest_of(batch.content))
                    self._remember(change, end)
                    return end
                if batch.first_change > change:
                    break
            break
        raise PositionLostError(change)

    def _remember(self, change: int, end: _BatchEnd) -> None:
        self._ends[change] = end
        if len(self._ends) > _MAX_ENDS:
            del self._ends[next(iter(self._ends))]

    def _rest_bytes(self, end: _BatchEnd) -> int:
        """Return the size of the logs after the end of a batch, which may include preallocated space."""
        rest_bytes = -end.offset
        for log in self._logs():
            if log >= end.log:
                for where in (self._recent, self._database):
                    with suppress(FileNotFoundError):
                        rest_bytes += (where / f"{log:06d}.log").stat().st_size
                        break
        return max(rest_bytes, 0)
