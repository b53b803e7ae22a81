"""What comes in pieces over HTTP: the commands and lines of JSON, and the pairs of a store.

Documented: `CommandDecoder.error` and the results of `PublishDecoder` are InvalidLineError or PayloadTooLargeError,
nothing is raised; `PairDecoder.feed` raises ProtocolError.
"""

import binascii
from base64 import b64decode
from random import Random
from zlib import crc32

import orjson

from miniqueue.errors import InvalidLineError, MiniqueueError, PayloadTooLargeError, ProtocolError
from miniqueue.wire import json_lines
from miniqueue.wire.json_lines import CommandDecoder, PublishDecoder
from miniqueue.wire.pair_stream import MAGIC, PairDecoder, encode_end, encode_pairs
from tests.fuzz.engine import Target, attempt, chance_of
from tests.fuzz.pieces import cut, payload, some, text

MAX_PAYLOAD_BYTES = 40
_COMMANDS = (b'"INIT"', b'"ACK"', b'"ACK 1 2"', b'"DACK 5"', b'"\\u00e9\\n"', b'"\\ud800"', b'""', b" ", b"\n", b"\t\r")
_TOKENS = (*_COMMANDS, b'{"msg":"', b'"}', b"\\u0000", b"\\ud83d\\ude00", b"[", b"{}", b"null", b"1e999", b"=", MAGIC)
_FRAME_BYTES = 8
#: Of texts around the limits: of a payload, of a line, of a command.
_LENGTHS = tuple(
    limit + step
    for limit in (MAX_PAYLOAD_BYTES, 2 * MAX_PAYLOAD_BYTES + 1024, json_lines.MAX_COMMAND_BYTES)
    for step in range(-4, 3)
)


def _make(chance: Random) -> bytes:
    match chance.randrange(3):
        case 0:
            return b"".join(some(chance, _COMMANDS, 8))
        case 1:
            return b"".join(_line(chance) for _ in range(chance.randint(0, 6)))
        case _:
            return _pair_stream(_pairs(chance))


def _line(chance: Random) -> bytes:
    if chance.random() < 1 / 20:
        return orjson.dumps("x" * chance.choice(_LENGTHS)) + b"\n"
    if chance.random() < 1 / 2:
        return orjson.dumps(text(chance)) + chance.choice((b"\n", b"\n", b"\r\n", b"\n\n"))
    return b'{"msg":"%b"}\n' % binascii.b2a_base64(payload(chance), newline=False)


def _pairs(chance: Random) -> list[list[tuple[bytes, bytes]]]:
    return [
        [(payload(chance), payload(chance)) for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(0, 3))
    ]


def _pair_stream(frames: list[list[tuple[bytes, bytes]]]) -> bytes:
    return b"".join([MAGIC, *map(encode_pairs, frames), encode_end(sum(map(len, frames)))])


def _mend(stream: bytes) -> bytes:
    """Put the checksums of the frames of a stream of pairs right."""
    mended, offset = bytearray(stream), len(MAGIC)
    while stream.startswith(MAGIC) and offset + _FRAME_BYTES <= len(stream):
        end = offset + _FRAME_BYTES + (int.from_bytes(stream[offset : offset + 4], "little") or _FRAME_BYTES)
        mended[offset + 4 : offset + 8] = crc32(stream[offset + _FRAME_BYTES : end]).to_bytes(4, "little")
        offset = end
    return bytes(mended)


def _check(stream: bytes) -> None:
    chance = chance_of(stream)
    pieces = cut(chance, stream)
    assert _commands([stream]) == _commands(pieces)
    assert _published([stream]) == _published(pieces)
    _check_pairs(stream, pieces)
    _check_round_trips(chance, stream)


def _commands(pieces: list[bytes]) -> tuple[list[str], str | None]:
    decoder = CommandDecoder()
    commands = [command for piece in pieces for command in decoder.feed(piece)]
    assert decoder.error is None or type(decoder.error) is InvalidLineError
    for command in commands:
        command.encode()  # receipts are read from its words, as bytes
    return commands, str(decoder.error) if decoder.error else None


def _published(pieces: list[bytes]) -> list[bytes | str]:
    decoder = PublishDecoder(MAX_PAYLOAD_BYTES)
    found: list[bytes | str] = []
    for result in [result for piece in pieces for result in decoder.feed(piece)] + decoder.finish():
        if isinstance(result, list):
            assert all(len(message) <= MAX_PAYLOAD_BYTES for message in result)
            found += result
        else:
            assert type(result) in (InvalidLineError, PayloadTooLargeError)
            found.append(str(result))
    return found


def _decoded(pieces: list[bytes]) -> tuple[list[tuple[bytes, bytes]], str | None, bool]:
    """Return the pairs, the error, and whether the end has come."""
    decoder = PairDecoder()
    pairs: list[tuple[bytes, bytes]] = []
    for piece in pieces:
        found = attempt(decoder.feed, piece, documented=(ProtocolError,))
        if isinstance(found, Exception):
            return pairs, str(found), False
        pairs += found
    return pairs, None, decoder.is_complete


def _check_pairs(stream: bytes, pieces: list[bytes]) -> None:
    whole, in_pieces = _decoded([stream]), _decoded(pieces)
    assert whole[2] == in_pieces[2]
    assert (whole[1] is None) == (in_pieces[1] is None)
    assert whole[0] == in_pieces[0][: len(whole[0])]  # what came before an error was taken already
    if whole[2]:
        assert _decoded([_pair_stream([whole[0]] if whole[0] else [])]) == whole


def _check_round_trips(chance: Random, content: bytes) -> None:
    messages = [content[start : start + MAX_PAYLOAD_BYTES] for start in range(0, len(content), MAX_PAYLOAD_BYTES)]
    lines = b"".join(b'{"msg":"%b"}\n' % binascii.b2a_base64(message, newline=False) for message in messages)
    assert _published(cut(chance, lines)) == messages
    delivered = json_lines.encode_deliveries(messages, chance.choice((0, 3)), 17).splitlines()
    for receipt, (line, message) in enumerate(zip(delivered, messages, strict=True), 17):
        members = orjson.loads(line)
        assert (int(members["receipt"]), b64decode(members.get("msg", ""))) == (receipt, message)
    error = json_lines.encode_error(MiniqueueError(content.decode("utf-8", "surrogateescape")))
    assert error.count(b"\n") == 1
    assert orjson.loads(error).keys() == {"error", "code"}


TARGET = Target("json_streams", _make, _check, tokens=_TOKENS, mend=_mend, quick_inputs=2000)
