"""Messages read from a log, as they are spelled: quickly joined, and as the plain encoders would."""

import binascii

import orjson
import pytest

from miniqueue.core.message.attributes import Attributes
from miniqueue.core.message.message import Chunk
from miniqueue.wire import log_pages
from miniqueue.wire.resp_replies import RESP2, RESP3, encode
from tests.wire.support import result_of

GIVEN = Attributes(headers=((b"h", b"v"),), key=b"k").encode()


def resp_runs(*args):
    return result_of(log_pages.resp_runs(*args))[0]


def json_runs(*args):
    return result_of(log_pages.json_runs(*args))[0]


def plainly(partition, runs, protocol):
    """Encode one value after the other."""
    messages = [
        [b"%d-%d" % (partition, run.first_seq + n), payload, {"published_at_ms": run.committed_at_ms}]
        for run in runs
        for n, payload in enumerate(run.payloads)
    ]
    return encode(messages, protocol)


@pytest.mark.parametrize("protocol", [RESP2, RESP3])
@pytest.mark.parametrize(
    "runs",
    [
        [],
        [Chunk(0, 5, [b"a"])],
        [Chunk(8, 5, [b"a", b"", b"ccc", b"\r\n"])],
        [Chunk(95, 5, [b"x" * n for n in range(20)]), Chunk(115, 6, [b"y"])],
        [Chunk(998, 1_700_000_000_000, [b"x"] * 5), Chunk(10**15 + 998, 1_700_000_000_001, [b"yy"] * 1005)],
    ],
)
def test_plain_messages_are_what_the_encoder_makes_of_them(runs, protocol):
    assert resp_runs(3, runs, protocol) == plainly(3, runs, protocol)
    assert orjson.loads(json_runs(3, runs)) == [
        {
            "id": f"3-{run.first_seq + n}",
            "msg": binascii.b2a_base64(payload, newline=False).decode(),
            "publishedAtMs": run.committed_at_ms,
        }
        for run in runs
        for n, payload in enumerate(run.payloads)
    ]


def test_messages_with_attributes_have_them():
    run = Chunk(7, 5, [b"a", b"b"], 0, [b"", GIVEN])
    assert resp_runs(0, [run], RESP2) == encode(
        [
            [b"0-7", b"a", ["published_at_ms", 5]],
            [b"0-8", b"b", ["published_at_ms", 5, "key", b"k", "headers", [[b"h", b"v"]]]],
        ],
        RESP2,
    )
    assert orjson.loads(json_runs(0, [run])) == [
        {"id": "0-7", "msg": "YQ==", "publishedAtMs": 5},
        {"id": "0-8", "msg": "Yg==", "publishedAtMs": 5, "key": "k", "headers": [["h", "v"]]},
    ]


@pytest.mark.parametrize("protocol", [RESP2, RESP3])
def test_messages_with_a_key_and_nothing_else_are_what_the_encoder_makes_of_them(protocol):
    keys = [b"k", b"", b"\r\n", b"x" * 300]
    run = Chunk(998, 5, [b"a"] * len(keys), 0, [Attributes(key=key).encode() for key in keys])
    assert resp_runs(3, [run], protocol) == encode(
        [
            [b"3-%d" % (998 + n), b"a", {"published_at_ms": 5} | ({"key": key} if key else {})]
            for n, key in enumerate(keys)
        ],
        protocol,
    )


def test_a_key_that_is_longer_than_what_is_there_is_told():
    run = Chunk(7, 5, [b"a"], 0, [Attributes(key=b"abc").encode()[:-1]])
    assert b"attributes_error" in resp_runs(0, [run], RESP3)


def test_attributes_that_cannot_be_read_are_told():
    run = Chunk(7, 5, [b"a"], 0, [b"\xff"])
    (message,) = orjson.loads(json_runs(0, [run]))
    assert (message["msg"], "attributesError" in message) == ("YQ==", True)


def test_messages_with_attributes_are_encoded_a_few_at_a_time():
    headers = tuple((b"name-%d" % n, b"value") for n in range(40))
    attributes = [Attributes(headers=headers).encode()] * 30 + [b""] * 70
    runs = [Chunk(5, 1, [b"x"] * 100, 0, attributes), Chunk(105, 2, [b"y"] * 1000)]
    whole, turns = result_of(log_pages.resp_runs(0, runs, RESP3))
    each = [resp_runs(0, [Chunk(5 + n, 1, [b"x"], 0, [attributes[n]])], RESP3) for n in range(100)]
    assert whole == b"*1100\r\n" + b"".join(one.partition(b"\r\n")[2] for one in [*each, resp_runs(0, runs[1:], RESP3)])
    lines, also = result_of(log_pages.json_runs(0, runs))
    assert [message["id"] for message in orjson.loads(lines)] == [f"0-{n}" for n in range(5, 1105)]
    assert turns == also
    assert turns > 5
    assert result_of(log_pages.resp_runs(0, runs[1:], RESP3))[1] == 0
