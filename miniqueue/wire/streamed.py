"""Deliveries of a stream that have attributes; those of most messages have none, and shorter ways.

    RESP   [receipt, payload, [nacks, 1, key, k, headers, [[name, value]]]]
    JSON   {"receipt":"17","msg":"<base64>","dackCount":1,"key":"k","headers":[["name","value"]]}

Knows leases, and how they are spelled. The words of attributes are those of `given`, behind what a stream tells of
every message. A plain stream over RESP has no room for them.
"""

import binascii

import orjson

from miniqueue.core.lease import Lease
from miniqueue.wire.given import as_json, given_words
from miniqueue.wire.resp_replies import RESP2, Value, encode


def resp_described(lease: Lease) -> bytes:
    """Encode the messages of a lease whose attributes are not None, each as an array, the same in both versions."""
    assert lease.attributes is not None
    counts: list[Value] = [*lease.counts.nonzero()]
    return b"".join(
        encode([b"%d" % receipt, payload, counts + [one for word in given_words(given).items() for one in word]], RESP2)
        for receipt, (payload, given) in enumerate(zip(lease.payloads, lease.attributes, strict=True), lease.receipt)
    )


def json_described(lease: Lease, *, has_receipts: bool) -> bytes:
    """Encode the messages of a lease whose attributes are not None, one line each."""
    assert lease.attributes is not None
    contents = zip(lease.payloads, lease.attributes, strict=True)
    lines = [_line(payload, lease.counts.dacks, given) for payload, given in contents]
    if has_receipts:
        lines = [{"receipt": str(receipt), **line} for receipt, line in enumerate(lines, lease.receipt)]
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def _line(payload: bytes, dack_count: int, given: bytes) -> dict[str, object]:
    line: dict[str, object] = {
        "msg": binascii.b2a_base64(payload, newline=False).decode(),
        "dackCount": dack_count,
    }
    told = as_json(given_words(given))
    assert isinstance(told, dict)
    return {name: value for name, value in line.items() if value} | told
