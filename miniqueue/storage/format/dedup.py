"""Keys and values that prevent duplicates: ids of publishes (DEDUP), and unique keys of messages (UNIQUE).

The ids are ordered by the time of their commit, so expired ids come first. The grammar is in `keys`, the forms of the
values are in `values`.
"""

import struct
from collections.abc import Iterable, Iterator

from miniqueue.core.log.dedup_window import Batch, DedupWindow, Remembered
from miniqueue.storage.format.keys import COMMIT_LAYOUT, UNIQUE_LAYOUT, KeyRange, Space, topic_range
from miniqueue.storage.format.values import malformed, seal, unseal

_entry = struct.Struct("<IHI")
_time = struct.Struct("<Q")


def dedup(topic_id: int, committed_at_ms: int, serial: int) -> bytes:
    """Key of the dedup ids of a commit."""
    return COMMIT_LAYOUT.pack(Space.DEDUP, topic_id, committed_at_ms, serial)


def committed_at_ms_and_serial(key: bytes) -> tuple[int, int]:
    """Parse `dedup`."""
    committed_at_ms, serial = COMMIT_LAYOUT.unpack(key)[2:]
    return committed_at_ms, serial


def dedups(topic_id: int) -> KeyRange:
    """Range of the dedup ids of a topic."""
    return topic_range(Space.DEDUP, topic_id)


def unique(topic_id: int, key: bytes, message_id: bytes) -> bytes:
    """Key that states that a message has a unique key."""
    return UNIQUE_LAYOUT.pack(Space.UNIQUE, topic_id, len(key)) + key + message_id


def unique_range(topic_id: int) -> KeyRange:
    """Range of the unique keys of a topic."""
    return topic_range(Space.UNIQUE, topic_id)


def unique_key_and_message_id(key: bytes) -> tuple[bytes, bytes]:
    """Parse `unique`."""
    start = UNIQUE_LAYOUT.size
    stop = start + UNIQUE_LAYOUT.unpack_from(key)[2]
    return key[start:stop], key[stop:]


def claims(topic_id: int, key: bytes) -> KeyRange:
    """Range of the messages that have a unique key; message ids are ASCII, so they sort before 0xFF."""
    start = unique(topic_id, key, b"")
    return start, start + b"\xff"


def encode_dedup(entries: Iterable[Remembered]) -> bytes:
    """Encode the publishes with dedup ids of one commit."""
    return seal(*(part for entry in entries for part in _parts(entry)))


def decode_dedup(value: bytes) -> list[Remembered]:
    """Parse `encode_dedup`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    try:
        entries = list(_entries(unseal(value, "dedup ids")))
    except struct.error as exc:
        raise malformed("dedup ids") from exc
    if not entries or not all(map(all, entries)):
        raise malformed("dedup ids")
    return entries


def decode_window(stored: Iterable[tuple[bytes, bytes]]) -> DedupWindow | None:
    """Return the dedup ids of a topic from its stored pairs, expired ids included; None if there are none."""
    batches = []
    for key, value in stored:
        committed_at_ms, serial = committed_at_ms_and_serial(key)
        batches.append(Batch(serial, committed_at_ms, decode_dedup(value)))
    return DedupWindow(batches) if batches else None


def encode_unique(expires_at_ms: int) -> bytes:
    """Encode when a message with a unique key expires; 0 means never."""
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
