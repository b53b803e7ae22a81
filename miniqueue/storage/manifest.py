"""Which tables and which log a LevelDB manifest names. Works on bytes; touches no file.

A manifest is a log (`log_tail`) whose records are *edits* of the list of tables:

    edit    = (tag:varint field)*
    tag       1 comparator: text · 2 log number · 3 next file number · 4 last sequence number · 9 previous log number
              5 compact pointer: level, key · 6 table removed: level, number
              7 table added: level, number, size, smallest key, largest key
    text, key = length:varint bytes                              everything else is a varint

Only the names are wanted, so reading ends quietly at the first damage: what it means, `log_tail` and LevelDB say.

Sources: LevelDB `db/version_edit.cc`, `doc/log_format.md`.
"""

from collections.abc import Iterator

from miniqueue.storage.crc32c import masked_crc32c
from miniqueue.storage.log_tail import BLOCK_BYTES, HEADER
from miniqueue.storage.varint import varint

_FULL, _FIRST, _LAST = 1, 2, 4
_LOG_NUMBER, _LAST_SEQUENCE, _ADDED = 2, 4, 7
#: The fields behind each tag: b for bytes with their length, n for a number.
_FIELDS = {1: "b", _LOG_NUMBER: "n", 3: "n", _LAST_SEQUENCE: "n", 5: "nb", 6: "nn", _ADDED: "nnnbb", 9: "n"}


def named_tables(manifest: bytes) -> set[int]:
    """Return the numbers of all tables that were ever added, removed ones too."""
    return {numbers[1] for tag, numbers in _all_fields(manifest) if tag == _ADDED}


def needed_log(manifest: bytes) -> int | None:
    """Return the number of the oldest log whose batches are not all in tables, or None when no edit names one."""
    return _last(manifest, _LOG_NUMBER)


def last_sequence(manifest: bytes) -> int | None:
    """Return the number of the last change when the manifest was last written to, or None when no edit tells."""
    return _last(manifest, _LAST_SEQUENCE)


def _last(manifest: bytes, wanted: int) -> int | None:
    named = [numbers[0] for tag, numbers in _all_fields(manifest) if tag == wanted]
    return named[-1] if named else None


def _all_fields(manifest: bytes) -> Iterator[tuple[int, list[int]]]:
    for edit in _records(manifest):
        try:
            yield from _fields(edit)
        except (IndexError, KeyError):
            return


def _records(manifest: bytes) -> Iterator[bytes]:
    offset, content = 0, b""
    while offset + HEADER.size <= len(manifest):
        if BLOCK_BYTES - offset % BLOCK_BYTES < HEADER.size:
            offset += BLOCK_BYTES - offset % BLOCK_BYTES
            continue
        checksum, length, kind = HEADER.unpack_from(manifest, offset)
        end = offset + HEADER.size + length
        if end > len(manifest) or masked_crc32c(manifest[offset + 6 : end]) != checksum:
            return
        content = manifest[end - length : end] if kind in (_FULL, _FIRST) else content + manifest[end - length : end]
        if kind in (_FULL, _LAST):
            yield content
        offset = end


def _fields(edit: bytes) -> Iterator[tuple[int, list[int]]]:
    """Yield each tag with its numbers; texts and keys are left out."""
    offset = 0
    while offset < len(edit):
        tag, offset = varint(edit, offset)
        numbers: list[int] = []
        for field in _FIELDS[tag]:
            number, offset = varint(edit, offset)
            if field == "n":
                numbers.append(number)
            else:
                offset += number
        yield tag, numbers
