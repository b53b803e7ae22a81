"""Received messages as bytes, against the plain encoders."""

import base64
from math import ceil

import orjson
import pytest

from miniqueue.core.cursor.lease import ChunkLease, ChunkProgress, Range, RecordLease
from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.message import Chunk, Counts, Record
from miniqueue.wire import receive_replies
from miniqueue.wire.attribute_words import BYTES_IN_TURN, MESSAGE_BYTES, json_name
from miniqueue.wire.resp_replies import RESP2, RESP3, array, bulk, encode
from tests.wire.support import result_of


def resp_messages(prefix: bytes, leases, protocol: int) -> bytes:
    return result_of(receive_replies.resp_messages(prefix, leases, protocol))[0]


def json_messages(prefix: bytes, leases) -> bytes:
    return result_of(receive_replies.json_messages(prefix, leases))[0]


PAYLOADS = [bytes([n % 256]) * (n % 13) for n in range(1200)]
CHUNK = ChunkProgress(Chunk(95, 1_700_000_000_000, PAYLOADS))
RETURNED = RecordLease(4000, Record(7, 5, Counts(nacks=2, timeouts=1), b"again"), Range.FRONT, 1)


def leases(receipt: int, start: int, count: int):
    return [(0, ChunkLease(receipt, CHUNK, start, count)), (3, RETURNED), (1 << 16, RETURNED)]


def described(prefix: bytes, parts):
    """Return receipt, payload and attributes of each message."""
    for partition, lease in parts:
        counts = {name: n for name, n in lease.counts._asdict().items() if n}
        for n, payload in enumerate(lease.payloads):
            receipt = b"%b%d" % (prefix, lease.receipt + n) if prefix else b""
            known = {
                "id": format_message_id(partition, lease.first_seq + n).decode(),
                "published_at_ms": lease.published_at_ms,
            }
            yield receipt, payload, known | {"deliveries": 1 + sum(counts.values())} | counts


@pytest.mark.parametrize(
    ("receipt", "start", "count"), [(1, 0, 1), (5, 0, 1200), (98, 4, 7), (999, 904, 3), (10**12 - 2, 890, 200)]
)
@pytest.mark.parametrize("prefix", [b"00ff-", b""])
def test_messages_are_what_the_plain_encoders_make_of_them(prefix, receipt, start, count):
    parts = leases(receipt, start, count)
    expected = list(described(prefix, parts))
    assert resp_messages(prefix, parts, RESP3) == encode(expected, RESP3)
    flat = [(a, b, [word for pair in known.items() for word in pair]) for a, b, known in expected]
    assert resp_messages(prefix, parts, RESP2) == encode(flat, RESP2)
    lines = json_messages(prefix, parts).splitlines()
    for line, (a, b, known) in zip(lines, expected, strict=True):
        known["publishedAtMs"] = known.pop("published_at_ms")
        assert orjson.loads(line) == {"receipt": a.decode(), "msg": base64.b64encode(b).decode()} | known


def test_nothing_is_an_empty_array_and_no_line():
    assert resp_messages(b"x-", [], RESP2) == b"*0\r\n"
    assert json_messages(b"x-", []) == b""


def test_what_a_publisher_gave_is_told_and_where_a_message_died():
    given = Attributes(
        headers=((b"colour", b"red"), (b"raw", b"\xff")),
        key=b"k",
        expires_at_ms=9,
        origin=Origin(b"orders", 0, 17, 5, 6, Counts(nacks=3), b"broken"),
    ).encode()
    chunk = ChunkProgress(Chunk(0, 5, [b"a", b"b"], 0, [b"", given]))
    parts = [(0, ChunkLease(1, chunk, 0, 2))]
    known = {"published_at_ms": 5, "deliveries": 1}
    origin = {"topic": "orders", "id": "0-17", "published_at_ms": 5, "died_at_ms": 6, "reason": "broken", "nacks": 3}
    words = {"key": "k", "expires_at_ms": 9, "headers": [["colour", "red"], ["raw", b"\xff"]], "origin": origin}
    expected = [(b"p-1", b"a", {"id": "0-0"} | known), (b"p-2", b"b", {"id": "0-1"} | known | words)]
    assert resp_messages(b"p-", parts, RESP3) == encode(expected, RESP3)
    first, second = map(orjson.loads, json_messages(b"p-", parts).splitlines())
    assert first == {"receipt": "p-1", "msg": "YQ==", "id": "0-0", "publishedAtMs": 5, "deliveries": 1}
    assert second["headers"] == [["colour", "red"], ["raw", "\ufffd"]]
    assert (second["key"], second["expiresAtMs"]) == ("k", 9)
    assert second["origin"] == {
        **{"topic": "orders", "id": "0-17", "publishedAtMs": 5, "diedAtMs": 6, "reason": "broken", "nacks": 3}
    }


def test_attributes_that_make_no_sense_do_not_hide_their_message():
    parts = [(0, ChunkLease(1, ChunkProgress(Chunk(0, 5, [b"a"], 0, [b"\x63junk"])), 0, 1))]
    (line,) = json_messages(b"p-", parts).splitlines()
    assert orjson.loads(line)["attributesError"]


def test_names_in_json_are_in_camel_case():
    names = ["id", "published_at_ms", "only_for"]
    assert list(map(json_name, names)) == ["id", "publishedAtMs", "onlyFor"]


def test_many_messages_with_attributes_are_encoded_a_few_at_a_time():
    keys = [Attributes(key=b"%02d" % n).encode() for n in range(100)]
    keyed = [(0, ChunkLease(1, ChunkProgress(Chunk(0, 1, [b"x"] * 100, attributes=keys)), 0, 100))]
    plain = leases(200, 0, 1000)
    in_turn = ceil(BYTES_IN_TURN / (MESSAGE_BYTES + len(keys[-1])))
    count = ceil(100 / in_turn)
    for work in (receive_replies.resp_messages, lambda *args: receive_replies.json_messages(*args[:2])):
        assert result_of(work(b"p-", keyed + plain, RESP3))[1] == count
        assert result_of(work(b"p-", plain, RESP3))[1] == 0
    topics = [(b"a", b"p-", keyed), (b"b", b"q-", plain), (b"c", b"r-", keyed)]
    each = [b"*2\r\n" + bulk(topic) + resp_messages(prefix, held, RESP3) for topic, prefix, held in topics]
    encoded, turns = result_of(receive_replies.resp_messages_of(topics, RESP3))
    assert turns == 199 // in_turn
    assert encoded == array(each)
    lines, turns = result_of(receive_replies.json_messages_of(topics))
    assert turns == 199 // in_turn
    assert [orjson.loads(line)["topic"] for line in lines.splitlines()] == ["a"] * 100 + ["b"] * 1002 + ["c"] * 100
