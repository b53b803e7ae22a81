r"""The fast RESP command reader: hiredis for what it can be trusted with, the strict parser for the rest.

Knows how to get the same commands and the same error as `resp_parser.StrictParser`, in C. Does not know any
command or socket.

hiredis parses replies and trusts its peer: `*2147483647\r\n` makes it allocate 16 GB, `$2000000000\r\n` makes
it buffer for ever, and it takes types that no command has. Hence three rules:

1. It is fed at command boundaries only and keeps nothing from one read to the next: the strict parser ends
   the command that a read leaves unfinished, be it with help (`resp_words`). So no more than one read is ever in
   its hands.
2. Before: no read with anything like the header of a long aggregate in it reaches hiredis. The header may
   stand anywhere, since hiredis takes any two bytes after a bulk; inside a payload it costs time only.
3. After: the commands, encoded again, must be the very bytes that were read, up to the unfinished rest. That
   proves that they are arrays of bulk strings, each with CRLF behind it, and where the rest begins.

    at a boundary --read--> a run? --no--> alike? --no--> rule 2 --> hiredis --> rule 3 --> all used: at a boundary
                              |              |              |          |error      |no        |a rest
                              v              v              v          v           v          v
                        `resp_runs`    `resp_alike`     strict parser, the whole read     strict parser, to the end of
                                                                                          that command

What the strict parser reads takes ten times as long, and a client can see to it that it reads all. So a read can be
bounded; the rest is read when the caller has let others have their turn (`is_stopped`).

Sources: read.c of hiredis 1.3 (types, lengths, when it allocates).
"""

import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import hiredis

from miniqueue.errors import ProtocolError
from miniqueue.wire.resp_alike import split_alike
from miniqueue.wire.resp_limits import USUAL, Limits
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_runs import RUN_WORDS, Run, gather_runs, split_run
from miniqueue.wire.resp_words import FAILURES, NOTHING, SwiftParser, encode_words, may_allocate, new_reader

# hiredis keeps the buffer of its last read; after a larger one it is replaced, or silent connections hold it.
_MAX_KEPT_BYTES: Final = 16 << 10
_MAX_PIECES: Final = 8  # that are read together: those of a long argument, or of empty lines
_MANY: Final = 16  # arguments; with fewer, looking for something in common does not pay
# A command of one word is seldom longer, and one is kept for each connection.
_MAX_WORD_BYTES: Final = 32


class CommandReader:
    """Turns what a client sends, however split, into commands.

    Args:
      limits: what a command may be, see `StrictParser`.
      run_words: commands of three words that are returned as runs: a `Run`, also of one, for each sequence of commands
        that differ in the last word only. In capitals or not, as spelt here.
      max_strict_words: as many words, and one command more, are read strictly at a time.
      max_read_bytes: as much is read at a time, if it is not a run; more, where no command ends in it.

    Attributes:
      error: what made no sense in the bytes read, after which nothing is read; None as long as all is well.
      is_stopped: whether it may have more bytes than it has read; then `read` must be called again, be it with none.
    """

    def __init__(
        self,
        limits: Limits = USUAL,
        *,
        run_words: frozenset[bytes] = frozenset(),
        max_strict_words: int = sys.maxsize,
        max_read_bytes: int = sys.maxsize,
    ) -> None:
        self._strict = SwiftParser(limits)
        self._limits = limits
        self._max_strict_words = max_strict_words
        self._max_read_bytes = max_read_bytes
        self._pieces: deque[bytes] = deque()  # of a read, behind what the strict parser has
        self._is_strict_stopped = False
        self._run_words = run_words if limits.max_words >= RUN_WORDS else frozenset()
        self.error: ProtocolError | None = None
        self.is_stopped = False
        self._hiredis = new_reader()
        self._opening, self._opened_bytes = b"", -1  # of what was read last, up to what may be another; its length
        self._head: Command = []  # of a run of one; empty if it was a command of one word
        self._word = b""

    def read(self, data: bytes) -> list[Command | Run]:
        """Return the commands that `data` completes, in order; those before an `error` are among them."""
        self._opened_bytes = -1
        if self._pieces:
            return self._read_on(data)
        if self._strict.is_idle:
            commands = self._read_at_boundary(data)
            if len(data) <= _MAX_WORD_BYTES:
                self._remember_word(data, commands)
            return commands
        self._strict.feed(data)
        self.is_stopped = False
        command = self._strict.step()
        self.error = self._strict.error
        if command is None:
            return []
        rest = self._read_at_boundary(self._strict.take_rest())
        return [*gather_runs([command], self._run_words), *rest] if command else rest

    def read_again(self, data: bytes) -> Command | Run | None:
        """Return the one command that `data` is, if all that was read last was its like; else None: `read` it then.

        That is a run of one, or a command of one word that is the same.
        """
        if len(data) != self._opened_bytes or not data.startswith(self._opening):
            return None
        if not self._head:
            return [self._word]
        # A quarter of the time of `Run()`, which this is.
        return tuple.__new__(Run, (self._head, [data[len(self._opening) : -2]])) if data.endswith(b"\r\n") else None

    def keep(self, data: bytes) -> None:
        """Have `data` read when `read` is called next."""
        self._opened_bytes = -1
        if self._pieces:
            self._pieces.extend(self._cut(data))
        else:
            self._strict.feed(data)
        self.is_stopped = True

    def _remember_word(self, data: bytes, commands: list[Command | Run]) -> None:
        """Keep a command of one word, and how it was spelled.

        A consumer says the same after each message. To know it again costs a tenth of what reading it does.
        """
        if len(commands) == 1 and isinstance(commands[0], list) and len(commands[0]) == 1 and self._strict.is_idle:
            self._opening, self._opened_bytes = data, len(data)
            self._head, self._word = [], commands[0][0]

    def _remember_run(self, run: Run, data: bytes) -> None:
        """Keep how a run of one begins: a publisher that waits for each reply sends its like again.

        What begins so and has the same length has a last argument of the same size, whatever that holds.
        """
        self._opening, self._opened_bytes = data[: -2 - len(run.lasts[0])], len(data)
        self._head = run.head

    def _read_at_boundary(self, data: bytes) -> list[Command | Run]:
        if len(data) <= self._limits.max_bulk_bytes and (found := split_run(data, self._run_words)):
            run, size_bytes = found
            if size_bytes < len(data):
                return [run, *self._read_others(data[size_bytes:])]
            if len(run.lasts) == 1:
                self._remember_run(run, data)
            return [run]
        return self._read_others(data)

    def _read_others(self, data: bytes) -> list[Command | Run]:
        if len(data) > self._max_read_bytes:
            return self._read_in_pieces(data)
        return gather_runs(self._read_commands(data), self._run_words)

    def _read_in_pieces(self, data: bytes) -> list[Command | Run]:
        self._pieces = deque(self._cut(data))
        return self._read_on(b"")

    def _read_on(self, data: bytes) -> list[Command | Run]:
        """Read piece by piece until a command ends, but not for long."""
        pieces, self._pieces = self._pieces, deque()
        pieces.extend(self._cut(data))
        for _ in range(_MAX_PIECES):
            commands = self.read(b"" if self._is_strict_stopped else pieces.popleft())
            self._is_strict_stopped = self.is_stopped
            if commands or not pieces or self.error is not None:
                break
        self._opened_bytes = -1  # a piece may be a run of one
        if self.error is None:
            self._pieces = pieces
        self.is_stopped = self._is_strict_stopped or bool(self._pieces)
        return commands

    def _cut(self, data: bytes) -> list[bytes]:
        size = self._max_read_bytes
        return [data[start : start + size] for start in range(0, len(data), size)]

    def _read_commands(self, data: bytes) -> list[Command]:
        if found := split_alike(data, self._limits):
            command, size_bytes = found
            return [command] if size_bytes == len(data) else [command, *self._read_any(data[size_bytes:])]
        return self._read_any(data)

    def _read_any(self, data: bytes) -> list[Command]:
        if not data.startswith(b"*") or may_allocate(data) or len(data) > self._limits.max_command_bytes:
            return self._read_strictly(data)
        return self._read_by_hiredis(data)

    def _read_by_hiredis(self, data: bytes) -> list[Command]:
        reader = self._hiredis
        try:
            reader.feed(data)
            commands: list[Command] = list(iter(reader.gets, NOTHING))
            encoded = _encode(commands)
        except FAILURES:
            encoded, commands = b"", []
        if encoded != data or len(data) > _MAX_KEPT_BYTES:
            self._hiredis = new_reader()
        if not data.startswith(encoded) or not self._are_within_limits(commands, len(data)):
            return self._read_strictly(data)
        if not all(commands):  # `*0` asks for nothing
            commands = list(filter(None, commands))
        if len(encoded) < len(data):
            commands += self._read_strictly(data[len(encoded) :])
        return commands

    def _read_strictly(self, data: bytes) -> list[Command]:
        self._strict.feed(data)
        commands: list[Command] = []
        words_left = self._max_strict_words
        while words_left > 0 and (command := self._strict.step()) is not None:
            words_left -= 1 + len(command)
            if command:
                commands.append(command)
        self.error, self.is_stopped = self._strict.error, words_left <= 0
        return commands

    def _are_within_limits(self, commands: list[Command], read_bytes: int) -> bool:
        """Check what a read of this size could exceed; with the usual limits and reads, nothing."""
        if read_bytes > self._limits.max_bulk_bytes:
            longest = max(map(len, chain.from_iterable(commands)), default=0)
            if longest > self._limits.max_bulk_bytes:
                return False
        return self._limits.max_words > 999 or max(map(len, commands), default=0) <= self._limits.max_words


def _encode(commands: list[Command]) -> bytes:
    if len(commands) == 1 and len(commands[0]) >= _MANY:
        [command] = commands
        return b"*%d\r\n%b%b" % (len(command), encode_words(command[:1]), encode_words(command[1:]))
    tuples: Iterator[tuple[Any, ...]] = map(tuple, commands)
    return b"".join(map(hiredis.pack_command, tuples))
