r"""The strict RESP command parser: the definition of what a client's bytes mean.

Knows the framing of commands and its limits. Does not know any command, any socket, or hiredis:
`resp_reader` is the fast way to the same result.

    command = "*" count CRLF count*( "$" size CRLF size*OCTET CRLF )         array of bulk strings
            / LETTER *OCTET [ CR ] LF                                        inline: see `resp_inline`
            / "*0" CRLF / "*-1" CRLF / [ CR ] LF                             nothing, ignored
    count, size = decimal digits without a sign or leading zeros

    between commands --"*" count--> in a command --"$" size--> in a bulk --its bytes, CRLF--> in a command
                     --a line----------------------------------(after the last one)---------> between commands

Every limit is checked on the line that announces the size, before anything is kept. Redis and hiredis skip the
two bytes after a bulk without a look at them; here a size that was miscounted is told from the next command.

Sources: https://redis.io/docs/latest/develop/reference/protocol-spec/, networking.c of Redis 7 (error texts).
"""

import re
from typing import Final, TypeAlias

from miniqueue.errors import ForeignProtocolError, ProtocolError
from miniqueue.wire.resp_inline import is_foreign, is_request_line, split_line
from miniqueue.wire.resp_limits import USUAL, Limits

Command: TypeAlias = list[bytes]

# No valid length line is longer ("$", at most 19 digits, CRLF), so a longer one need not be waited for.
_MAX_LENGTH_LINE_BYTES: Final = 32
_EMPTY_LINES: Final = re.compile(rb"(?:\r?+\n){1,256}+")  # together, for they are quick to read, but not all at once
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BAD_COUNT: Final = "Protocol error: invalid multibulk length"
_BAD_SIZE: Final = "Protocol error: invalid bulk length"


class StrictParser:
    """Turns bytes, however split, into commands; keeps no more than the limits allow.

    Args:
      limits: what a command may be; more is a protocol error.

    Attributes:
      error: set once, when the bytes make no sense; nothing after them is read.
    """

    def __init__(self, limits: Limits = USUAL) -> None:
        self.error: ProtocolError | None = None
        self._limits = limits
        # What has been fed and not yet read. Between two feeds it holds part of a line at most, unless reading
        # stopped before its end; the bytes of a bulk move to `_bulk`. So joining it with the next feed costs little.
        self._buffer = b""
        self._position = 0
        self._arguments: Command | None = None  # the command under way
        self._arguments_missing = 0
        self._command_bytes = 0
        self._bulk = bytearray()  # the argument under way, as far as earlier feeds brought it
        self._bulk_bytes_missing = 0  # with the CRLF after it; 0: no argument is under way

    @property
    def is_idle(self) -> bool:
        """Whether everything fed has been read, no command is under way and there was no error."""
        return self._arguments is None and self._position == len(self._buffer) and self.error is None

    def feed(self, data: bytes) -> None:
        """Add bytes from the peer. Read the commands (`next_command`) before feeding more."""
        if self.error is None:
            self._buffer = self.take_rest() + data

    def take_rest(self) -> bytes:
        """Return, and forget, what was fed and not yet read. To be called between two commands."""
        rest = self._buffer[self._position :]
        self._buffer, self._position = b"", 0
        return rest

    def next_command(self) -> Command | None:
        """Return the next complete command (one word or more), or None: feed more, unless `error` is set."""
        while (command := self.step()) is not None:
            if command:
                return command
        return None

    def all_commands(self) -> list[Command]:
        """Return all complete commands; those in front of an error are among them."""
        return list(iter(self.next_command, None))

    def step(self) -> Command | None:
        """Return what comes next, an empty list for what asks for nothing, such as an empty line; else None."""
        if self.error is not None:
            return None
        try:
            return self._step()
        except ProtocolError as error:
            self.error = error
            self._bulk.clear()
            self._buffer, self._position = b"", 0
            return None

    def _step(self) -> Command | None:
        if self._arguments is None and not self._read_start():
            return None
        if not self._read_arguments():
            return None
        command, self._arguments = self._arguments, None
        return command

    # Each _read method moves on and returns True, or returns False when it needs more bytes.

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
        if not self._bulk_bytes_missing and not self._bulk:  # all of it came in one piece, the usual case
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
        """Refuse so many words to a command that is not made for them, as soon as it is known."""
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
        """Whether the command may have words of whatever size."""
        name = self._arguments[0] if self._arguments else b""
        return name.upper() in self._limits.packed_words

    def _read_number(self, text_if_bad: str, *, may_be_null: bool = False) -> int | None:
        """Read a length line, type byte first; None when its end has not come. "-1" (null) counts as 0."""
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


def _unexpected(expected: str, found: int) -> ProtocolError:
    return ProtocolError(f"Protocol error: expected '{expected}', got {chr(found)!a}")
