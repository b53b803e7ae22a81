"""The parts of a spread topic: topics of their own, which lie in different shards, below one name.

    orders, spread over 4      ─▶ orders␟0  orders␟1  orders␟2  orders␟3        ␟ is the byte 0x1F
    orders.dlq, its dead letters ─▶ orders.dlq␟0 …: each part has its dead letters beside itself, in its own shard

No client can name a part: names have no control characters, and `Topics.check_name` creates parts with shards only.

The partitions of part `i` are numbered from `i << PART_BITS` on. So the partition of a message id, of the id of a
delayed message, of a receipt, and of READ contains the part, whatever the number of parts is:

    3073-17 ─▶ partition 3073 ─▶ part 3, the second of its partitions

The part of a key is a hash that is independent of `partitioning`: otherwise the keys of a part would have few of its
partitions. The part of a key changes if the number of parts does.
"""

import re
from hashlib import blake2b
from typing import Final

from miniqueue.core.message.partitioning import MAX_PARTITIONS

SEPARATOR: Final = b"\x1f"
PART_BITS: Final = 10
#: Maximum number of parts: with all of their partitions, their numbers fit 16 bits.
MAX_PARTS: Final = 64
assert MAX_PARTITIONS == 1 << PART_BITS
_SEPARATOR_IN_TEXT: Final = SEPARATOR.decode()
_PART_IN_TEXT: Final = re.compile(r"\x1f\d{1,2}")


def part_name(topic: bytes, number: int) -> bytes:
    """Return the name of a part of a topic, from 0 on."""
    return b"%b%b%d" % (topic, SEPARATOR, number)


def parse_part(name: bytes) -> tuple[bytes, int] | None:
    """Return the name of the topic and the number of the part; None if `name` is not the name of a part."""
    whole, separator, digits = name.partition(SEPARATOR)
    if not separator or not whole or len(digits) > 2 or not digits.isdigit():
        return None
    number = int(digits)
    return (whole, number) if number < MAX_PARTS and digits == b"%d" % number else None


def whole_of(name: bytes) -> bytes:
    """Return the name that clients know: that of the topic, if `name` is a part of it, else `name`."""
    return name.partition(SEPARATOR)[0]


def without_parts(text: str) -> str:
    """Return a text in which the names of parts are those of their topics, as clients, logs, and tools show them."""
    return _PART_IN_TEXT.sub("", text) if _SEPARATOR_IN_TEXT in text else text


def append_to(name: bytes, suffix: bytes) -> bytes:
    """Return a name with a suffix, which the name of a part has before the number of the part."""
    whole, separator, digits = name.partition(SEPARATOR)
    return whole + suffix + separator + digits


def remove_from(name: bytes, suffix: bytes) -> bytes:
    """Return a name without a suffix, if it has it: the inverse of `append_to`."""
    whole, separator, digits = name.partition(SEPARATOR)
    return whole.removesuffix(suffix) + separator + digits


def has_suffix(name: bytes, suffix: bytes) -> bool:
    """Whether a name has a suffix, as `append_to` appends it."""
    return whole_of(name).endswith(suffix)


def beside(part: bytes, topic: bytes) -> bytes:
    """Return the part of `topic` with the same number as `part`, which is in the same shard; `topic` for no part."""
    parsed = parse_part(part)
    return topic if parsed is None or SEPARATOR in topic else part_name(topic, parsed[1])


def is_first(name: bytes) -> bool:
    """Return whether a topic is no part, or the first one, for which what happens to all parts alike is reported."""
    part = parse_part(name)
    return part is None or part[1] == 0


def first_partition_of(name: bytes) -> int:
    """Return the number of the first partition of a topic with this name: 0, except for parts."""
    part = parse_part(name)
    return 0 if part is None else part[1] << PART_BITS


def part_of_partition(partition: int) -> int:
    """Return the number of the part with a partition, without its priority."""
    return partition >> PART_BITS


def part_for(key: bytes, part_count: int) -> int:
    """Return the number of the part of messages with `key`: a key, or what is in its place."""
    return int.from_bytes(blake2b(key, digest_size=8).digest()) % part_count


def part_of_id(word: bytes) -> int:
    """Return the number of the part that is contained in the id of a message, delayed or not; 0 if `word` is none."""
    digits = word.partition(b"-")[0].partition(b".")[0]
    return part_of_partition(int(digits)) % MAX_PARTS if digits.isdigit() and len(digits) <= 5 else 0
