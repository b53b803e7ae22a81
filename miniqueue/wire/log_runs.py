"""Messages read from a log, as both protocols carry them.

    RESP   [0-17, payload, [published_at_ms, 1700000000000, key, k]]    version 3 has a map in place of the inner array
    JSON   {"id":"0-17","msg":"<base64>","publishedAtMs":1700000000000,"key":"k"}

They come in runs, each of one commit. What a publisher gave a message follows (`given`); runs in which no message has
any are joined in C, four pieces a message:

    end of the message before *3 $n id-but-its-end │ end of id │ $n │ payload
"""

import binascii
from collections.abc import Iterable
from functools import partial
from typing import Final

import orjson

from miniqueue.core.message import Chunk
from miniqueue.core.message_id import format_message_id, id_prefix
from miniqueue.core.numerals import spell
from miniqueue.wire.given import as_json, given_words
from miniqueue.wire.resp_replies import RESP3, Value, encode

_BASE64: Final = partial(binascii.b2a_base64, newline=False)
_PIECES: Final = 4


def resp_runs(partition: int, runs: Iterable[Chunk], protocol: int) -> bytes:
    """Encode the messages of runs as one array.

    Args:
      partition: of the messages.
      runs: chunks, or parts of them.
      protocol: the version of RESP.
    """
    parts = [(len(run.payloads), _resp_run(partition, run, protocol)) for run in runs]
    return b"*%d\r\n%b" % (sum(count for count, _ in parts), b"".join(part for _, part in parts))


def json_runs(partition: int, runs: Iterable[Chunk]) -> bytes:
    """Encode the messages of runs as one JSON array."""
    return b"[%b]" % b",".join([message for run in runs for message in _json_run(partition, run)])


def _resp_run(partition: int, run: Chunk, protocol: int) -> bytes:
    if run.attributes is None:
        return _resp_plain_run(partition, run, protocol)
    messages = zip(range(run.first_seq, run.end_seq), run.payloads, run.attributes, strict=True)
    return b"".join(
        encode([format_message_id(partition, seq), payload, _words(run, given)], protocol)
        for seq, payload, given in messages
    )


def _words(run: Chunk, given: bytes) -> dict[Value, Value]:
    return {"published_at_ms": run.committed_at_ms, **given_words(given)}


def _resp_plain_run(partition: int, run: Chunk, protocol: int) -> bytes:
    sizes = list(map(len, run.payloads))
    headers = {size: b"\r\n$%d\r\n" % size for size in set(sizes)}
    opening = b"%1" if protocol == RESP3 else b"*2"
    last = b"\r\n%b\r\n$15\r\npublished_at_ms\r\n:%d\r\n" % (opening, run.committed_at_ms)
    pieces: list[bytes] = [b""] * (_PIECES * len(sizes))
    pieces[2::_PIECES] = map(headers.__getitem__, sizes)
    pieces[3::_PIECES] = run.payloads
    _spell_ids_into(pieces, last + b"*3\r\n", partition, run)
    pieces[0] = pieces[0].removeprefix(last)
    return b"".join([*pieces, last])


def _spell_ids_into(pieces: list[bytes], opening: bytes, partition: int, run: Chunk) -> None:
    """Write `opening`, then the id of each message as a bulk string, whose end is a piece of its own."""
    position, prefix = 0, id_prefix(partition)
    for beginning, endings in spell(run.first_seq, run.end_seq):
        stop = position + _PIECES * len(endings)
        start = prefix + beginning
        pieces[position:stop:_PIECES] = [b"%b$%d\r\n%b" % (opening, len(start) + len(endings[0]), start)] * len(endings)
        pieces[position + 1 : stop : _PIECES] = endings
        position = stop


def _json_run(partition: int, run: Chunk) -> Iterable[bytes]:
    seqs = range(run.first_seq, run.end_seq)
    if run.attributes is None:
        form = b'{"id":"%b%%d","msg":"%%b","publishedAtMs":%d}' % (id_prefix(partition), run.committed_at_ms)
        return map(form.__mod__, zip(seqs, map(_BASE64, run.payloads), strict=True))
    return [
        _json_message(partition, run, seq, payload, given)
        for seq, payload, given in zip(seqs, run.payloads, run.attributes, strict=True)
    ]


def _json_message(partition: int, run: Chunk, seq: int, payload: bytes, given: bytes) -> bytes:
    told = as_json(_words(run, given))
    assert isinstance(told, dict)
    message_id = format_message_id(partition, seq).decode()
    return orjson.dumps({"id": message_id, "msg": _BASE64(payload).decode(), **told})
