"""Finds damage in a LevelDB log, and distinguishes a torn tail from other damage.

A log is a sequence of blocks of 32 KiB. A record never begins in the last 6 bytes of a block, which are zero:

    record    masked CRC-32C of type and content (4, little-endian) · length (2) · type (1) · content
    type      1 full · 2 first · 3 middle · 4 last (a batch that exceeds its block is split into these)
    content   in full and first: the beginning of a write batch, which is its 64-bit sequence number

Every batch is synced before the next batch is written (`SyncMode.ALWAYS`), so a power failure can tear only the last
batch. Hence the rule:

    only zeros after the last whole batch                   preallocated space
    the last record is truncated by the end of the file     an unfinished tail, as a crash leaves it
    only zeros after some records of a batch                an unfinished tail in a preallocated log
    damage, and no batch begins after it                    a torn tail, as a power failure leaves it
    damage, and a whole record of a later batch after it    corruption: acknowledged messages are lost

The limit of the rule: bit rot in the last batches looks like a torn tail. `acknowledged` decides whether a tail was
acknowledged. With the other sync modes, a power failure can also leave whole batches after torn batches; this counts as
corruption, because it cannot be distinguished from it.

The manifest is also a log, of *edits* instead of batches, with the same rule: every edit is synced before the files
that it makes superfluous are removed.

LevelDB's own checks are not enough, even with `paranoid_checks`: LevelDB treats a wrong length in the last block as a
truncated record, and zeros anywhere as padding, and silently skips the rest.

Sources: LevelDB `doc/log_format.md`, `db/log_reader.cc`, `db/write_batch.cc`.
"""

import re
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from miniqueue.storage.leveldb.files.crc32c import masked_crc32c, masked_crc32c_of_each

BLOCK_BYTES = 32_768
HEADER = struct.Struct("<IHB")
_SEQUENCE = struct.Struct("<Q")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4

# A position at which a batch may begin: sequence numbers stay below 2**48 (8 years at a million messages a second), so
# two bytes must be zero. In random bytes, this leaves one position in 8 million for which to compute a checksum.
_MAY_BE_BATCH = re.compile(rb"(?s)(?=.{6}[\x01\x02].{6}\x00\x00)")

# Maximum distance of the sequence number of a later batch in the same log, which has no room for more changes. It
# excludes bytes of an older log, which the file system can show in a torn tail, or which a message can contain.
_MAX_SEQUENCE_STEP = 2**24

#: Number of records that are verified together: at most 32 MiB, and enough small records for `crc32c_of_each`.
_RECORDS_AT_ONCE = 1024
#: Number of possible records that are verified together; each can have 32 KiB.
_CANDIDATES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Damage:
    """The first damage of a log.

    Attributes:
      offset: offset of the damaged batch in the file, in bytes.
      next_batch_offset: offset of the next batch; None if there is none, and then the damage is a torn tail.
    """

    offset: int
    next_batch_offset: int | None


@dataclass(frozen=True, slots=True)
class Survey:
    """The content of a log.

    Attributes:
      batch_offsets: offsets of the whole batches, up to the first damage.
      end_offset: end of the last whole batch; after it come an unfinished tail, damage, zeros, or nothing.
      tail_bytes: number of bytes after the last whole batch, without preallocated zeros (`preallocation`).
      damage: the first damage, if any.
      is_only_begun: whether the last whole batch is followed by the beginning of a batch and by zeros, which is how a
        truncated batch appears in a preallocated log. To LevelDB it is damage.
    """

    batch_offsets: "array[int]"
    end_offset: int
    tail_bytes: int
    damage: Damage | None
    is_only_begun: bool


def survey(log: bytes, *, verify_checksums: bool) -> Survey:
    """Return the content of a log, up to its first damage.

    Args:
      log: the whole file.
      verify_checksums: whether to compute the checksum of every record, or only to follow the chain of lengths.
    """
    walk = _walked(log, verify_checksums)
    damage = None
    if walk.offset < len(log):
        next_batch_offset = _find_batch(log, walk.offset + 1, walk.last_sequence)
        if next_batch_offset is not None or not walk.is_at_usual_end():
            damage = Damage(walk.batch_offset, next_batch_offset)
    is_zero_after = not log[walk.offset :].strip(b"\0")
    tail_bytes = (walk.offset if is_zero_after else len(log)) - walk.batch_offset
    is_only_begun = is_zero_after and walk.is_inside_batch
    return Survey(walk.whole_batches(), walk.batch_offset, tail_bytes, damage, is_only_begun)


def find_manifest_damage(manifest: bytes) -> Damage | None:
    """Return the first damage of a manifest, or None; `next_batch_offset` is the offset of a whole edit after it."""
    walk = _walked(manifest, verify_checksums=True)
    if walk.offset >= len(manifest):
        return None
    next_edit_offset = _find_edit(manifest, walk.offset + 1)
    if next_edit_offset is None and walk.is_at_usual_end():
        return None
    return Damage(walk.batch_offset, next_edit_offset)


def begins_soundly(log: bytes, offset: int) -> bool:
    """Whether the first record of the whole batch at `offset` has the right checksum."""
    return _has_good_checksum(log, offset, offset + HEADER.size + _header(log, offset)[1])


def content_at(log: bytes, offset: int) -> bytes:
    """Return the content of the whole batch that begins at `offset`."""
    pieces: list[bytes] = []
    kind = FIRST
    while kind not in (FULL, LAST):
        if _room_in_block(offset) < HEADER.size:
            offset += _room_in_block(offset)
        _, length, kind = _header(log, offset)
        pieces.append(log[offset + HEADER.size : offset + HEADER.size + length])
        offset += HEADER.size + length
    return b"".join(pieces)


def _walked(log: bytes, verify_checksums: bool) -> "_Walk":
    """Return the position at which the chain of valid records ends."""
    stop = len(log)
    walk = _Walk(log)
    if verify_checksums:
        records: list[tuple[int, int]] = []
        while walk.offset < stop and walk.step():
            if walk.record_offset < walk.offset:
                records.append((walk.record_offset, walk.offset))
        stop = _first_unsound(log, records)
        walk = _Walk(log)
    while walk.offset < stop and walk.step():
        pass
    return walk


def _first_unsound(log: bytes, records: list[tuple[int, int]]) -> int:
    """Return the offset of the first record with a wrong checksum, or the length of the log."""
    for start in range(0, len(records), _RECORDS_AT_ONCE):
        some = records[start : start + _RECORDS_AT_ONCE]
        sums = masked_crc32c_of_each([log[offset + 6 : end] for offset, end in some])
        for (offset, _end), checksum in zip(some, sums, strict=True):
            if _header(log, offset)[0] != checksum:
                return offset
    return len(log)


@dataclass(slots=True)
class _Walk:
    """A position between two records of a log."""

    log: bytes
    offset: int = 0
    record_offset: int = 0  # start of the record before `offset`, or `offset` itself after a trailer
    batch_offset: int = 0  # start of the batch that contains `offset` or begins there
    is_inside_batch: bool = False
    last_sequence: int | None = None
    batch_offsets: "array[int]" = field(default_factory=lambda: array("Q"))  # the last batch can be incomplete

    def step(self) -> bool:
        """Pass the record at `offset`; without a valid record, return False and do not move."""
        if _room_in_block(self.offset) < HEADER.size:
            return self._skip_trailer()
        end = _record_end(self.log, self.offset)
        if end is None or not self._is_in_sequence():
            return False
        self._pass_record(end)
        return True

    def whole_batches(self) -> "array[int]":
        """Return the offsets of the whole batches that have been passed."""
        return self.batch_offsets[:-1] if self.is_inside_batch else self.batch_offsets

    def is_at_usual_end(self) -> bool:
        """Whether a log can end like this without a power failure: truncated, or padded with zeros."""
        remaining_bytes = len(self.log) - self.offset
        if remaining_bytes < HEADER.size:
            return True
        _, length, kind = _header(self.log, self.offset)
        if kind == length == 0 and not self.is_inside_batch:
            return not self.log[self.offset :].strip(b"\0")
        size_bytes = HEADER.size + length
        return FULL <= kind <= LAST and remaining_bytes < size_bytes <= _room_in_block(self.offset)

    def _skip_trailer(self) -> bool:
        self.offset = min(self.offset + _room_in_block(self.offset), len(self.log))
        self.record_offset = self.offset
        if not self.is_inside_batch:
            self.batch_offset = self.offset
        return True

    def _is_in_sequence(self) -> bool:
        return self.is_inside_batch is (self.log[self.offset + 6] in (MIDDLE, LAST))

    def _pass_record(self, end: int) -> None:
        kind = self.log[self.offset + 6]
        if kind in (FULL, FIRST):
            self.batch_offsets.append(self.offset)
            if end - self.offset >= HEADER.size + _SEQUENCE.size:
                (self.last_sequence,) = _SEQUENCE.unpack_from(self.log, self.offset + HEADER.size)
        self.is_inside_batch = kind in (FIRST, MIDDLE)
        self.record_offset, self.offset = self.offset, end
        if not self.is_inside_batch:
            self.batch_offset = end


def _find_batch(log: bytes, start: int, last_sequence: int | None) -> int | None:
    """Return the offset, from `start` on, of the first whole record that begins a later batch."""
    offsets = (match.start() for match in _MAY_BE_BATCH.finditer(log, start))
    records = ((offset, end) for offset in offsets if (end := _record_end(log, offset)) is not None)
    return _first_sound(log, ((offset, end) for offset, end in records if _is_later(log, offset, last_sequence)))


def _find_edit(manifest: bytes, start: int) -> int | None:
    """Return the offset, from `start` on, of a whole record. Manifests are small, so every offset is tried."""
    offsets = range(start, len(manifest) - HEADER.size)
    records = ((offset, end) for offset in offsets if (end := _record_end(manifest, offset)) is not None)
    return _first_sound(manifest, ((offset, end) for offset, end in records if end > offset + HEADER.size))


def _first_sound(log: bytes, records: Iterator[tuple[int, int]]) -> int | None:
    """Return the offset of the first of `records` with the right checksum.

    Many are verified together: a message can be full of bytes that look like records, and only checksums exclude them.
    """
    while some := list(islice(records, _CANDIDATES_AT_ONCE)):
        sums = masked_crc32c_of_each([log[offset + 6 : end] for offset, end in some])
        for (offset, _end), checksum in zip(some, sums, strict=True):
            if _header(log, offset)[0] == checksum:
                return offset
    return None


def _is_later(log: bytes, offset: int, last_sequence: int | None) -> bool:
    (sequence,) = _SEQUENCE.unpack_from(log, offset + HEADER.size)
    return last_sequence is None or 0 <= sequence - last_sequence <= _MAX_SEQUENCE_STEP


def _record_end(log: bytes, offset: int) -> int | None:
    """Return the end of the record at `offset`, or None if there cannot be a record."""
    if len(log) - offset < HEADER.size:
        return None
    _, length, kind = _header(log, offset)
    end = offset + HEADER.size + length
    fits = end <= len(log) and HEADER.size + length <= _room_in_block(offset)
    return end if fits and FULL <= kind <= LAST else None


def _has_good_checksum(log: bytes, offset: int, end: int) -> bool:
    return _header(log, offset)[0] == masked_crc32c(log[offset + 6 : end])


def _header(log: bytes, offset: int) -> tuple[int, int, int]:
    """Return checksum, length, and type."""
    checksum, length, kind = HEADER.unpack_from(log, offset)
    return checksum, length, kind


def _room_in_block(offset: int) -> int:
    return BLOCK_BYTES - offset % BLOCK_BYTES
