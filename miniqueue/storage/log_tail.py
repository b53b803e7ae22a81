"""Find damage in a LevelDB log, and tell a torn tail from the rest. Works on bytes; touches no file.

A log is a sequence of 32 KiB blocks; a record never begins in the last 6 bytes of a block, which are zero:

    record    masked CRC-32C of type and content (4, little-endian) · length (2) · type (1) · content
    type      1 full · 2 first · 3 middle · 4 last (a batch that outgrows its block is cut into these)
    content   of full and first: a write batch, which begins with its 64-bit sequence number

Every batch is synced before the next is written (`SyncMode.ALWAYS`), so a power cut can leave only the last
one torn. Hence the rule:

    nothing but zeroes after the last whole batch           room for what comes next, written ahead
    the last record is cut short by the end of the file     an unfinished tail, as a crash leaves it
    nothing but zeroes after some records of a batch        the same in a log that was written ahead
    damage, and no batch begins after it                    a torn tail, as a power cut leaves it
    damage, and a whole record of a later batch after it    corruption: acknowledged messages are gone

The limit of the rule: bits that rot in the last batches look like a torn tail. Whether a tail was acknowledged is for
`acknowledged` to say. With the other sync modes a power cut can also leave whole batches behind torn ones; that
counts as corruption, because it cannot be told from it.

The manifest is a log too, of *edits* instead of batches, with the same rule: every edit is synced before what it
makes superfluous is removed.

LevelDB itself is not enough even with `paranoid_checks`: it takes a wrong length in the last block for a
record cut short, and zeroes anywhere for padding, and silently skips what follows.

Sources: LevelDB `doc/log_format.md`, `db/log_reader.cc`, `db/write_batch.cc`.
"""

import re
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from miniqueue.storage.crc32c import masked_crc32c, masked_crc32c_of_each

BLOCK_BYTES = 32_768
HEADER = struct.Struct("<IHB")
_SEQUENCE = struct.Struct("<Q")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

# Where a batch may begin: sequence numbers stay below 2**48 (8 years at a million messages a second), so two
# zero bytes must stand there. In random bytes this leaves one place in 8 million to compute a checksum for.
_MAY_BE_BATCH = re.compile(rb"(?s)(?=.{6}[\x01\x02].{6}\x00\x00)")

# A later batch of the same log cannot be further on than this, for want of room for so many changes. It keeps
# bytes of an older log, which the file system may show in a torn tail or a message may contain, from counting
# as one.
_MAX_SEQUENCE_STEP = 2**24

_RECORDS_AT_ONCE = 1024  # to verify: at most 32 MiB, and enough of small ones to be worth it
_CANDIDATES_AT_ONCE = 256  # of what may be a record: they may all be of 32 KiB


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a log.

    Attributes:
      offset: where the damaged batch begins, in bytes from the start of the file.
      next_batch_offset: where the next batch begins; None when there is none: then the damage is a torn tail.
    """

    offset: int
    next_batch_offset: int | None


@dataclass(frozen=True, slots=True)
class Survey:
    """What a log holds.

    Attributes:
      batch_offsets: where each batch begins that is whole, up to the first damage.
      end_offset: where the last of them ends; behind it is an unfinished tail, damage, zeroes or nothing.
      tail_bytes: how many are behind that, without zeroes that were written ahead (`preallocation`).
      damage: the first one, if any.
      is_only_begun: whether behind the last whole batch is the beginning of one, and zeroes: in a log that is written
        ahead this is what a batch that is cut short looks like. To LevelDB it is damage.
    """

    batch_offsets: "array[int]"
    end_offset: int
    tail_bytes: int
    damage: Damage | None
    is_only_begun: bool


def survey(log: bytes, *, verify_checksums: bool) -> Survey:
    """Return what a log holds, up to its first damage.

    Args:
      log: the whole file.
      verify_checksums: compute every record's checksum, or only follow the chain of lengths.
    """
    walk = _walked(log, verify_checksums)
    damage = None
    if walk.offset < len(log):
        next_batch_offset = _find_batch(log, walk.offset + 1, walk.last_sequence)
        if next_batch_offset is not None or not walk.is_at_usual_end():
            damage = Damage(walk.batch_offset, next_batch_offset)
    is_empty_behind = not log[walk.offset :].strip(b"\0")
    tail_bytes = (walk.offset if is_empty_behind else len(log)) - walk.batch_offset
    is_only_begun = is_empty_behind and walk.is_inside_batch
    return Survey(walk.whole_batches(), walk.batch_offset, tail_bytes, damage, is_only_begun)


def find_manifest_damage(manifest: bytes) -> Damage | None:
    """Return the first damage of a manifest, or None; `next_batch_offset` is where a whole edit stands behind it."""
    walk = _walked(manifest, verify_checksums=True)
    if walk.offset >= len(manifest):
        return None
    next_edit_offset = _find_edit(manifest, walk.offset + 1)
    if next_edit_offset is None and walk.is_at_usual_end():
        return None
    return Damage(walk.batch_offset, next_edit_offset)


def begins_soundly(log: bytes, offset: int) -> bool:
    """Whether the first record of the batch at `offset`, which is whole, has the right checksum."""
    return _has_good_checksum(log, offset, offset + HEADER.size + _header(log, offset)[1])


def content_at(log: bytes, offset: int) -> bytes:
    """Return the content of the whole batch that begins at `offset`."""
    pieces: list[bytes] = []
    kind = _FIRST
    while kind not in (_FULL, _LAST):
        if _room_in_block(offset) < HEADER.size:
            offset += _room_in_block(offset)
        _, length, kind = _header(log, offset)
        pieces.append(log[offset + HEADER.size : offset + HEADER.size + length])
        offset += HEADER.size + length
    return b"".join(pieces)


def _walked(log: bytes, verify_checksums: bool) -> "_Walk":
    """Return the place where the chain of good records ends."""
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
    """Return where the first record begins whose checksum is wrong, or the length of the log."""
    for start in range(0, len(records), _RECORDS_AT_ONCE):
        some = records[start : start + _RECORDS_AT_ONCE]
        sums = masked_crc32c_of_each([log[offset + 6 : end] for offset, end in some])
        for (offset, _end), checksum in zip(some, sums, strict=True):
            if _header(log, offset)[0] != checksum:
                return offset
    return len(log)


@dataclass(slots=True)
class _Walk:
    """A place between two records of a log."""

    log: bytes
    offset: int = 0
    record_offset: int = 0  # of the record in front of `offset`, or `offset` itself behind a trailer
    batch_offset: int = 0  # where the batch begins that `offset` is in or in front of
    is_inside_batch: bool = False
    last_sequence: int | None = None
    batch_offsets: "array[int]" = field(default_factory=lambda: array("Q"))  # also of one that is not whole

    def step(self) -> bool:
        """Go past the record at `offset`; False, without moving, if there is no good one."""
        if _room_in_block(self.offset) < HEADER.size:
            return self._skip_trailer()
        end = _record_end(self.log, self.offset)
        if end is None or not self._is_in_sequence():
            return False
        self._pass_record(end)
        return True

    def whole_batches(self) -> "array[int]":
        """Return where the batches begin that have been passed."""
        return self.batch_offsets[:-1] if self.is_inside_batch else self.batch_offsets

    def is_at_usual_end(self) -> bool:
        """Whether a log may stop like this without a power cut: cut short, or padded with zeroes."""
        left_bytes = len(self.log) - self.offset
        if left_bytes < HEADER.size:
            return True
        _, length, kind = _header(self.log, self.offset)
        if kind == length == 0 and not self.is_inside_batch:
            return not self.log[self.offset :].strip(b"\0")
        size_bytes = HEADER.size + length
        return _FULL <= kind <= _LAST and left_bytes < size_bytes <= _room_in_block(self.offset)

    def _skip_trailer(self) -> bool:
        self.offset = min(self.offset + _room_in_block(self.offset), len(self.log))
        self.record_offset = self.offset
        if not self.is_inside_batch:
            self.batch_offset = self.offset
        return True

    def _is_in_sequence(self) -> bool:
        return self.is_inside_batch is (self.log[self.offset + 6] in (_MIDDLE, _LAST))

    def _pass_record(self, end: int) -> None:
        kind = self.log[self.offset + 6]
        if kind in (_FULL, _FIRST):
            self.batch_offsets.append(self.offset)
            if end - self.offset >= HEADER.size + _SEQUENCE.size:
                (self.last_sequence,) = _SEQUENCE.unpack_from(self.log, self.offset + HEADER.size)
        self.is_inside_batch = kind in (_FIRST, _MIDDLE)
        self.record_offset, self.offset = self.offset, end
        if not self.is_inside_batch:
            self.batch_offset = end


def _find_batch(log: bytes, start: int, last_sequence: int | None) -> int | None:
    """Return where, at `start` or later, the first whole record of a later batch's beginning is."""
    places = (match.start() for match in _MAY_BE_BATCH.finditer(log, start))
    records = ((offset, end) for offset in places if (end := _record_end(log, offset)) is not None)
    return _first_sound(log, ((offset, end) for offset, end in records if _is_later(log, offset, last_sequence)))


def _find_edit(manifest: bytes, start: int) -> int | None:
    """Return where, at `start` or later, a whole record begins. Manifests are small: every place is tried."""
    places = range(start, len(manifest) - HEADER.size)
    records = ((offset, end) for offset in places if (end := _record_end(manifest, offset)) is not None)
    return _first_sound(manifest, ((offset, end) for offset, end in records if end > offset + HEADER.size))


def _first_sound(log: bytes, records: Iterator[tuple[int, int]]) -> int | None:
    """Return where the first of `records` begins whose checksum is right.

    Many at a time: a message may be full of what looks like records, each of which takes a checksum to tell.
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
    """Return where the record at `offset` ends, or None if what stands there cannot be a record."""
    if len(log) - offset < HEADER.size:
        return None
    _, length, kind = _header(log, offset)
    end = offset + HEADER.size + length
    fits = end <= len(log) and HEADER.size + length <= _room_in_block(offset)
    return end if fits and _FULL <= kind <= _LAST else None


def _has_good_checksum(log: bytes, offset: int, end: int) -> bool:
    return _header(log, offset)[0] == masked_crc32c(log[offset + 6 : end])


def _header(log: bytes, offset: int) -> tuple[int, int, int]:
    """Return checksum, length and type."""
    checksum, length, kind = HEADER.unpack_from(log, offset)
    return checksum, length, kind


def _room_in_block(offset: int) -> int:
    return BLOCK_BYTES - offset % BLOCK_BYTES
