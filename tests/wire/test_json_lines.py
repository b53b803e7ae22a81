"""The JSON lines of SUBSCRIBE and of publishing, whole and split in every way."""

import base64
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import InvalidLineError, PayloadTooLargeError, UnavailableError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.wire.json_lines import (
    MAX_COMMAND_BYTES,
    CommandDecoder,
    LineWithOptions,
    PublishDecoder,
    encode_deliveries,
    encode_delivery,
    encode_error,
    encode_ids,
)

DECODING = "error decoding command"
NOT_A_LINE = 'a line is a JSON string or {"msg": "<base64>"}'

COMMANDS = [
    (b"", [], None),
    (b'"INIT"\n"ACK"\n', ["INIT", "ACK"], None),
    (b'"INIT" "ACK"', ["INIT", "ACK"], None),
    (b'\r\n\t "INIT""ACK""DACK 5"', ["INIT", "ACK", "DACK 5"], None),
    (rb'"\u0041\"\\" "n"', ['A"\\', "n"], None),
    ('"é☃😀"'.encode(), ["é☃😀"], None),
    (b'""', [""], None),
    (b'"INIT" "AC', ["INIT"], None),
    (b'"INIT" 5 "ACK"', ["INIT"], DECODING),
    (b"{}", [], DECODING),
    (b'["INIT"]', [], DECODING),
    (b"INIT", [], DECODING),
    (b'"a" , "b"', ["a"], DECODING),
    (rb'"a" "\q" "b"', ["a"], DECODING),
    (b'"a" "\xff" "b"', ["a"], DECODING),
    (b'"a\nb"', [], DECODING),
    (b'"' + b"x" * (MAX_COMMAND_BYTES - 2) + b'"', ["x" * (MAX_COMMAND_BYTES - 2)], None),
    (b'"a" "' + b"x" * (MAX_COMMAND_BYTES - 1) + b'"', ["a"], DECODING),
    (b'"' + b"x" * MAX_COMMAND_BYTES, [], DECODING),
]


def splits(stream):
    """Whole, byte by byte, and in two at every point (of a long one: of the points near its ends, and of some)."""
    points = [i for i in range(len(stream)) if min(i, len(stream) - i) <= 200 or i % 97 == 0]
    yield [stream]
    yield [stream[i:end] for i, end in pairwise([*points, len(stream)])]
    for i in points:
        yield [stream[:i], stream[i:]]


def decode_commands(pieces):
    decoder = CommandDecoder()
    commands = [command for piece in pieces for command in decoder.feed(piece)]
    return commands, str(decoder.error) if decoder.error else None


@pytest.mark.parametrize(("stream", "commands", "error"), COMMANDS)
def test_commands_however_split(stream, commands, error):
    for pieces in splits(stream):
        assert decode_commands(pieces) == (commands, error)


def test_no_command_is_read_after_an_error():
    assert decode_commands([b'"a" 1', b'"b"']) == (["a"], DECODING)


@given(st.lists(st.text(max_size=20)), st.integers(1, 7), st.booleans())
def test_commands_encoded_are_decoded(texts, size, ascii_only):
    stream = b"".join(json.dumps(text, ensure_ascii=ascii_only).encode() for text in texts)
    assert decode_commands(stream[i : i + size] for i in range(0, len(stream), size)) == (texts, None)


def test_delivery_leaves_out_what_is_empty():
    assert encode_delivery(b"hello", 2) == b'{"msg":"aGVsbG8=","dackCount":2}\n'
    assert encode_delivery(b"hello", 0) == b'{"msg":"aGVsbG8="}\n'
    assert encode_delivery(b"", 1) == b'{"dackCount":1}\n'
    assert encode_delivery(b"", 0) == b"{}\n"


@given(st.binary(), st.integers(0, 2**40))
def test_delivery_can_be_read_back(payload, dack_count):
    line = json.loads(encode_delivery(payload, dack_count))
    assert base64.b64decode(line.get("msg", "")) == payload
    assert line.get("dackCount", 0) == dack_count


@pytest.mark.parametrize("text", ["broken", 'a "quote"\n\x00', "é", "\udcff"])
def test_error_is_one_line(text):
    line = encode_error(UnavailableError(text))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"error": text.replace("\udcff", "?"), "code": "UNAVAILABLE"}


def test_error_names_the_topic_for_a_part():
    error = UnavailableError("topic 'orders\x1f3' has no room")
    assert encode_error(error) == b'{"error":"topic \'orders\' has no room","code":"UNAVAILABLE"}\n'


def test_ids_are_one_line_each():
    assert encode_ids(3, 9, 3) == b'{"id":"3-9"}\n{"id":"3-10"}\n{"id":"3-11"}\n'
    assert encode_ids(0, 1, 0) == b""


PUBLISHES = [
    (b"", []),
    (b"\n\r\n  \n", []),
    (b'"a"\n"b"\n', [[b"a", b"b"]]),
    (b'"a"\r\n\r\n"b"', [[b"a", b"b"]]),
    (b'""\n', [[b""]]),
    ('"é\\u00e9"\n'.encode(), [["éé".encode()]]),
    (b'"a"\n{"msg":"/wA="}\n"b"\n', [[b"a", b"\xff\x00", b"b"]]),
    (b'{"msg":""}', [[b""]]),
    (b'"a"\n{"msg":5}\n"b"\n', [[b"a"], NOT_A_LINE, [b"b"]]),
    (b"{}\n", [NOT_A_LINE]),
    (b'"a"\n{"msg":"","key":"k"}\n"b"\n', [[b"a"], LineWithOptions(b"", PublishOptions(key=b"k")), [b"b"]]),
    (b'{"msg":"","key":7}\n"b"\n', ["key has a value of a type that it cannot have", [b"b"]]),
    (b'{"key":"k"}\n', [NOT_A_LINE]),
    (b"5\nnull\n", [NOT_A_LINE, NOT_A_LINE]),
    (b'"a"\nnope\n"b"', [[b"a"], "the line is not JSON", [b"b"]]),
    (b'"a" "b"\n', ["the line is not JSON"]),
    (b'"\xff"\n', ["the line is not JSON"]),
    (b'{"msg":"a"}\n', ["msg is not base64"]),
    (b'{"msg":"aGVs bG8="}\n', ["msg is not base64"]),
    (b'{"msg":"aGVsbG8=="}\n', ["msg is not base64"]),
    ('{"msg":"é"}\n'.encode(), ["msg is not base64"]),
    (b'"0123456789"\n', [[b"0123456789"]]),
    (b'"0"\n"0123456789x"\n"1"\n', [[b"0"], 11, [b"1"]]),
    (b'"0"\n"' + b"x" * 1042 + b'"\n"1"\n', [[b"0"], 1042, [b"1"]]),
    (b'"0"\n"' + b"x" * 1043 + b'"\n"1"\n', [[b"0"], 1045, [b"1"]]),
    (b'"0"\n"1"' + b" " * 1042 + b"\n", [[b"0"], 1045]),
    (b'"' + b"x" * 3000, [3001]),
]


def decode_publishes(pieces, max_payload_bytes=10):
    """Payloads in runs, texts of bad lines, sizes of lines too large."""
    decoder = PublishDecoder(max_payload_bytes)
    results = [result for piece in pieces for result in decoder.feed(piece)] + decoder.finish()
    shown = []
    for result in results:
        if isinstance(result, list) and shown and isinstance(shown[-1], list):
            shown[-1] += result
        elif isinstance(result, InvalidLineError | InvalidOptionError):
            shown.append(str(result))
        else:
            shown.append(result.size_bytes if isinstance(result, PayloadTooLargeError) else result)
    return shown


@pytest.mark.parametrize(("stream", "results"), PUBLISHES)
def test_publishes_however_split(stream, results):
    for pieces in splits(stream):
        assert decode_publishes(pieces) == results


def test_good_lines_of_one_chunk_are_one_run():
    decoder = PublishDecoder(10)
    decoder.feed(b'"a')
    assert decoder.feed(b'b"\n"c"\n{"msg":""}\n"d"\n"e') == [[b"ab", b"c", b"", b"d"]]
    assert decoder.feed(b'"') == []
    assert decoder.finish() == [[b"e"]]
    assert decoder.finish() == []


def test_line_too_long_is_not_kept():
    decoder = PublishDecoder(10)
    for _ in range(1000):
        assert decoder.feed(b"x" * 1000) == []
        assert len(decoder._partial_line) <= decoder._max_line_bytes
    (error,) = decoder.feed(b"\n")
    assert (error.size_bytes, error.max_bytes) == (1_000_000, 10)


@given(st.lists(st.text(max_size=8) | st.binary(max_size=8)), st.integers(1, 9))
def test_publishes_encoded_are_decoded(messages, size):
    lines = (m if isinstance(m, str) else {"msg": base64.b64encode(m).decode()} for m in messages)
    stream = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    payloads = [m.encode() if isinstance(m, str) else m for m in messages]
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert decode_publishes(pieces, 100) == ([payloads] if payloads else [])


@pytest.mark.parametrize("dack_count", [0, 3])
@pytest.mark.parametrize("payloads", [[], [b"a"], [b"a", b"", b"%d"], [b"x" * 100] * 20])
def test_deliveries_with_receipts_are_those_without_plus_their_receipts(payloads, dack_count):
    lines = encode_deliveries(payloads, dack_count, 95).splitlines()
    expected = [
        {"receipt": str(receipt)} | json.loads(encode_delivery(payload, dack_count))
        for receipt, payload in enumerate(payloads, 95)
    ]
    assert [json.loads(line) for line in lines] == expected
