"""Keys and values of the ends of logs: where a retained log begins, and where logs ended when partitions were added.

START is stored while a partition retains messages that all groups have settled. GROWTH is stored if a topic with
messages gets more partitions. The grammar is in `keys`, the forms of the values are in `values`.
"""

import struct
from collections.abc import Mapping

from miniqueue.storage.format.keys import MAX_UINT64, PARTITION_LAYOUT, KeyRange, Space, topic_range
from miniqueue.storage.format.values import malformed, seal, unpack, unseal

_end = struct.Struct("<IQ")
_start = struct.Struct("<QQ")
_NO_STOP = MAX_UINT64


def start(topic_id: int, partition: int) -> bytes:
    """Key of where the retained log of a partition begins; absent if the partition retains no settled messages."""
    return PARTITION_LAYOUT.pack(Space.START, topic_id, partition)


def encode_start(start_seq: int, stop_seq: int | None) -> bytes:
    """Encode the range in which settled chunks are retained; a `stop_seq` of None means no end."""
    return seal(_start.pack(start_seq, _NO_STOP if stop_seq is None else stop_seq))


def decode_start(value: bytes) -> tuple[int, int | None]:
    """Parse `encode_start`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    start_seq, stop_seq = unpack(_start, value, "start of the log")
    return start_seq, None if stop_seq == _NO_STOP else stop_seq


def growth(topic_id: int, partition_count: int) -> bytes:
    """Key of where logs ended when the topic ceased to have `partition_count` partitions."""
    return PARTITION_LAYOUT.pack(Space.GROWTH, topic_id, partition_count)


def growths(topic_id: int) -> KeyRange:
    """Range of the growths of a topic, in the order in which they happened."""
    return topic_range(Space.GROWTH, topic_id)


def partition_count(key: bytes) -> int:
    """Parse `growth`."""
    count: int = PARTITION_LAYOUT.unpack(key)[2]
    return count


def encode_growth(ends: Mapping[int, int]) -> bytes:
    """Encode the end of the log of each partition and lane, by its number."""
    return seal(*(_end.pack(number, ends[number]) for number in sorted(ends)))


def decode_growth(value: bytes) -> dict[int, int]:
    """Parse `encode_growth`."""
    subject = "growth of a topic"
    body = unseal(value, subject)
    if not body or len(body) % _end.size:
        raise malformed(subject)
    pairs = [*_end.iter_unpack(body)]
    if pairs != sorted(set(pairs)) or len(dict(pairs)) != len(pairs):
        raise malformed(subject)
    return dict(pairs)
