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

Followers get parts of logs as they are, and take them apart themselves. Which logs are kept is in memory: listing a
directory of a hundred takes longer than reading what a follower lacks.

`keep` and `follow` run on the thread that writes; `position_at`, `after`, and `drop` on the thread that reads. They
share which logs are kept, and until when; a log that one of them misses costs a follower a new copy. Without hard
links, as on some network file systems, `keep` fails.
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
from miniqueue.storage.leveldb.files.batches import LogPart, read_part
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES
from miniqueue.storage.port import Position, Writes

#: Maximum size of the kept logs.
KEPT_BYTES: Final = 4 << 30
#: How long logs are kept for followers that do not ask.
KEPT_SECONDS: Final = 3600.0
#: Number of remembered ends of batches, so that a follower that continues is found without a search.
_MAX_ENDS = 16
#: Size of each end of a batch that its digest includes: hashing takes four times as long as a checksum.
_DIGESTED_BYTES = 4096
#: How much of a log is read at a time to find a position.
_SEARCHED_BYTES = 1 << 20
_NO_BATCHES = LogPart(b"", 0, [])


def digest_of(batch: bytes) -> bytes:
    """Return the digest of a batch, which is that of both ends and of a checksum of the whole."""
    ends = batch[:_DIGESTED_BYTES] + batch[-_DIGESTED_BYTES:]
    return blake2b(ends + crc32(batch).to_bytes(4, "big"), digest_size=16).digest()


class _Log(NamedTuple):
    """A log that is kept, and its size, which is not final while it is the newest."""

    number: int
    size_bytes: int


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
        self._kept: tuple[_Log, ...] = ()  # oldest first
        self._seen_mtime_ns: int | None = None  # None: the next look must list the directory
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
        for log in _logs_in(self._database):
            self._link(log)
        self._keep_newest([_Log(log, self._size_bytes(log)) for log in _logs_in(self._recent)])

    def follow(self, used_log: int | None) -> None:
        """Keep the log of the last write; it fails never, but may stop keeping.

        Args:
          used_log: number of the log; None if it must be looked for.
        """
        until = self._until
        if until is None:
            return
        if self._monotonic() > until:
            self.drop()
            return
        try:
            newest = self._kept[-1].number if self._kept else 0
            if used_log is None:
                used_log = self._newest_log(newest)
            if used_log > newest:
                self._link(used_log)
                sizes = [log._replace(size_bytes=self._size_bytes(log.number)) for log in self._kept[-1:]]
                self._keep_newest([*self._kept[:-1], *sizes, _Log(used_log, 0)])
        except OSError:
            self.drop()

    def drop(self) -> None:
        """Stop keeping logs, and remove those that are kept."""
        self._until, self._kept = None, ()
        with suppress(OSError):
            for path in self._recent.glob("*.log"):
                path.unlink(missing_ok=True)
            self._recent.rmdir()

    def position_at(self, change: int) -> Position:
        """Return the position after `change`; raises PositionLostError if no kept batch ends with it."""
        return Position(change, self._end_at(change).digest)

    def after(self, position: Position, last_change: int, max_bytes: int) -> Writes:
        """Return batches after a position: at most `max_bytes`, or one if that is larger; raises PositionLostError.

        Args:
          position: after one of the batches.
          last_change: number of the last change that may be returned, which is the last one of a batch.
          max_bytes: maximum size of the batches.
        """
        if self._until is not None:
            self._until = self._monotonic() + self._seconds
        end = self._end_at(position.change)
        if end.digest != position.digest:
            raise PositionLostError(position.change)
        if position.change >= last_change:
            return Writes(b"", 0, 0, position, last_change, 0)
        for log, offset, part in self._parts_after(end, max_bytes):
            index = _last_index(part, position.change, last_change)
            if index is None:
                continue
            if part.numbers(0)[0] != position.change + 1:
                break
            return self._writes(log, offset, part, index, last_change)
        raise PositionLostError(position.change)

    def _parts_after(self, end: _BatchEnd, max_bytes: int) -> Iterator[tuple[int, int, LogPart]]:
        """Yield the parts after the end of a batch, with their logs and offsets."""
        yield from self._parts_of(end.log, end.offset, max_bytes)
        for log in self._kept:
            if log.number > end.log:
                yield from self._parts_of(log.number, 0, max_bytes)

    def _parts_of(self, log: int, offset: int, max_bytes: int) -> Iterator[tuple[int, int, LogPart]]:
        while (part := self._read(log, offset, max_bytes)).ends:
            yield log, offset, part
            offset += part.ends[-1] - part.start

    def _writes(self, log: int, offset: int, part: LogPart, index: int, last_change: int) -> Writes:
        """Return the batches of a part up to one of them."""
        content = part.content[part.start : part.ends[index]]
        change, end = part.last_change(index), self._end_of(log, offset, part, index)
        rest_bytes = self._rest_bytes(end) if change < last_change else 0
        return Writes(content, part.start, crc32(content), Position(change, end.digest), last_change, rest_bytes)

    def _link(self, log: int) -> None:
        with suppress(FileExistsError, FileNotFoundError):
            os.link(f"{self._database}/{_name(log)}", f"{self._recent}/{_name(log)}")

    def _keep_newest(self, logs: list[_Log]) -> None:
        """Keep the newest of some logs, within the limit, and remove the others."""
        total_bytes = sum(log.size_bytes for log in logs)
        removed = 0
        while total_bytes > self._max_bytes and removed < len(logs) - 1:
            total_bytes -= logs[removed].size_bytes
            (self._recent / _name(logs[removed].number)).unlink(missing_ok=True)
            removed += 1
        self._kept = tuple(logs[removed:])

    def _newest_log(self, known: int) -> int:
        """Return the number of the newest log, which is the known one unless the directory has changed."""
        mtime_ns = self._database.stat().st_mtime_ns
        if mtime_ns == self._seen_mtime_ns:
            return known
        is_settled = abs(time.time_ns() - mtime_ns) > TICK_NS
        self._seen_mtime_ns = mtime_ns if is_settled else None
        return max(_logs_in(self._database), default=known)

    def _read(self, log: int, offset: int, max_bytes: int) -> LogPart:
        for directory in (self._recent, self._database):
            with suppress(FileNotFoundError):
                return read_part(f"{directory}/{_name(log)}", offset, max_bytes)
        return _NO_BATCHES

    def _end_at(self, change: int) -> _BatchEnd:
        """Return where the batch ends whose last change this is."""
        end = self._ends.get(change)
        if end is not None:
            return end
        for log in reversed(self._kept):
            part = self._read(log.number, 0, BLOCK_BYTES)
            if part.ends and part.numbers(0)[0] <= change:
                return self._searched(log.number, change)
        raise PositionLostError(change)

    def _searched(self, log: int, change: int) -> _BatchEnd:
        for _, offset, part in self._parts_of(log, 0, _SEARCHED_BYTES):
            changes = [part.last_change(index) for index in range(len(part.ends))]
            if change in changes:
                return self._end_of(log, offset, part, changes.index(change))
        raise PositionLostError(change)

    def _end_of(self, log: int, offset: int, part: LogPart, index: int) -> _BatchEnd:
        """Return the end of a batch of the part that begins at `offset` in a log, and remember it."""
        end = _BatchEnd(log, offset + part.ends[index] - part.start, digest_of(part.batch(index)))
        self._ends[part.last_change(index)] = end
        if len(self._ends) > _MAX_ENDS:
            del self._ends[next(iter(self._ends))]
        return end

    def _rest_bytes(self, end: _BatchEnd) -> int:
        """Return the size of the logs after the end of a batch, which may include preallocated space."""
        *older, newest = [log for log in self._kept if log.number >= end.log] or [_Log(end.log, 0)]
        size_bytes = sum(log.size_bytes for log in older) + self._size_bytes(newest.number)
        return max(0, size_bytes - end.offset)

    def _size_bytes(self, log: int) -> int:
        """Return the size of a kept log, or 0 if it is not there any more."""
        with suppress(FileNotFoundError):
            return (self._recent / _name(log)).stat().st_size
        return 0


def _name(log: int) -> str:
    return f"{log:06d}.log"


def _logs_in(directory: Path) -> list[int]:
    """Return the numbers of the logs in a directory, in order."""
    return sorted(log_number(path) for path in directory.glob("*.log"))


def _last_index(part: LogPart, after: int, until: int) -> int | None:
    """Return the last batch of a part that has changes, all of them after one change and up to another.

    What follows it may be half written.
    """
    for index in reversed(range(len(part.ends))):
        first, count = part.numbers(index)
        if count and after < first <= until + 1 - count:
            return index
    return None
