r"""The strict RESP command parser: the definition of what a client's bytes mean.

Knows the framing of commands and its limits. Does not know any command, any socket, or hiredis:
`resp_reader` is the fast way to the same result.

    command = "*" count CRLF count*( "$" size CRLF size*OCTET 2*OCTET )      array of bulk strings
            / LETTER *OCTET [ CR ] LF                                        inline: see `resp_inline`
            / "*0" CRLF / "*-1" CRLF / [ CR ] LF                             nothing, ignored
    count, size = decimal digits without a sign or leading zeros

    between commands --"*" count--> in a command --"$" size--> in a bulk --its bytes--> in a command
                     --a line----------------------------------(after the last one)---> between commands

Every limit is checked on the line that announces the size, before anything is kept. The two bytes after a
bulk are skipped without a look at them, exactly as Redis and hiredis do.

Sources: https://redis.io/docs/latest/develop/reference/protocol-spec/, networking.c of Redis 7 (error texts).
"""

from typing import Final, TypeAlias

from miniqueue.errors import ProtocolError
from miniqueue.wire.resp_inline import split_line

Command: TypeAlias = list[bytes]

MAX_ARGUMENTS: Final = 1_048_576  # Redis's own limit for an array from an authenticated client
MAX_PAYLOAD_BYTES: Final = 1 << 20
MAX_BULK_BYTES: Final = 512 << 20  # Redis: proto-max-bulk-len
MAX_COMMAND_BYTES: Final = 64 << 20
MAX_INLINE_BYTES: Final = 64 << 10  # Redis: PROTO_INLINE_MAX_SIZE

# No valid length line is longer ("$", at most 19 digits, CRLF), so a longer one need not be waited for.
_MAX_LENGTH_LINE_BYTES: Final = 32
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BAD_COUNT: Final = "Protocol error: invalid multibulk length"
_BAD_SIZE: Final = "Protocol error: invalid bulk length"


class Oversized(bytes):
    """Stands, empty, for an argument that was over the payload limit and was skipped.

    Attributes:
      size_bytes: how long the argument was.
    """

    size_bytes: int

    def __new__(cls, size_bytes: int) -> "Oversized":
        """Make the stand-in for an argument of `size_bytes`."""
        argument = super().__new__(cls)
        argument.size_bytes = size_bytes
        return argument


class StrictParser:
    """Turns bytes, however split, into commands; keeps no more than the limits allow.

    Args:
      max_arguments: words of one command; more is a protocol error.
      max_payload_bytes: a longer argument is skipped, and an `Oversized` stands in its place.
      max_bulk_bytes: an argument announced as longer than this is a protocol error.
      max_command_bytes: what the kept arguments of one command may add up to; more is a protocol error.
      max_inline_bytes: length of an inline command without its LF; more is a protocol error.

    Attributes:
      error: set once, when the bytes make no sense; nothing after them is read.
    """

    def __init__(
        self,
        *,
        max_arguments: int = MAX_ARGUMENTS,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        max_bulk_bytes: int = MAX_BULK_BYTES,
        max_command_bytes: int = MAX_COMMAND_BYTES,
        max_inline_bytes: int = MAX_INLINE_BYTES,
    ) -> None:
        self.error: ProtocolError | None = None
        self._max_arguments = max_arguments
        self._max_payload_bytes = max_payload_bytes
        self._max_bulk_bytes = max_bulk_bytes
        self._max_command_bytes = max_command_bytes
        self._max_inline_bytes = max_inline_bytes
        # What has been fed and not yet read. Between two feeds it holds part of a line at most, because the
        # bytes of a bulk move to `_bulk`; so joining it with the next feed costs little.
        self._buffer = b""
        self._position = 0
        self._arguments: Command | None = None  # the command under way
        self._arguments_missing = 0
        self._command_bytes = 0
        self._bulk = bytearray()  # the argument under way, as far as earlier feeds brought it
        self._bulk_bytes = 0  # its whole size
        self._bulk_bytes_missing = 0  # with the two bytes after it; 0: no argument is under way

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
        if self.error is not None:
            return None
        try:
            return self._next_command()
        except ProtocolError as error:
            self.error = error
            self._bulk.clear()
            self._buffer, self._position = b"", 0
            return None

    def all_commands(self) -> list[Command]:
        """Return all complete commands; those in front of an error are among them."""
        return list(iter(self.next_command, None))

    def _next_command(self) -> Command | None:
        while True:
            if self._arguments is None and not self._read_start():
                return None
            while self._arguments_missing:
                if not self._read_argument():
                    return None
            command, self._arguments = self._arguments, None
            if command:
                return command

    # Each _read method moves on and returns True, or returns False when it needs more bytes.

    def _read_start(self) -> bool:
        if self._position == len(self._buffer):
            return False
        first = self._buffer[self._position]
        if first == 0x2A:  # "*"
            return self._read_count()
        if first in _LETTERS or first in b"\r\n":
            return self._read_inline()
        raise _unexpected("*", first)

    def _read_count(self) -> bool:
        count = self._read_number(_BAD_COUNT, may_be_null=True)
        if count is None:
            return False
        if count > self._max_arguments:
            raise ProtocolError(_BAD_COUNT)
        self._arguments, self._arguments_missing, self._command_bytes = [], count, 0
        return True

    def _read_inline(self) -> bool:
        end = self._buffer.find(b"\n", self._position, self._position + self._max_inline_bytes + 1)
        if end < 0:
            if len(self._buffer) - self._position > self._max_inline_bytes:
                raise ProtocolError("Protocol error: too big inline request")
            return False
        line = self._buffer[self._position : end].removesuffix(b"\r")
        if line.startswith(b"\r"):
            raise _unexpected("*", line[0])
        self._arguments = split_line(line)
        if len(self._arguments) > self._max_arguments:
            raise ProtocolError(_BAD_COUNT)
        self._position = end + 1
        return True

    def _read_argument(self) -> bool:
        if not self._bulk_bytes_missing and not self._read_size():
            return False
        start = self._position
        self._position = min(start + self._bulk_bytes_missing, len(self._buffer))
        self._bulk_bytes_missing -= self._position - start
        if self._bulk_bytes > self._max_payload_bytes:
            return not self._bulk_bytes_missing and self._end_argument(Oversized(self._bulk_bytes))
        if not self._bulk_bytes_missing and not self._bulk:  # all of it came in one piece, the usual case
            return self._end_argument(self._buffer[start : self._position - 2])
        self._bulk += self._buffer[start : self._position]
        return not self._bulk_bytes_missing and self._end_argument(self._take_bulk())

    def _take_bulk(self) -> bytes:
        with memoryview(self._bulk) as view:
            argument = bytes(view[: self._bulk_bytes])
        self._bulk.clear()
        return argument

    def _end_argument(self, argument: bytes) -> bool:
        assert self._arguments is not None  # an argument is read only inside a command
        self._arguments.append(argument)
        self._arguments_missing -= 1
        return True

    def _read_size(self) -> bool:
        if self._position == len(self._buffer):
            return False
        first = self._buffer[self._position]
        if first != 0x24:  # "$"
            raise _unexpected("$", first)
        size = self._read_number(_BAD_SIZE)
        if size is None:
            return False
        self._check_size(size)
        self._bulk_bytes, self._bulk_bytes_missing = size, size + 2
        return True

    def _check_size(self, size: int) -> None:
        if size > self._max_bulk_bytes:
            raise ProtocolError(_BAD_SIZE)
        if size <= self._max_payload_bytes:
            self._command_bytes += size
        if self._command_bytes > self._max_command_bytes:
            raise ProtocolError("Protocol error: too big command")

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
