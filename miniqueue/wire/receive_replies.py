"""The replies of RECEIVE, RECEIVEANY and GET, for both protocols: messages with their receipts and attributes.

    RESP   [receipt, payload, [id, 0-17, published_at_ms, 1700000000000, deliveries, 2, nacks, 1]]
           version 3 has a map in place of the inner array
    JSON   {"receipt":"…","msg":"<base64>","id":"0-17","publishedAtMs":1700000000000,"deliveries":2,"nacks":1}

A message has been delivered once more than it was returned, so `deliveries` is 1 plus the sum of the counts; counts of
0 are omitted. The attributes follow (`attribute_words`); few messages have any, and they are encoded one by one.
"""

import binascii
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import orjson

from miniqueue.core.cursor.lease import Lease
from miniqueue.core.message.ids import format_message_id, id_prefix
from miniqueue.core.message.message import Counts
from miniqueue.core.message.numerals import numeral_runs
from miniqueue.wire.attribute_words import BYTES_IN_TURN, MESSAGE_BYTES, as_json, attribute_words
from miniqueue.wire.resp_replies import RESP2, RESP3, Value, encode, size_lines

_BASE64: Final = partial(binascii.b2a_base64, newline=False)

#: What was received from a topic: its name, and the first arguments of `resp_messages`.
Received: TypeAlias = tuple[bytes, bytes, Sequence[tuple[int, Lease]]]
#: Receipt, payload, and attributes of a message.
_Described: TypeAlias = tuple[bytes, bytes, dict[Value, Value]]

#: Number of pieces of a message without attributes (`_resp_plain_lease`).
_PIECES: Final = 6


def resp_messages(prefix: bytes, leases: Sequence[tuple[int, Lease]], protocol: int) -> Generator[None, None, bytes]:
    """Encode an array of messages; yield each time that enough has been encoded for one event-loop iteration.

    Args:
      prefix: the prefix of each receipt; b"" if the messages have no receipts.
      leases: the leases, each with its lane.
      protocol: the version of RESP.
    """
    parts = _resp_plain_leases(prefix, leases, protocol)
    if b"" in parts:
        yield from _fill(parts, prefix, leases, partial(_resp_message, protocol), _room(leases))
    return b"*%d\r\n%b" % (sum([lease.count for _, lease in leases]), b"".join(parts))


def _resp_plain_leases(prefix: bytes, leases: Sequence[tuple[int, Lease]], protocol: int) -> list[bytes]:
    """Encode the leases without attributes; b"" for the others."""
    return [
        _resp_plain_lease(prefix, partition, lease, protocol) if lease.attributes is None else b""
        for partition, lease in leases
    ]


def _fill(
    parts: list[bytes],
    prefix: bytes,
    leases: Sequence[tuple[int, Lease]],
    message: Callable[[_Described], bytes],
    room: int,
) -> Generator[None, None, int]:
    """Set the parts of leases with attributes, of which each message is encoded by `message`; return the room left.

    Yields before more than `room` bytes (`attribute_words`).
    """
    for n, (partition, lease) in enumerate(leases):
        if lease.attributes is not None:
            encoded: list[bytes] = []
            for attributes, described in zip(lease.attributes, _described(prefix, partition, lease), strict=True):
                if room <= 0:
                    yield
                    room = BYTES_IN_TURN
                room -= MESSAGE_BYTES + len(attributes)
                encoded.append(message(described))
            parts[n] = b"".join(encoded)
    return room


def _room(leases: Sequence[tuple[int, Lease]]) -> int:
    """Return how much may be encoded one by one at once; nothing of many messages: to lease them was work enough."""
    described = [lease.attributes for _, lease in leases if lease.attributes is not None]
    size_bytes = sum([MESSAGE_BYTES * len(each) + sum(map(len, each)) for each in described])
    return BYTES_IN_TURN if size_bytes <= BYTES_IN_TURN else 0


def _resp_message(protocol: int, described: _Described) -> bytes:
    return encode(list(described), protocol)


def _described(prefix: bytes, partition: int, lease: Lease) -> Iterator[_Described]:
    """Yield receipt, payload, and attributes of each message."""
    assert lease.attributes is not None
    counts: dict[Value, Value] = {name: n for name, n in lease.counts._asdict().items() if n}
    for n, (payload, attributes) in enumerate(zip(lease.payloads, lease.attributes, strict=True)):
        receipt = b"%b%d" % (prefix, lease.receipt + n) if prefix else b""
        known: dict[Value, Value] = {
            "id": format_message_id(partition, lease.first_seq + n),
            "published_at_ms": lease.published_at_ms,
            "deliveries": 1 + sum(lease.counts),
        }
        yield receipt, payload, {**known, **counts, **attribute_words(attributes)}


def _resp_plain_lease(prefix: bytes, partition: int, lease: Lease, protocol: int) -> bytes:
    """Encode messages without attributes, joined in C, six pieces a message.

    *3 $n receipt-without-its-end │ end of receipt │ $n │ payload │ attributes, id-without-its-end │ end of id

    The attributes after the id are equal for all messages; they are part of the first piece of the next message.
    """
    last = _resp_attributes_after_id(lease)
    pieces: list[bytes] = [b""] * (_PIECES * lease.count)
    pieces[2::_PIECES] = size_lines(lease.payloads)
    pieces[3::_PIECES] = lease.payloads
    if prefix:
        _write_numbers(pieces, 0, last + b"*3\r\n", prefix, lease.receipt)
    else:
        pieces[0::_PIECES] = [last + b"*3\r\n$0\r\n"] * lease.count
    opening = b"\r\n" + _resp_opening(2 * _attribute_count(lease.counts), protocol) + b"$2\r\nid\r\n"
    _write_numbers(pieces, 4, opening, id_prefix(partition), lease.first_seq)
    pieces[0] = pieces[0].removeprefix(last)
    return b"".join([*pieces, last])


def _write_numbers(pieces: list[bytes], index: int, opening: bytes, prefix: bytes, first: int) -> None:
    """Write `opening`, then prefix and number as a bulk string whose end is a piece of its own."""
    position, count = index, len(pieces) // _PIECES
    for beginning, endings in numeral_runs(first, first + count):
        stop = position + _PIECES * len(endings)
        start = prefix + beginning
        header = b"%b$%d\r\n%b" % (opening, len(start) + len(endings[0]), start)
        pieces[position:stop:_PIECES] = [header] * len(endings)
        pieces[position + 1 : stop + 1 : _PIECES] = endings
        position = stop


def _resp_opening(word_count: int, protocol: int) -> bytes:
    return b"%%%d\r\n" % (word_count // 2) if protocol == RESP3 else b"*%d\r\n" % word_count


def _resp_attributes_after_id(lease: Lease) -> bytes:
    words = ["published_at_ms", lease.published_at_ms, "deliveries", 1 + sum(lease.counts), *lease.counts.nonzero()]
    return b"\r\n" + b"".join(encode(word, RESP2) for word in words)


def _attribute_count(counts: Counts) -> int:
    return 3 + len(counts.nonzero()) // 2


def json_messages(prefix: bytes, leases: Sequence[tuple[int, Lease]]) -> Generator[None, None, bytes]:
    """Encode messages, one line each; yields, and has arguments, as `resp_messages`."""
    parts = _json_plain_leases(prefix, leases)
    yield from _fill(parts, prefix, leases, _json_line, _room(leases))
    return b"".join(parts)


def json_messages_of(topics: Iterable[Received]) -> Generator[None, None, bytes]:
    """Encode messages of several topics as `json_messages` does, each with its topic as the first member."""
    lines: list[bytes] = []
    room = BYTES_IN_TURN
    for topic, prefix, leases in topics:
        parts = _json_plain_leases(prefix, leases)
        room = yield from _fill(parts, prefix, leases, _json_line, room)
        member = b'{"topic":%b,' % orjson.dumps(topic.decode())
        lines += [member + line[1:] for part in parts for line in part.splitlines(keepends=True)]
    return b"".join(lines)


def resp_messages_of(topics: Sequence[Received], protocol: int) -> Generator[None, None, bytes]:
    """Encode an array with an array of each topic: its name, and its messages as `resp_messages` encodes them."""
    encoded: list[bytes] = []
    room = BYTES_IN_TURN
    for topic, prefix, leases in topics:
        parts = _resp_plain_leases(prefix, leases, protocol)
        room = yield from _fill(parts, prefix, leases, partial(_resp_message, protocol), room)
        count = sum(lease.count for _, lease in leases)
        encoded += b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(topic), topic, count), *parts
    return b"*%d\r\n%b" % (len(topics), b"".join(encoded))


def _json_plain_leases(prefix: bytes, leases: Sequence[tuple[int, Lease]]) -> list[bytes]:
    """Encode the leases without attributes; b"" for the others."""
    return [
        _json_plain_lease(prefix, partition, lease) if lease.attributes is None else b"" for partition, lease in leases
    ]


def _json_plain_lease(prefix: bytes, partition: int, lease: Lease) -> bytes:
    counts = b"".join(b',"%b":%d' % (name.encode(), n) for name, n in lease.counts._asdict().items() if n)
    known = b'"publishedAtMs":%d,"deliveries":%d%b' % (lease.published_at_ms, 1 + sum(lease.counts), counts)
    ids = range(lease.first_seq, lease.first_seq + lease.count)
    payloads = map(_BASE64, lease.payloads)
    # Runs no Python code for each message.
    if not prefix:
        form = b'{"receipt":"","msg":"%%b","id":"%b%%d",%b}\n' % (id_prefix(partition), known)
        return b"".join(map(form.__mod__, zip(payloads, ids, strict=True)))
    form = b'{"receipt":"%b%%d","msg":"%%b","id":"%b%%d",%b}\n' % (prefix, id_prefix(partition), known)
    receipts = range(lease.receipt, lease.receipt + lease.count)
    return b"".join(map(form.__mod__, zip(receipts, payloads, ids, strict=True)))


def _json_line(described: _Described) -> bytes:
    receipt, payload, words = described
    members = as_json(words)
    assert isinstance(members, dict)
    return orjson.dumps({"receipt": receipt.decode(), "msg": _BASE64(payload).decode(), **members}) + b"\n"
