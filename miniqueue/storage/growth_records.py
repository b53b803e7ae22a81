"""Makes and parses the value of where logs ended when partitions were added; `records` has its form."""

import struct
from collections.abc import Mapping

from miniqueue.storage.sealing import malformed, seal, unseal

_end = struct.Struct("<IQ")


def encode_growth(ends: Mapping[int, int]) -> bytes:
    """Encode where the log of each partition, or lane, ended, by its number."""
    return seal(*(_end.pack(number, ends[number]) for number in sorted(ends)))


def decode_growth(value: bytes) -> dict[int, int]:
    """Parse `encode_growth`; raises CorruptionError or FormatVersionError."""
    what = "growth of a topic"
    body = unseal(value, what)
    if not body or len(body) % _end.size:
        raise malformed(what)
    pairs = [*_end.iter_unpack(body)]
    if pairs != sorted(set(pairs)) or len(dict(pairs)) != len(pairs):
        raise malformed(what)
    return dict(pairs)
