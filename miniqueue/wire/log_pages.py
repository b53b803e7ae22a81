"""Pages of a log, for both protocols.

    RESP   [0-17, payload, [published_at_ms, 1700000000000, key, k]]    version 3 has a map in place of the inner array
    JSON   {"id":"0-17","msg":"<base64>","publishedAtMs":1700000000000,"key":"k"}

A page consists of runs, each of one commit. The attributes of a message follow its time (`attribute_words`). In RESP
the messages of a run are joined in C, five pieces each:

    *3 $n id-without-its-end │ end of id │ $n │ payload │ time and attributes
"""

import binascii
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from miniqueue.core.message.attributes import sole_key
from miniqueue.core.message.ids import format_message_id, id_prefix
from miniqueue.core.message.message import Chunk
from miniqueue.core.message.numerals import numeral_runs
from miniqueue.wire.attribute_words import BYTES_IN_TURN, MESSAGE_BYTES, as_json, attribute_words
from miniqueue.wire.json_parts import json_part
from miniqueue.wire.resp_replies import Value, encode, integer, map_of, size_lines

_BASE64: Final = partial(binascii.b2a_base64, newline=False)
_PIECES: Final = 5


def resp_runs(partition: int, runs: Sequence[Chunk], protocol: int) -> Generator[None, None, bytes]:
    """Encode the messages of runs as one array; yield each time that enough has been encoded for one iteration.

    Args:
      partition: the lane of the messages.
      runs: chunks, or parts of them.
      protocol: the version of RESP.
    """
    count = sum([len(run.payloads) for run in runs])
    parts: list[bytes] = []
    for some in _turns(runs):
        if parts:
            yield
        parts += [_resp_run(partition, run, protocol) for run in some]
    return b"*%d\r\n%b" % (count, b"".join(parts))


def json_runs(partition: int, runs: Sequence[Chunk]) -> Generator[None, None, bytes]:
    """Encode the messages of runs as one JSON array; yield as `resp_runs` does."""
    messages: list[bytes] = []
    for some in _turns(runs):
        if messages:
            yield
        messages += [message for run in some for message in _json_run(partition, run)]
    return b"[%b]" % b",".join(messages)


def _turns(runs: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Cut runs into as many messages as one iteration of the event loop may encode."""
    some, room = list[Chunk](), BYTES_IN_TURN
    for run in runs:
        start = 0
        for stop, size in enumerate(map(len, run.attributes or ()), start=1):
            room -= MESSAGE_BYTES + size
            if room <= 0:
                yield [*some, _part(run, start, stop)]
                some, room, start = [], BYTES_IN_TURN, stop
        if start < len(run.payloads):
            some.append(_part(run, start, len(run.payloads)))
            room -= MESSAGE_BYTES
    if some:
        yield some


def _part(run: Chunk, start: int, stop: int) -> Chunk:
    if stop - start == len(run.payloads):
        return run
    attributes = None if run.attributes is None else run.attributes[start:stop]
    return Chunk(run.first_seq + start, run.committed_at_ms, run.payloads[start:stop], 0, attributes)


def _resp_run(partition: int, run: Chunk, protocol: int) -> bytes:
    pieces: list[bytes] = [b""] * (_PIECES * len(run.payloads))
    _write_ids(pieces, partition, run)
    pieces[2::_PIECES] = size_lines(run.payloads)
    pieces[3::_PIECES] = run.payloads
    pieces[4::_PIECES] = _resp_descriptions(run, protocol)
    return b"".join(pieces)


def _write_ids(pieces: list[bytes], partition: int, run: Chunk) -> None:
    """Write the id of each message to `pieces`, as a bulk string whose end is a piece of its own."""
    position, prefix = 0, id_prefix(partition)
    for beginning, endings in numeral_runs(run.first_seq, run.end_seq):
        stop = position + _PIECES * len(endings)
        start = prefix + beginning
        pieces[position:stop:_PIECES] = [b"*3\r\n$%d\r\n%b" % (len(start) + len(endings[0]), start)] * len(endings)
        pieces[position + 1 : stop : _PIECES] = endings
        position = stop


def _resp_descriptions(run: Chunk, protocol: int) -> list[bytes]:
    """Return the time and the attributes of each message, after the end of its payload."""
    time = encode("published_at_ms", protocol), integer(run.committed_at_ms)
    if run.attributes is None:
        return [b"\r\n" + map_of([time], protocol)] * len(run.payloads)
    keyed = b"\r\n" + map_of([time, (encode("key", protocol), b"")], protocol)  # the key follows
    return [
        b"%b$%d\r\n%b\r\n" % (keyed, len(key), key)
        if (key := sole_key(attributes))
        else b"\r\n" + encode(_words(run, attributes), protocol)
        for attributes in run.attributes
    ]


def _words(run: Chunk, attributes: bytes) -> dict[Value, Value]:
    return {"published_at_ms": run.committed_at_ms, **attribute_words(attributes)}


def _json_run(partition: int, run: Chunk) -> Iterable[bytes]:
    seqs = range(run.first_seq, run.end_seq)
    if run.attributes is None:
        form = b'{"id":"%b%%d","msg":"%%b","publishedAtMs":%d}' % (id_prefix(partition), run.committed_at_ms)
        return map(form.__mod__, zip(seqs, map(_BASE64, run.payloads), strict=True))
    return [
        _json_message(partition, run, seq, payload, attributes)
        for seq, payload, attributes in zip(seqs, run.payloads, run.attributes, strict=True)
    ]


def _json_message(partition: int, run: Chunk, seq: int, payload: bytes, attributes: bytes) -> bytes:
    members = as_json(_words(run, attributes))
    assert isinstance(members, dict)
    message_id = format_message_id(partition, seq).decode()
    return json_part({"id": message_id, "msg": _BASE64(payload).decode(), **members})
