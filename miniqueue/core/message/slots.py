"""The slot of a topic, as Redis Cluster computes it of a key: clients and brokers agree on it without asking.

    orders           ─▶ the slot of `orders`
    {eu}.orders      ─▶ the slot of `eu`: topics with equal tags are in one slot

Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ (key distribution, hash tags).
"""

from binascii import crc_hqx
from typing import Final

SLOT_COUNT: Final = 16_384


def slot_of(key: bytes) -> int:
    """Return the slot of a key, from 0 to 16,383: that of its tag, the text in the first braces, unless it is empty."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOT_COUNT
