r"""The strict RESP command parser: it defines what the bytes of a client mean; `resp_reader` is faster.

    command = "*" count CRLF count*( "$" size CRLF size*OCTET CRLF )         array of bulk strings
            / LETTER *OCTET [ CR ] LF                                        inline: see `resp_inline`
            / "*0" CRLF / "*-1" CRLF / [ CR ] LF                             ignored
    count, size = decimal digits without a sign or leading zeros

    between commands --"*" count--> in a command --"$" size--> in a bulk --its bytes, CRLF--> in a command
                     --a line----------------------------------(after the last one)---------> between commands

Each limit is checked on the line that announces the size, before anything is stored. Redis and hiredis skip the two
bytes after a bulk string unread; this parser checks them, so that a wrong size does not swallow the next command.

Sources: https://redis.io/docs/latest/develop/reference/protocol-spec/, networking.c of Redis 7 (error texts).

`SwiftParser` reads the words of long commands in C, because a command of 2,000 words may have megabytes:

    $5\r\nhello\r\n $5\r\nworld\r\n … $5\r\nhel      complete words, and the rest, for the strict parser

hiredis reads the words one by one, each as a reply of its own, by the rules of `resp_reader`: it keeps nothing, reads
nothing that could be the header of a long aggregate, and its result, encoded again, must equal the bytes. Otherwise, or
if a limit is exceeded, the strict parser reads the words and reports the error. It takes five times as long.
"""

import re
from itertools import islice
from typing import Final, TypeAlias

import hiredis

from miniqueue.errors import ForeignProtocolError, ProtocolError
from miniqueue.wire.resp_inline import is_foreign, is_request_line, split_line
from miniqueue.wire.resp_limits import USUAL, Limits

Command: TypeAlias = list[bytes]

#: What an argument uses in memory beyond its size.
WORD_BYTES: Final = 48
#: Maximum length of a length line: "$", at most 19 digits, CRLF. The parser does not wait for the end of a longer one.
_MAX_LENGTH_LINE_BYTES: Final = 32
# Empty lines are read together, because that is fast, but at most 256, so that other clients do not wait.
_EMPTY_LINES: Final = re.compile(rb"(?:\r?+\n){1,256}+")
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BAD_COUNT: Final = "Protocol error: invalid multibulk length"
_BAD_SIZE: Final = "Protocol error: invalid bulk length"


class StrictParser:
    """Turns bytes, however split, into commands; stores no more than the limits allow.

    Args:
      limits: the limits of a command; a command over them is a protocol error.

    Attributes:
      error: the first error; nothing after it is read.
      is_idle: whether all bytes have been read, no command is unfinished, and there was no error.
    """

    def __init__(self, limits: Limits = USUAL) -> None:
        self.error: ProtocolError | None = None
        self.is_idle = True
        self._limits = limits
        # The bytes that were fed and not read. Between two feeds it contains at most part of a line, unless the caller
        # stopped reading before its end; the bytes of a bulk move to `_bulk`. So joining it and the next feed is cheap.
        self._buffer = b""
        self._position = 0
        self._arguments: Command | None = None  # the unfinished command
        self._arguments_missing = 0
        self._command_bytes = 0
        self._bulk = bytearray()  # the part of the unfinished argument that earlier feeds contained
        self._bulk_bytes_missing = 0  # includes the CRLF after the argument; 0: no argument is unfinished

    def feed(self, data: bytes) -> None:
        """Add bytes of the client; the caller must read the commands (`next_command`) before it feeds more."""
        if self.error is None:
            self._buffer = self.take_rest() + data
            self.is_idle = False

    def take_rest(self) -> bytes:
        """Return and forget the unread bytes; call it only between two commands."""
        rest = self._buffer[self._position :]
        self._buffer, self._position = b"", 0
        self.is_idle = self._arguments is None and self.error is None
        return rest

    def stored_bytes(self) -> int:
        """Return how much is stored of unread bytes and of an unfinished command."""
        size_bytes = len(self._buffer) - self._position
        if self._arguments is None:
            return size_bytes
        return size_bytes + self._command_bytes - self._bulk_bytes_missing + WORD_BYTES * (1 + len(self._arguments))

    def next_command(self) -> Command | None:
        """Return the next complete command, of one word or more; None: feed more bytes, unless `error` is set."""
        while (command := self.step()) is not None:
            if command:
                return command
        return None

    def all_commands(self) -> list[Command]:
        """Return all complete commands, including those before an error."""
        return list(iter(self.next_command, None))

    def step(self) -> Command | None:
        """Return the next command, which is empty for an ignored line; None if there is no complete one."""
        if self.error is not None:
            return None
        try:
            command = self._step()
        except ProtocolError as error:
            self.error = error
            self._bulk.clear()
            self._buffer, self._position = b"", 0
            return None
        self.is_idle = self._arguments is None and self._position == len(self._buffer)
        return command

    def _step(self) -> Command | None:
        if self._arguments is None and not self._read_start():
            return None
        if not self._read_arguments():
            return None
        command, self._arguments = self._arguments, None
        return command

    # Each _read method advances and returns True, or returns False if it needs more bytes.

    def _read_start(self) -> bool:
        if self._position == len(self._buffer):
            return False
        first = self._buffer[self._position]
        if first == 0x2A:  # "*"
            return self._read_count()
        if empty := _EMPTY_LINES.match(self._buffer, self._position):
            self._arguments, self._position = [], empty.end()
            return True
        if first in _LETTERS or first == 0x0D:
            return self._read_inline()
        if first == 0x16:  # a TLS record of a handshake
            raise ForeignProtocolError
        raise _unexpected("*", first)

    def _read_count(self) -> bool:
        count = self._read_number(_BAD_COUNT, may_be_null=True)
        if count is None:
            return False
        if count > self._limits.max_words_of_many:
            raise self._bad_count()
        self._arguments, self._arguments_missing, self._command_bytes = [], count, 0
        return True

    def _read_inline(self) -> bool:
        if is_foreign(self._buffer, self._position, self._limits.inline_words):
            raise ForeignProtocolError
        max_bytes = self._limits.max_inline_bytes
        end = self._buffer.find(b"\n", self._position, self._position + max_bytes + 1)
        if end < 0:
            if len(self._buffer) - self._position > max_bytes:
                raise ProtocolError("Protocol error: too big inline request")
            return False
        line = self._buffer[self._position : end].removesuffix(b"\r")
        if line.startswith(b"\r"):
            raise _unexpected("*", line[0])
        if is_request_line(line):
            raise ForeignProtocolError
        self._arguments = split_line(line, self._limits.inline_words)
        if len(self._arguments) > self._limits.max_words:
            raise self._bad_count()
        self._position = end + 1
        return True

    def _read_arguments(self) -> bool:
        while self._arguments_missing:
            if not self._read_argument():
                return False
        return True

    def _read_argument(self) -> bool:
        if not self._bulk_bytes_missing and not self._read_size():
            return False
        start = self._position
        self._position = min(start + self._bulk_bytes_missing, len(self._buffer))
        self._bulk_bytes_missing -= self._position - start
        if not self._bulk_bytes_missing and not self._bulk:  # fast path: the whole argument came in one piece
            end = self._position - 2
            self._end_argument(self._buffer[start:end], self._buffer[end : end + 2])
            return True
        self._bulk += self._buffer[start : self._position]
        if self._bulk_bytes_missing:
            return False
        with memoryview(self._bulk) as view:
            self._end_argument(bytes(view[:-2]), bytes(view[-2:]))
        self._bulk.clear()
        return True

    def _end_argument(self, argument: bytes, terminator: bytes) -> None:
        assert self._arguments is not None  # an argument is read only inside a command
        if terminator != b"\r\n":
            raise ProtocolError("Protocol error: expected CRLF after a bulk string")
        self._arguments.append(argument)
        self._arguments_missing -= 1
        if self._arguments_missing >= self._limits.max_words and len(self._arguments) == 1:
            self._check_name(argument)

    def _check_name(self, name: bytes) -> None:
        """Raise an error for too many words, as soon as the name of the command is known."""
        if name.upper() not in self._limits.many_words:
            raise self._bad_count()

    def _bad_count(self) -> ProtocolError:
        return ProtocolError(f"Protocol error: {self._limits.bad_count}")

    def _read_size(self) -> bool:
        if self._position == len(self._buffer):
            return False
        first = self._buffer[self._position]
        if first != 0x24:  # "$"
            raise _unexpected("$", first)
        size = self._read_number(_BAD_SIZE)
        if size is None:
            return False
        self._command_bytes += size
        is_too_long = size > self._limits.max_bulk_bytes and not self._is_packed()
        if is_too_long or self._command_bytes > self._limits.max_command_bytes:
            raise ProtocolError(_BAD_SIZE)
        self._bulk_bytes_missing = size + 2
        return True

    def _is_packed(self) -> bool:
        """Whether the command may have words of the size of a command."""
        name = self._arguments[0] if self._arguments else b""
        return name.upper() in self._limits.packed_words

    def _read_number(self, text_if_bad: str, *, may_be_null: bool = False) -> int | None:
        """Read a length line from its type byte on; return None if its end is missing, and 0 for "-1" (null)."""
        limit = self._position + _MAX_LENGTH_LINE_BYTES
        end = self._buffer.find(b"\r\n", self._position, limit)
        if end < 0 and len(self._buffer) < limit:
            return None
        digits = self._buffer[self._position + 1 : end]
        self._position = end + 2
        if digits.isdigit() and end > 0 and (digits[0] != 0x30 or len(digits) == 1):
            return int(digits)
        if may_be_null and digits == b"-1":
            return 0
        raise ProtocolError(text_if_bad)


def _unexpected(expected: str, byte: int) -> ProtocolError:
    return ProtocolError(f"Protocol error: expected '{expected}', got {chr(byte)!a}")


#: Means "not enough data": hiredis can produce None and False as values.
NOTHING: Final = object()
#: The errors of hiredis: its own; a list as the key of a map, or a word that is not bytes; too large; too deep.
FAILURES: Final = (hiredis.HiredisError, TypeError, MemoryError, RecursionError)
#: With fewer missing words, or fewer bytes, hiredis takes longer than it saves.
_MANY: Final = 16
_MIN_BYTES: Final = 128
# With lengths of three digits, 1,024 nested arrays, the maximum of hiredis, need 8 MB while one read is parsed.
_LONG_ARRAY: Final = re.compile(rb"\*\d{4}")  # one literal first byte, so the search is as fast as memchr
_LONG_AGGREGATE: Final = re.compile(rb"[%~>|]\d{4}")


class SwiftParser(StrictParser):
    """Reads the same commands as `StrictParser`, with the same errors, in less time."""

    def _read_arguments(self) -> bool:
        if self._arguments_missing > _MANY and len(self._buffer) - self._position > _MIN_BYTES:
            is_within = self._bulk_bytes_missing or not self._arguments  # the strict parser checks the name
            if is_within and not self._read_argument():
                return False
            self._read_complete_arguments()
        return super()._read_arguments()

    def _read_complete_arguments(self) -> None:
        data = self._buffer[self._position :]
        words = [] if may_allocate(data) else _complete_words(data, self._arguments_missing)
        if not words:
            return
        sizes = list(map(len, words))
        size_bytes = sum(sizes)
        if max(sizes) > self._limits.max_bulk_bytes:
            return
        if self._command_bytes + size_bytes > self._limits.max_command_bytes:
            return
        encoded = encode_words(words)
        if data.startswith(encoded):
            assert self._arguments is not None  # words are read only within a command
            self._arguments += words
            self._arguments_missing -= len(words)
            self._command_bytes += size_bytes
            self._position += len(encoded)


def new_reader() -> hiredis.Reader:
    """Return a reader of hiredis that returns `NOTHING` if it needs more bytes."""
    return hiredis.Reader(notEnoughData=NOTHING)


def may_allocate(data: bytes) -> bool:
    """Return whether hiredis could find the header of a long aggregate, and allocate memory for its elements."""
    if _LONG_ARRAY.search(data):
        return True
    has_other = b"%" in data or b"~" in data or b">" in data or b"|" in data
    return has_other and _LONG_AGGREGATE.search(data) is not None


def encode_command(words: Command) -> bytes:
    """Encode a command as a client sends it: an array of bulk strings."""
    return b"*%d\r\n%b" % (len(words), encode_words(words))


def encode_words(words: Command) -> bytes:
    """Encode words as bulk strings, without an array; raises one of `FAILURES` if a word is not bytes."""
    sizes = set(map(len, words))
    if len(sizes) == 1:  # fast path, for receipts: takes a third of the time
        opening = b"\r\n$%d\r\n" % sizes.pop()
        return b"%b%b\r\n" % (opening[2:], opening.join(words))
    headers = {size: b"\r\n$%d\r\n" % size for size in sizes}
    pieces = [b"\r\n"] * (2 * len(words) + 1)
    pieces[:-1:2] = map(headers.__getitem__, map(len, words))
    pieces[1::2] = words
    return b"".join(pieces)[2:]


def _complete_words(data: bytes, max_count: int) -> Command:
    """Return the complete words at the beginning of `data`; none if the bytes are invalid."""
    reader = new_reader()
    try:
        reader.feed(data)
        words = list(islice(iter(reader.gets, NOTHING), max_count))
    except FAILURES:
        return []
    return words if set(map(type, words)) == {bytes} else []
