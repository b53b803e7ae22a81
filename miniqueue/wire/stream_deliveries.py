"""Deliveries of a stream with attributes; most messages have none, and are encoded faster elsewhere.

    RESP   [receipt, payload, [nacks, 1, key, k, headers, [[name, value]]]]
    JSON   {"receipt":"17","msg":"<base64>","dackCount":1,"key":"k","headers":[["name","value"]]}

The attributes (`attribute_words`) follow what a stream contains of every message. The replies of a plain stream over
RESP cannot contain attributes.
"""

import binascii
from itertools import chain

import orjson

from miniqueue.core.cursor.lease import Lease
from miniqueue.wire.attribute_words import as_json, attribute_words
from miniqueue.wire.resp_replies import RESP2, Value, encode


def resp_described(lease: Lease) -> bytes:
    """Encode the messages of a lease whose attributes are not None, each as an array, the same in both versions."""
    assert lease.attributes is not None
    counts: list[Value] = [*lease.counts.nonzero()]
    contents = zip(lease.payloads, lease.attributes, strict=True)
    return b"".join(
        encode([b"%d" % receipt, payload, [*counts, *chain.from_iterable(attribute_words(attributes).items())]], RESP2)
        for receipt, (payload, attributes) in enumerate(contents, lease.receipt)
    )


def json_described(lease: Lease, *, has_receipts: bool) -> bytes:
    """Encode the messages of a lease whose attributes are not None, one line each."""
    assert lease.attributes is not None
    contents = zip(lease.payloads, lease.attributes, strict=True)
    lines = [_line(payload, lease.counts.dacks, attributes) for payload, attributes in contents]
    if has_receipts:
        lines = [{"receipt": str(receipt), **line} for receipt, line in enumerate(lines, lease.receipt)]
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def _line(payload: bytes, dack_count: int, attributes: bytes) -> dict[str, object]:
    line: dict[str, object] = {
        "msg": binascii.b2a_base64(payload, newline=False).decode(),
        "dackCount": dack_count,
    }
    members = as_json(attribute_words(attributes))
    assert isinstance(members, dict)
    return {name: value for name, value in line.items() if value} | members
