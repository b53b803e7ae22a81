"""Values of what keeps duplicates away. The grammar stands in `records`."""

import struct
from collections.abc import Iterable, Iterator

from miniqueue.core.dedup_window import Batch, DedupWindow, Remembered
from miniqueue.storage import dedup_keys
from miniqueue.storage.sealing import malformed, seal, unseal

_entry = struct.Struct("<IHI")
_time = struct.Struct("<Q")


def encode_dedup(entries: Iterable[Remembered]) -> bytes:
    """Encode what was published with ids in one commit."""
    return seal(*(part for entry in entries for part in _parts(entry)))


def decode_dedup(value: bytes) -> list[Remembered]:
    """Parse `encode_dedup`; raises CorruptionError or FormatVersionError, as all parsers here."""
    try:
        entries = list(_entries(unseal(value, "dedup ids")))
    except struct.error as exc:
        raise malformed("dedup ids") from exc
    if not entries or not all(map(all, entries)):
        raise malformed("dedup ids")
    return entries


def decode_window(stored: Iterable[tuple[bytes, bytes]]) -> DedupWindow | None:
    """Return the ids of a topic, of which the store has these pairs, also those whose time is over; None for no ids."""
    batches = []
    for key, value in stored:
        committed_at_ms, serial = dedup_keys.committed_at_ms_and_serial(key)
        batches.append(Batch(serial, committed_at_ms, decode_dedup(value)))
    return DedupWindow(batches) if batches else None


def encode_unique(expires_at_ms: int) -> bytes:
    """Encode when the message expires that has a unique key; 0 for never."""
    return seal(_time.pack(expires_at_ms))


def decode_unique(value: bytes) -> int:
    """Parse `encode_unique`."""
    body = unseal(value, "unique key")
    if len(body) != _time.size:
        raise malformed("unique key")
    expires_at_ms: int = _time.unpack(body)[0]
    return expires_at_ms


def _parts(entry: Remembered) -> tuple[bytes, bytes, bytes]:
    dedup_id, message_id, message_count = entry
    return _entry.pack(message_count, len(dedup_id), len(message_id)), dedup_id, message_id


def _entries(body: bytes) -> Iterator[Remembered]:
    start = 0
    while start < len(body):
        count, *lengths = _entry.unpack_from(body, start)
        id_at = start + _entry.size
        message_id_at = id_at + lengths[0]
        start = message_id_at + lengths[1]
        if start > len(body):
            raise malformed("dedup ids")
        yield Remembered(body[id_at:message_id_at], body[message_id_at:start], count)
