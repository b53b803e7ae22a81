r"""JSON lines over HTTP: the commands and deliveries of a subscription, and batches of messages.

Streams may be split anywhere.

    subscribe, in   "INIT" "ACK"\n"DACK 5"                 JSON strings, with or without blanks between them
    subscribe, out  {"msg":"<base64>","dackCount":n}\n     an empty member, or a count of 0, is omitted: {}\n
                    {"receipt":"17","msg":"<base64>"}\n    with a prefetch
    publish, in     "text"\n or {"msg":"<base64>"}\n       one message a line; blank lines are ignored
    publish, out    {"id":"<partition>-<seq>"}\n           one line for each input line
    both, out       {"error":"text","code":"WORD"}\n

Publishing works on lists, because an object per line would cost more than the line: a decoder returns runs of payloads,
interrupted by an error for each invalid line.
"""

import binascii
import re
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from miniqueue.core.message.ids import id_prefix
from miniqueue.core.message.numerals import numeral_runs
from miniqueue.core.message.parts import without_parts
from miniqueue.core.options.publish import PublishOptions, parse_members
from miniqueue.errors import InvalidLineError, MiniqueueError, PayloadTooLargeError, RequestError

#: Maximum size of a command of a subscription: room for two thousand receipts.
MAX_COMMAND_BYTES: Final = 16 << 10


class LineWithOptions(NamedTuple):
    """A line with options in addition to the payload."""

    payload: bytes
    options: PublishOptions


#: A run of payloads of plain lines, a line with options, or the error of an invalid line.
PublishResult: TypeAlias = list[bytes] | LineWithOptions | RequestError

#: How a line begins that says what became of a command on the stream of a part.
ANSWER_START: Final = b'{"answer":'
_BASE64: Final = partial(binascii.b2a_base64, newline=False)

_BLANKS: Final = b" \t\r\n"
_STRING: Final = re.compile(rb'[ \t\r\n]*+("(?:[^"\\]|\\.)*+")', re.DOTALL)


class CommandDecoder:
    """Finds the JSON strings in a stream, as Go's `json.Decoder` does.

    Attributes:
      error: the error of the first value that is no JSON string or is over 16 KiB; nothing after it is read.
    """

    def __init__(self) -> None:
        self.error: InvalidLineError | None = None
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the strings that `chunk` completes, including those before an `error`."""
        commands: list[str] = []
        if self.error is not None:
            return commands
        buffer, position = self._rest + chunk, 0
        try:
            while string := _STRING.match(buffer, position):
                commands.append(_decode_command(string[1]))
                position = string.end()
            self._rest = _check_unfinished(buffer[position:].lstrip(_BLANKS))
        except InvalidLineError as error:
            self.error = error.detached()
            self._rest = b""
        return commands


def _decode_command(string: bytes) -> str:
    if len(string) <= MAX_COMMAND_BYTES:
        try:
            return str(orjson.loads(string))
        except orjson.JSONDecodeError as exc:
            raise InvalidLineError("error decoding command") from exc
    raise InvalidLineError("error decoding command")


def _check_unfinished(rest: bytes) -> bytes:
    # A string of exactly the maximum size has its closing quote, so an unfinished one of that size is over the limit.
    if (rest and not rest.startswith(b'"')) or len(rest) >= MAX_COMMAND_BYTES:
        raise InvalidLineError("error decoding command")
    return rest


def encode_delivery(payload: bytes, dack_count: int) -> bytes:
    """Encode one delivery as a line; `dack_count` is the number of returns of the message by DACK."""
    return b"{%b}\n" % b",".join(_members(payload, dack_count))


def encode_deliveries(payloads: list[bytes], dack_count: int, first_receipt: int) -> bytes:
    """Encode deliveries with consecutive receipts, one line each."""
    receipts = range(first_receipt, first_receipt + len(payloads))
    if dack_count or not all(payloads):
        return b"".join(map(_encode_with_receipt, receipts, payloads, repeat(dack_count)))
    # Fast path: runs no Python code for each message.
    fill_in = b'{"receipt":"%d","msg":"%b"}\n'.__mod__
    return b"".join(map(fill_in, zip(receipts, map(_BASE64, payloads), strict=True)))


def _encode_with_receipt(receipt: int, payload: bytes, dack_count: int) -> bytes:
    return b"{%b}\n" % b",".join([b'"receipt":"%d"' % receipt, *_members(payload, dack_count)])


def _members(payload: bytes, dack_count: int) -> list[bytes]:
    members = []
    if payload:
        members.append(b'"msg":"%b"' % _BASE64(payload))
    if dack_count:
        members.append(b'"dackCount":%d' % dack_count)
    return members


def error_members(error: MiniqueueError) -> dict[str, object]:
    """Return the members that show an error over HTTP; its text names topics as clients know them, and no part."""
    return {"error": without_parts(str(error)).encode("utf-8", "replace").decode(), "code": error.code}


def encode_error(error: MiniqueueError) -> bytes:
    """Encode an error as a line."""
    return orjson.dumps(error_members(error)) + b"\n"


def encode_answer(error: MiniqueueError | None) -> bytes:
    """Encode what became of a command on the stream of a part as a line; None: it was carried out."""
    return ANSWER_START + (b"null" if error is None else encode_error(error)[:-1]) + b"}\n"


def encode_id(message_id: bytes, *, is_duplicate: bool) -> bytes:
    """Encode the id of one message as a line; `is_duplicate` means that it is the id of an earlier message."""
    return b'{"id":"%b"%b}\n' % (message_id, b',"duplicate":true' if is_duplicate else b"")


def encode_ids(partition: int, first_seq: int, count: int) -> bytes:
    """Encode the ids of `count` messages with consecutive sequence numbers, one line each."""
    lines: list[bytes] = []
    for beginning, endings in numeral_runs(first_seq, first_seq + count):
        start = b'{"id":"%b%b' % (id_prefix(partition), beginning)
        lines += start, (b'"}\n' + start).join(endings), b'"}\n'
    return b"".join(lines)


def max_line_bytes(max_payload_bytes: int) -> int:
    """Return the maximum size of a line: room for a payload of the maximum size, its options, and its encoding."""
    return 2 * max_payload_bytes + 1024


class PublishDecoder:
    """Turns the lines of a publish request, however split, into payloads.

    A line that is too long for any payload is not stored: it is skipped, and replaced by an error.

    Args:
      max_payload_bytes: maximum size of a payload; a larger one is an error of its line.
    """

    def __init__(self, max_payload_bytes: int) -> None:
        self._max_payload_bytes = max_payload_bytes
        self._max_line_bytes = max_line_bytes(max_payload_bytes)
        self._partial_line = bytearray()
        self._skipped_bytes = 0  # the size so far of a line that is too long to store; 0: the line is stored

    def feed(self, chunk: bytes) -> list[PublishResult]:
        """Return the results of the lines that `chunk` completes, in order."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        first_end = chunk.find(b"\n")
        self._keep(chunk[:first_end])
        results = self._end_line()
        results += self._decode_lines(chunk[first_end + 1 : end + 1].split(b"\n")[:-1])
        self._keep(chunk[end + 1 :])
        return _join_runs(results)

    def finish(self) -> list[PublishResult]:
        """Return the result of the last line, if it has no newline; call it at the end of the request."""
        return self._end_line()

    def _keep(self, part: bytes) -> None:
        if self._skipped_bytes or len(self._partial_line) + len(part) > self._max_line_bytes:
            self._skipped_bytes += len(self._partial_line) + len(part)
            self._partial_line.clear()
        else:
            self._partial_line += part

    def _end_line(self) -> list[PublishResult]:
        if self._skipped_bytes:
            too_large = PayloadTooLargeError(self._skipped_bytes, self._max_payload_bytes)
            self._skipped_bytes = 0
            return [too_large]
        line = bytes(self._partial_line)
        self._partial_line.clear()
        return self._decode_lines([line])

    def _decode_lines(self, lines: list[bytes]) -> list[PublishResult]:
        try:
            payloads = list(map(str.encode, map(orjson.loads, lines)))  # raises TypeError unless all are strings
        except (orjson.JSONDecodeError, TypeError):
            return self._decode_one_by_one(lines)
        longest_payload, longest_line = max(map(len, payloads), default=0), max(map(len, lines), default=0)
        if longest_payload > self._max_payload_bytes or longest_line > self._max_line_bytes:
            return self._decode_one_by_one(lines)
        return [payloads] if payloads else []

    def _decode_one_by_one(self, lines: list[bytes]) -> list[PublishResult]:
        return _join_runs([self._decode_line(line) for line in lines if line.strip(_BLANKS)])

    def _decode_line(self, line: bytes) -> PublishResult:
        try:
            if len(line) > self._max_line_bytes:
                raise PayloadTooLargeError(len(line), self._max_payload_bytes)
            payload, members = _content_of(line)
            if len(payload) > self._max_payload_bytes:
                raise PayloadTooLargeError(len(payload), self._max_payload_bytes)
            return LineWithOptions(payload, parse_members(members)) if members else [payload]
        except RequestError as error:
            return error.detached()


def _content_of(line: bytes) -> tuple[bytes, dict[str, object]]:
    """Return the payload and the other members of a line."""
    try:
        value: Any = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("the line is not JSON") from exc
    if isinstance(value, str):
        return value.encode(), {}
    if not (isinstance(value, dict) and isinstance(payload := value.pop("msg", None), str)):
        raise InvalidLineError('a line is a JSON string or {"msg": "<base64>"}')
    try:
        return binascii.a2b_base64(payload, strict_mode=True), value
    except ValueError as exc:  # binascii.Error is one, and so is text that is not ASCII
        raise InvalidLineError("msg is not base64") from exc


def _join_runs(results: list[PublishResult]) -> list[PublishResult]:
    """Join adjacent runs."""
    joined: list[PublishResult] = []
    for result in results:
        if isinstance(result, list) and joined and isinstance(joined[-1], list):
            joined[-1] += result
        else:
            joined.append(result)
    return joined
