"""Keys and values of messages on their way between shards: those that are sent, and what has arrived.

OUTBOX has the transfers of this store to other shards, by number; SENT the highest number that was used; RECEIVED what
has arrived from another shard. The grammar is in `keys`, the forms of the values are in `values`.
"""

import struct
from itertools import pairwise

import orjson

from miniqueue.core.log.transfer import KINDS, Received, Transfer
from miniqueue.storage.format.keys import SHARD_LAYOUT, TASK_LAYOUT, Space
from miniqueue.storage.format.values import malformed, seal, unseal

_lengths = struct.Struct("<II")
_number = struct.Struct("<Q")

SENT = bytes([Space.SENT])


def outbox(number: int) -> bytes:
    """Key of a transfer."""
    return TASK_LAYOUT.pack(Space.OUTBOX, number)


def number_of(key: bytes) -> int:
    """Parse `outbox`."""
    number: int = TASK_LAYOUT.unpack(key)[1]
    return number


def received(shard: int) -> bytes:
    """Key of what has arrived from a shard."""
    return SHARD_LAYOUT.pack(Space.RECEIVED, shard)


def shard_of(key: bytes) -> int:
    """Parse `received`."""
    shard: int = SHARD_LAYOUT.unpack(key)[1]
    return shard


def encode_transfer(transfer: Transfer) -> bytes:
    """Encode a message that is on its way."""
    members = orjson.dumps(
        {
            "topic": transfer.topic.decode(),
            "kind": transfer.kind.value,
            "is_home": transfer.is_home,
            "owner": transfer.owner,
            "created_at_ms": transfer.created_at_ms,
            "lane": transfer.lane,
            "position": transfer.position.decode(),
            "seq": transfer.seq,
        }
    )
    lengths = _lengths.pack(len(members), len(transfer.attributes))
    return seal(lengths, members, transfer.attributes, transfer.payload)


def decode_transfer(value: bytes) -> Transfer:
    """Parse `encode_transfer`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    body = unseal(value, "transfer")
    if len(body) < _lengths.size:
        raise malformed("transfer")
    members_length, attributes_length = _lengths.unpack_from(body)
    attributes_at = _lengths.size + members_length
    payload_at = attributes_at + attributes_length
    if len(body) < payload_at:
        raise malformed("transfer")
    try:
        members = orjson.loads(body[_lengths.size : attributes_at])
        return Transfer(
            members["topic"].encode(),
            KINDS[members["kind"]],
            bool(members["is_home"]),
            str(members["owner"]),
            int(members["created_at_ms"]),
            int(members["lane"]),
            members["position"].encode(),
            int(members["seq"]),
            body[payload_at:],
            body[attributes_at:payload_at],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
        raise malformed("transfer") from exc


def encode_received(received: Received) -> bytes:
    """Encode what has arrived from a shard."""
    return seal(b"".join(map(_number.pack, (received.last_number, *sorted(received.missing)))))


def decode_received(value: bytes) -> Received:
    """Parse `encode_received`."""
    body = unseal(value, "received transfers")
    if not body or len(body) % _number.size:
        raise malformed("received transfers")
    last_number, *missing = (number for (number,) in _number.iter_unpack(body))
    if any(number >= following for number, following in pairwise([*missing, last_number])):
        raise malformed("received transfers")
    return Received(last_number, frozenset(missing))
