"""The attributes of a message: headers, key, expiry time, ids, and the origin of a dead letter.

    attributes   = field …                       tag 6 or 9 first, the others in the order of tags; a message without
                                                 attributes has no bytes
    field        = tag:1 length:4 value          integers are little-endian

    tag          value
    1 header     name_length:1 name, then the value; one field for each, in their order
    2 key        the key
    3 expiry     expires_at_ms:8
    4 dedup id   the id
    5 origin     partition:4 seq:8 published_at_ms:8 died_at_ms:8 nacks:4 backs:4 dacks:4 timeouts:4 disconnects:4
                 topic_length:1 topic, then the reason
    6 unique     the unique key: the topic has at most one message with it
    7 reply to   the broker's name of the request that waits for a reply
    8 given by   of a dead letter: the group that dropped it, if it is not the default group
    9 only for   the only group that receives the message
    10 failure   of a dead letter: the reason of the last NACK that gave one; of two fields, the last one counts

Storing and delivering a message copies the encoded bytes. Code that needs a single field uses the functions below,
which are faster than `decode`.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from operator import add
from types import MappingProxyType
from typing import Any, NamedTuple

from miniqueue.core.message.message import NEVER_RETURNED, Counts
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidAttributesError

#: Maximum encoded size of the attributes that a publisher can set for a message.
MAX_ATTRIBUTES_BYTES = 64 << 10
#: Maximum length of the name of a header: its length is stored in one byte.
MAX_HEADER_NAME_BYTES = 255
_VISIBLE = bytes(range(0x21, 0x7F))

_HEADER, _KEY, _EXPIRY, _DEDUP_ID, _ORIGIN, _UNIQUE, _REPLY_TO, _GIVEN_BY, _ONLY_FOR, _FAILURE = range(1, 11)
#: Fields whose value is stored as it is, by the attribute that contains it.
_PLAIN: Mapping[int, str] = MappingProxyType(
    {
        _KEY: "key",
        _DEDUP_ID: "dedup_id",
        _UNIQUE: "unique_key",
        _REPLY_TO: "reply_to",
        _ONLY_FOR: "only_for",
        _FAILURE: "failure",
    }
)
_MAX_64 = (1 << 64) - 1

_field = struct.Struct("<BI")
_number = struct.Struct("<Q")
_origin = struct.Struct("<IQQQIIIIIB")
_EXPIRY_BYTES = _field.size + _number.size
#: The first byte of attributes whose first field is a key.
_KEY_MARK = bytes([_KEY])
#: The first byte of the attributes of a message for one group only.
_ONLY_MARK = bytes([_ONLY_FOR])


class Origin(NamedTuple):
    """The topic that a dead letter comes from, and the reason why it was dead-lettered.

    Attributes:
      topic: the name of the topic.
      partition: the partition of the topic.
      seq: the sequence number in that partition.
      published_at_ms: the time of its first publish.
      died_at_ms: the time when it was dead-lettered.
      counts: how often it had been returned.
      reason: the reason, as UTF-8.
      group: the group that dead-lettered it.
    """

    topic: bytes
    partition: int
    seq: int
    published_at_ms: int
    died_at_ms: int
    counts: Counts = NEVER_RETURNED
    reason: bytes = b""
    group: bytes = DEFAULT_GROUP_NAME


class Attributes(NamedTuple):
    """The attributes of one message; by default it has none.

    Attributes:
      headers: names and values, in the order of the publisher; a name may occur more than once.
      key: the key; b"" for none.
      expires_at_ms: the expiry time in ms since 1970; 0 for never.
      dedup_id: the dedup id; b"" for none.
      origin: the origin of a dead letter; None for other messages.
      unique_key: the unique key; b"" for none.
      reply_to: the broker's name of the request that waits for a reply; b"" for none. Publishers cannot set it.
      only_for: the only group that receives the message; b"" for all groups. Publishers cannot set it.
      failure: the reason of the last NACK that gave one; b"" for none. Publishers cannot set it.
    """

    headers: tuple[tuple[bytes, bytes], ...] = ()
    key: bytes = b""
    expires_at_ms: int = 0
    dedup_id: bytes = b""
    origin: Origin | None = None
    unique_key: bytes = b""
    reply_to: bytes = b""
    only_for: bytes = b""
    failure: bytes = b""

    def encode(self) -> bytes:
        """Encode the attributes for storage.

        Raises:
          InvalidAttributesError: the name of a header is invalid, a time is out of range, a message for one group has a
            unique key, or the attributes without the origin, which publishers cannot set, are too long.
        """
        fields = [_pack(_UNIQUE, self.unique_key)] if self.unique_key else []
        fields += [_pack(_HEADER, _header(name, value)) for name, value in self.headers]
        if self.key:
            fields.append(_pack(_KEY, self.key))
        if self.expires_at_ms:
            fields.append(_pack(_EXPIRY, _time(self.expires_at_ms)))
        if self.dedup_id:
            fields.append(_pack(_DEDUP_ID, self.dedup_id))
        if (size_bytes := sum(map(len, fields))) > MAX_ATTRIBUTES_BYTES:
            raise InvalidAttributesError(f"attributes of {size_bytes} bytes are over the limit of 65536 for a message")
        if self.origin is not None:
            fields.append(_pack(_ORIGIN, _encode_origin(self.origin)))
            if self.origin.group != DEFAULT_GROUP_NAME:
                fields.append(_pack(_GIVEN_BY, self.origin.group))
        if self.reply_to:
            fields.append(_pack(_REPLY_TO, self.reply_to))
        if self.failure:
            fields.append(_pack(_FAILURE, self.failure))
        if self.only_for:
            if self.unique_key:
                raise InvalidAttributesError("a message that only one group gets has no unique key")
            fields.insert(0, _pack(_ONLY_FOR, self.only_for))
        return b"".join(fields)


NO_ATTRIBUTES = Attributes()


def encode_keys(keys: Sequence[bytes]) -> list[bytes]:
    """Return the encoded attributes of messages that have these keys and nothing else; b"" for an empty key."""
    lengths = list(map(len, keys))
    heads = {length: _field.pack(_KEY, length) for length in set(lengths)} | {0: b""}
    return list(map(add, map(heads.__getitem__, lengths), keys))


def decode(encoded: bytes) -> Attributes:
    """Decode a result of `Attributes.encode`.

    Raises:
      FormatVersionError: a field has a tag of a newer version.
      CorruptionError: the bytes are not valid attributes.
    """
    if not encoded:
        return NO_ATTRIBUTES
    headers: list[tuple[bytes, bytes]] = []
    plain: dict[str, Any] = {}
    attributes = NO_ATTRIBUTES
    try:
        for tag, value in _fields(encoded):
            if tag == _HEADER:
                headers.append(_decode_header(value))
            elif tag == _EXPIRY:
                attributes = attributes._replace(expires_at_ms=_number.unpack(value)[0])
            elif tag == _ORIGIN:
                attributes = attributes._replace(origin=_decode_origin(value))
            elif tag in _PLAIN:
                plain[_PLAIN[tag]] = value
            elif tag == _GIVEN_BY:
                attributes = attributes._replace(origin=_given_by(attributes.origin, value))
            else:
                raise FormatVersionError("attributes", tag, _FAILURE)
    except (struct.error, ValueError, IndexError, InvalidAttributesError) as exc:
        raise CorruptionError("the attributes of a message make no sense") from exc
    return attributes._replace(headers=tuple(headers), **plain)


def with_failure(encoded: bytes, failure: bytes) -> bytes:
    """Return encoded attributes with the reason of the last NACK that gave one; unchanged if it is empty."""
    return encoded + _pack(_FAILURE, failure) if failure else encoded


def unique_key(encoded: bytes) -> bytes:
    """Return the unique key of encoded attributes, b"" for none; the number of other fields does not matter."""
    return _first(encoded) if encoded and encoded[0] == _UNIQUE else b""


def _first(encoded: bytes) -> bytes:
    """Return the value of the first field."""
    length = _field.unpack_from(encoded)[1]
    return encoded[_field.size : _field.size + length]


def key_of(encoded: bytes) -> bytes:
    """Return the key of encoded attributes, b"" for none, without decoding other fields."""
    start, end = 0, len(encoded) - _field.size
    while start <= end:
        tag, length = _field.unpack_from(encoded, start)
        if tag == _KEY:
            return encoded[start + _field.size : start + _field.size + length]
        if tag not in (_HEADER, _UNIQUE, _ONLY_FOR):
            return b""
        start += _field.size + length
    return b""


def sole_key(encoded: bytes) -> bytes:
    """Return the key of encoded attributes that consist of a key; b"" if there are other fields."""
    if encoded[:1] != _KEY_MARK or len(encoded) < _field.size:
        return b""
    key = encoded[_field.size :]
    return key if _field.unpack_from(encoded)[1] == len(key) else b""


def only_for(encoded: bytes) -> bytes:
    """Return the only group that receives a message with these encoded attributes; b"" for all groups."""
    return _first(encoded) if encoded[:1] == _ONLY_MARK else b""


def is_for(encoded: bytes, group: bytes) -> bool:
    """Return whether a group receives a message with these encoded attributes."""
    return encoded[:1] != _ONLY_MARK or _first(encoded) == group


def expires_at_ms(encoded: bytes) -> int:
    """Return the expiry time in encoded attributes, in ms since 1970; 0 for never, or if the bytes are invalid.

    A few times faster than `decode`, because it runs for every delivered message with attributes.
    """
    start = 0
    while start + _EXPIRY_BYTES <= len(encoded):
        tag, length = _field.unpack_from(encoded, start)
        start += _field.size
        if tag == _EXPIRY:
            return int.from_bytes(encoded[start : start + length], "little")
        start += length
    return 0


def check_header_name(name: bytes) -> bytes:
    """Return `name` if it is valid for a header: 1 to 255 printable ASCII characters without blanks.

    Raises InvalidAttributesError if it is not.
    """
    if not 0 < len(name) <= MAX_HEADER_NAME_BYTES or name.translate(None, _VISIBLE):
        raise InvalidAttributesError("the name of a header is 1 to 255 printable ASCII characters without blanks")
    return name


def _pack(tag: int, value: bytes) -> bytes:
    return _field.pack(tag, len(value)) + value


def _header(name: bytes, value: bytes) -> bytes:
    return bytes([len(check_header_name(name))]) + name + value


def _time(at_ms: int) -> bytes:
    if not 0 < at_ms <= _MAX_64:
        raise InvalidAttributesError("the time at which a message expires is out of range")
    return _number.pack(at_ms)


def _encode_origin(origin: Origin) -> bytes:
    times = origin.published_at_ms, origin.died_at_ms
    packed = _origin.pack(origin.partition, origin.seq, *times, *origin.counts, len(origin.topic))
    return packed + origin.topic + origin.reason


def _given_by(origin: Origin | None, group: bytes) -> Origin:
    if origin is None:
        raise ValueError
    return origin._replace(group=group)


def _fields(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(encoded):
        tag, length = _field.unpack_from(encoded, start)
        start += _field.size
        if start + length > len(encoded):
            raise ValueError
        yield tag, encoded[start : start + length]
        start += length


def _decode_header(value: bytes) -> tuple[bytes, bytes]:
    stop = 1 + value[0]
    if stop > len(value):
        raise ValueError
    return check_header_name(value[1:stop]), value[stop:]


def _decode_origin(value: bytes) -> Origin:
    partition, seq, published_at_ms, died_at_ms, *counts, topic_length = _origin.unpack_from(value)
    stop = _origin.size + topic_length
    if stop > len(value):
        raise ValueError
    topic, reason = value[_origin.size : stop], value[stop:]
    return Origin(topic, partition, seq, published_at_ms, died_at_ms, Counts(*counts), reason)
