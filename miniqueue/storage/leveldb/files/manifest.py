"""Parses a LevelDB manifest: the existing tables, and the oldest log that is still needed.

A manifest is a log (`log`) whose records are *edits* of the list of tables:

    edit    = (tag:varint field)*
    tag       1 comparator: text · 2 log number · 3 next file number · 4 last sequence number · 9 previous log number
              5 compact pointer: level, key · 6 table removed: level, number
              7 table added: level, number, size, smallest key, largest key
    text, key = length:varint bytes                              everything else is a varint

Parsing ends silently at the first damage; `log` and LevelDB decide what the damage means.

Sources: LevelDB `db/version_edit.cc`, `doc/log_format.md`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from miniqueue.storage.leveldb.files.blocks import varint
from miniqueue.storage.leveldb.files.crc32c import masked_crc32c_of_each
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, HEADER

_FULL, _FIRST, _LAST = 1, 2, 4
_LOG_NUMBER, _LAST_SEQUENCE, _REMOVED, _ADDED = 2, 4, 6, 7
#: The fields after each tag: b for bytes with their length, n for a number.
_FIELDS = {1: "b", _LOG_NUMBER: "n", 3: "n", _LAST_SEQUENCE: "n", 5: "nb", _REMOVED: "nn", _ADDED: "nnnbb", 9: "n"}
#: Length of the number of the change that follows every key.
_CHANGE_BYTES = 8


class Table(NamedTuple):
    """An existing table, with its smallest and its largest key."""

    level: int
    number: int
    size_bytes: int
    first: bytes
    last: bytes


@dataclass(slots=True)
class Manifest:
    """The result of applying all edits in order.

    Attributes:
      needed_log: number of the oldest log whose batches are not all in tables; None if no edit contains it.
      last_sequence: number of the last change when the manifest was last written; None if no edit contains it.
      tables: existing tables, by number.
      named: numbers of all tables that ever existed.
      end_offset: end of the last whole edit.
    """

    needed_log: int | None = None
    last_sequence: int | None = None
    tables: dict[int, Table] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)
    end_offset: int = 0


def parse_manifest(content: bytes) -> Manifest:
    """Parse a manifest up to its first damage."""
    manifest = Manifest()
    for edit, end in _edits(content):
        try:
            for tag, numbers, texts in _fields(edit):
                _apply(manifest, tag, numbers, texts)
        except (IndexError, KeyError):
            break
        manifest.end_offset = end
    return manifest


def _apply(manifest: Manifest, tag: int, numbers: list[int], texts: list[bytes]) -> None:
    if tag == _LOG_NUMBER:
        manifest.needed_log = numbers[0]
    elif tag == _LAST_SEQUENCE:
        manifest.last_sequence = numbers[0]
    elif tag == _REMOVED:
        manifest.tables.pop(numbers[1], None)
    elif tag == _ADDED:
        level, number, size_bytes = numbers
        first, last = (key[:-_CHANGE_BYTES] for key in texts)
        manifest.tables[number] = Table(level, number, size_bytes, first, last)
        manifest.named.add(number)


def _edits(manifest: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each whole edit and its end."""
    content = b""
    records = list(_records(manifest))
    sums = masked_crc32c_of_each([manifest[offset + 6 : end] for offset, end in records])
    for (offset, end), computed in zip(records, sums, strict=True):
        checksum, length, kind = HEADER.unpack_from(manifest, offset)
        if computed != checksum:
            return
        content = manifest[end - length : end] if kind in (_FULL, _FIRST) else content + manifest[end - length : end]
        if kind in (_FULL, _LAST):
            yield content, end


def _records(manifest: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each record, to the end of the chain."""
    offset = 0
    while offset + HEADER.size <= len(manifest):
        if BLOCK_BYTES - offset % BLOCK_BYTES < HEADER.size:
            offset += BLOCK_BYTES - offset % BLOCK_BYTES
            continue
        end = offset + HEADER.size + HEADER.unpack_from(manifest, offset)[1]
        if end > len(manifest):
            return
        yield offset, end
        offset = end


def _fields(edit: bytes) -> Iterator[tuple[int, list[int], list[bytes]]]:
    """Yield each tag with its numbers and texts."""
    offset = 0
    while offset < len(edit):
        tag, offset = varint(edit, offset)
        numbers: list[int] = []
        texts: list[bytes] = []
        for kind in _FIELDS[tag]:
            number, offset = varint(edit, offset)
            if kind == "n":
                numbers.append(number)
            else:
                texts.append(edit[offset : offset + number])
                offset += number
        yield tag, numbers, texts
