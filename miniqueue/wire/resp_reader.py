r"""The fast RESP command reader: hiredis for bytes that are safe for it, the strict parser for the rest.

It returns the same commands and the same error as `resp_parser.StrictParser`.

hiredis parses replies and trusts its peer: `*2147483647\r\n` makes it allocate 16 GB, `$2000000000\r\n` makes it buffer
without end, and it accepts types that no command has. Hence three rules:

1. It reads only from command boundaries on, and keeps nothing from one read to the next: the strict parser finishes the
   command that a read leaves unfinished (`resp_words`). So hiredis has at most one read in memory.
2. Before hiredis: it gets no read that contains anything like the header of a long aggregate. The header may be
   anywhere, since hiredis accepts any two bytes after a bulk string; inside a payload it only costs time.
3. After hiredis: the commands, encoded again, must equal the bytes that were read, up to the unfinished rest. That
   proves that they are arrays of bulk strings, each followed by CRLF, and where the rest begins.

    at a boundary --read--> a run? --no--> uniform? --no--> rule 2 --> hiredis --> rule 3 --> all used: at a boundary
                              |              |                |          |error      |no        |a rest
                              v              v                v          v           v          v
                        `split_run`    `split_uniform`    strict parser, the whole read     strict parser, to the end
                                                                                            of that command

The strict parser takes ten times as long, and a client can cause it to read everything. So a read can be bounded; the
caller reads the rest after other clients had their turn (`is_stopped`).

Sources: read.c of hiredis 1.3 (types, lengths, when it allocates).

A run consists of commands of three words that differ only in the last one, as a busy publisher sends them.

    *3 CRLF $7 CRLF PUBLISH CRLF $6 CRLF orders CRLF $ | 5 CRLF first  | CRLF *3 … orders CRLF $ | 6 CRLF second | CRLF
    └────────────────── head ───────────────────────┘   └── piece ──┘   └────── CRLF head ─────┘  └─── piece ──┘

Such bytes need no parser: they are split at the head. The result is that of a parser, because every piece must be a
size line followed by that number of bytes; then each argument ends exactly where the next head begins. A payload that
contains a head yields pieces of wrong sizes, and so no run.

A message of 10 bytes costs a quarter of the time of hiredis with its checks.

A read that consists of MULTI, one run, and EXEC needs no parser either: clients send a transaction as a whole.

Uniform commands have many words of the same size: consumers send them to settle many messages at once.

    *102 CRLF $3 CRLF ACK CRLF $6 CRLF orders | CRLF $19 CRLF | first | CRLF $19 CRLF | second | CRLF $19 CRLF | … CRLF
              └─────────── head ────────────┘   └── line ───┘           └──── line ───┘          └──── line ───┘

Such bytes need no parser, because the words are at fixed distances. The result is that of a parser, since the words,
joined by the line between them, must equal the bytes that were read.

A receipt costs half the time of hiredis with its checks.
"""

import re
import struct
import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import hiredis

from miniqueue.errors import ProtocolError
from miniqueue.wire.resp_limits import USUAL, Limits
from miniqueue.wire.resp_parser import FAILURES, NOTHING, Command, SwiftParser, encode_words, may_allocate, new_reader
from miniqueue.wire.resp_replies import size_lines

#: The words and sizes of the head. The sizes must be checked: a word may contain anything except an end of line.
_HEAD: Final = re.compile(rb"\*3\r\n\$(\d{1,2})\r\n([^\r\n]+)\r\n\$(\d{1,3})\r\n([^\r\n]+)\r\n\$")

#: Number of words of a command in a run.
RUN_WORDS: Final = 3


class Run(NamedTuple):
    """Commands of three words that differ only in the third one.

    Attributes:
      head: the two words that they share.
      lasts: the third word of each command.
    """

    head: Command
    lasts: list[bytes]


class RunTransaction(NamedTuple):
    """MULTI, a run, and EXEC.

    Attributes:
      first: MULTI.
      run: what is between.
      last: EXEC.
    """

    first: Command
    run: Run
    last: Command


#: A command, or commands that are carried out together.
Parsed: TypeAlias = Command | Run | RunTransaction

#: MULTI and EXEC, as clients spell them.
_MULTIS: Final = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$5\r\nmulti\r\n"
_EXECS: Final = b"*1\r\n$4\r\nEXEC\r\n", b"*1\r\n$4\r\nexec\r\n"


def encode_run(run: Run) -> bytes:
    """Return the commands of a run as a client sends them, joined in C."""
    if len(run.lasts) == 1:  # fast path: a client that waits for each reply
        words: tuple[Any, ...] = (*run.head, run.lasts[0])
        packed: bytes = hiredis.pack_command(words)
        return packed
    head, lines = b"\r\n*3\r\n" + encode_words(run.head)[:-2], size_lines(run.lasts)
    if len(set(lines)) == 1:
        opening = head + lines[0]
        return b"%b%b\r\n" % (opening[2:], opening.join(run.lasts))
    pieces = [head] * (3 * len(run.lasts))
    pieces[1::3], pieces[2::3] = lines, run.lasts
    return b"".join([*pieces, b"\r\n"])[2:]


def split_run(data: bytes, words: frozenset[bytes]) -> tuple[Run, int] | None:
    """Return the run of one of `words` that `data` consists of, and its length without an unfinished last command.

    Returns None if `data` is anything else, including a run in an unusual form.
    """
    match = _HEAD.match(data)
    if match is None:
        return None
    word_size, word, name_size, name = match.groups()
    if word not in words or word_size != b"%d" % len(word) or name_size != b"%d" % len(name):
        return None
    head = match.group()
    if lasts := _all_of_one_size(data, len(head)):
        return Run([word, name], lasts), len(data)
    *pieces, last = data[len(head) :].split(b"\r\n" + head)
    lasts = _without_sizes(pieces)
    if lasts is None:
        return None
    end = len(data)
    if last[-2:] == b"\r\n" and (argument := _without_sizes([last[:-2]])):
        lasts += argument
    else:
        end -= len(head) + len(last)
    return (Run([word, name], lasts), end) if lasts else None


def split_transaction(data: bytes, words: frozenset[bytes]) -> RunTransaction | None:
    """Return MULTI, a run of one of `words`, and EXEC if `data`, which ends with EXEC, consists of these."""
    if not data.startswith(_MULTIS):
        return None
    inner = data[len(_MULTIS[0]) : -len(_EXECS[0])]
    result = split_run(inner, words)
    if result is None or result[1] < len(inner):
        return None
    return RunTransaction([data[8:13]], result[0], [data[-6:-2]])


def gather_runs(commands: list[Command], words: frozenset[bytes]) -> list[Parsed]:
    """Return the commands, with each sequence that is a run of one of `words` replaced by a `Run`."""
    gathered: list[Parsed] = []
    head: Command = []  # what the commands of the current run share; empty between runs
    lasts: list[bytes] = []
    for command in commands:
        if len(command) != RUN_WORDS or command[0] not in words:
            gathered.append(command)
            head = []
        elif command[:2] == head:
            lasts.append(command[2])
        else:
            head, lasts = command[:2], command[2:]
            gathered.append(Run(head, lasts))
    return gathered


def _all_of_one_size(data: bytes, head_bytes: int) -> list[bytes] | None:
    """Return the last words if all have the same size and the last command is complete; None otherwise.

    Then the size lines are equal, too, and part of the separator, which takes half the time of removing each.
    """
    start = data.find(b"\n", head_bytes) + 1
    lasts = data[start:].split(b"\r\n" + data[:start])
    is_ended = lasts[-1].endswith(b"\r\n")  # not `data`: it also ends so after the size line of an empty last word
    lasts[-1] = lasts[-1].removesuffix(b"\r\n")
    size_line = b"%d\r\n" % len(lasts[0])
    is_proved = size_line == data[head_bytes:start] and len(set(map(len, lasts))) == 1
    return lasts if is_proved and is_ended else None


def _without_sizes(pieces: list[bytes]) -> list[bytes] | None:
    """Remove the size line of each piece, without Python code per piece; return None if a size line is wrong."""
    lengths = list(map(len, pieces))
    is_usual = max(lengths, default=0) < len(_USUAL_SIZE_LINES)
    lines = list(map(_USUAL_SIZE_LINES.__getitem__ if is_usual else _size_line, lengths))
    arguments = list(map(bytes.removeprefix, pieces, lines))  # the sum of sizes shows whether each had its prefix
    if b"" in lines or sum(map(len, arguments)) + sum(map(len, lines)) != sum(lengths):
        return None
    return arguments


def _size_line(piece_bytes: int) -> bytes:
    """Return the size line of a piece of this length, line included; b"" if there is none."""
    for digits in range(1, len(str(piece_bytes)) + 1):
        line = b"%d\r\n" % max(piece_bytes - digits - 2, 0)
        if len(line) == digits + 2 <= piece_bytes:
            return line
    return b""


#: The size lines by length of the piece: a lookup takes a tenth of the time of `_size_line`.
_USUAL_SIZE_LINES: Final = tuple(map(_size_line, range(4096)))


#: A command up to the line of its second uniform word; the words before that line contain no end of line.
_BEGINNING: Final = re.compile(
    rb"\*([1-9]\d{1,3})((?:\r\n\$\d{1,3}\r\n[^\r\n]*+){1,2}?)(\r\n\$(\d{1,7})\r\n)[^\r\n]*+\3"
)
#: Minimum number of words from which on `split_uniform` is faster than hiredis.
_MANY_UNIFORM: Final = 16


def split_uniform(data: bytes, limits: Limits) -> tuple[Command, int] | None:
    """Return the command of many words of one size that `data` begins with, and its length.

    One or two words of any size come first. Returns None if `data` begins with anything else, including such a command
    in an unusual form, or one over the limits.
    """
    beginning = _BEGINNING.match(data)
    if beginning is None:
        return None
    head, line = beginning[2].split(b"\r\n")[2::2], beginning[3]
    count, size = int(beginning[1]) - len(head), int(beginning[4])
    start, step = beginning.end(3), size + len(line)
    end = start + step * count - len(line)
    is_within = len(head) + count <= limits.max_words and max(size, *map(len, head)) <= limits.max_bulk_bytes
    if count < _MANY_UNIFORM or not is_within or not end + 2 <= len(data) <= limits.max_command_bytes:
        return None
    words = struct.unpack_from(f"{size}s{len(line)}x" * (count - 1) + f"{size}s", data, start)
    if line.join(words) + b"\r\n" != data[start : end + 2] or line != b"\r\n$%d\r\n" % size:
        return None
    return ([*head, *words], end + 2) if _encode_head(head) == beginning[2] else None


def _encode_head(head: Command) -> bytes:
    return b"".join([b"\r\n$%d\r\n%b" % (len(word), word) for word in head])


#: Maximum size of a read after which the reader of hiredis is kept: it keeps the buffer of its last read, and the
#: buffers of idle connections would add up.
_MAX_KEPT_BYTES: Final = 16 << 10
#: Maximum number of pieces to read at once that complete no command: parts of a long argument, or empty lines.
_MAX_PIECES: Final = 8
#: Minimum number of words for which encoding words of one size together is faster.
_MANY: Final = 16
#: Maximum size of a remembered command of one word; few are longer, and each connection remembers one.
_MAX_WORD_BYTES: Final = 32


class CommandReader:
    """Turns the bytes of a client, however split, into commands.

    Args:
      limits: the limits of a command.
      run_words: commands of three words, case-sensitive, that are returned as runs: each sequence of commands that
        differ only in the last word becomes a `Run`, even a sequence of one.
      max_strict_words: the number of words after which the strict parser stops, at the end of a command.
      max_read_bytes: maximum size to read at a time, except of runs, and of pieces that complete no command.

    Attributes:
      error: the error in the bytes read so far, after which nothing is read; None if there is none.
      is_stopped: whether there may be unread bytes; then `read` must be called again, if necessary without bytes.
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
        self._pieces: deque[bytes] = deque()  # unread pieces, after the bytes of the strict parser
        self._is_strict_stopped = False
        self._run_words = run_words if limits.max_words >= RUN_WORDS else frozenset()
        self.error: ProtocolError | None = None
        self.is_stopped = False
        self._hiredis = new_reader()
        # For `read_again`: the last read without its last word, its length, and its words: either the head of a run of
        # one command, or a single word.
        self._opening, self._opened_bytes = b"", -1
        self._head: Command = []
        self._word = b""

    def read(self, data: bytes) -> list[Parsed]:
        """Return the commands that `data` completes, in order, including those before an `error`."""
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
        """Return the command of `data` if it repeats the last read; None: the caller must call `read` instead.

        A repetition is the same command of one word, or a run of one with the same head and size.
        """
        if len(data) != self._opened_bytes or not data.startswith(self._opening):
            return None
        if not self._head:
            return [self._word]
        # The same as `Run()`, in a quarter of the time.
        return tuple.__new__(Run, (self._head, [data[len(self._opening) : -2]])) if data.endswith(b"\r\n") else None

    def keep(self, data: bytes) -> None:
        """Store `data` for the next call of `read`."""
        self._opened_bytes = -1
        if self._pieces:
            self._pieces.extend(self._cut(data))
        else:
            self._strict.feed(data)
        self.is_stopped = True

    def unread_bytes(self) -> int:
        """Return how much is stored of the bytes that have not become commands, unfinished ones included."""
        return sum(map(len, self._pieces)) + self._strict.stored_bytes()

    def _remember_word(self, data: bytes, commands: list[Parsed]) -> None:
        """Remember a command of one word with its bytes.

        A consumer sends the same command after each message; comparing the bytes costs a tenth of reading them.
        """
        if len(commands) == 1 and isinstance(commands[0], list) and len(commands[0]) == 1 and self._strict.is_idle:
            self._opening, self._opened_bytes = data, len(data)
            self._head, self._word = [], commands[0][0]

    def _remember_run(self, run: Run, data: bytes) -> None:
        """Remember the head of a run of one: a publisher that waits for each reply often repeats it.

        Bytes with the same beginning and length have a last word of the same size, whatever its content.
        """
        self._opening, self._opened_bytes = data[: -2 - len(run.lasts[0])], len(data)
        self._head = run.head

    def _read_at_boundary(self, data: bytes) -> list[Parsed]:
        if len(data) <= self._limits.max_bulk_bytes:
            if result := split_run(data, self._run_words):
                run, size_bytes = result
                if size_bytes < len(data):
                    return [run, *self._read_others(data[size_bytes:])]
                if len(run.lasts) == 1:
                    self._remember_run(run, data)
                return [run]
            if data.endswith(_EXECS) and (transaction := split_transaction(data, self._run_words)):
                return [transaction]
        return self._read_others(data)

    def _read_others(self, data: bytes) -> list[Parsed]:
        if len(data) > self._max_read_bytes:
            return self._read_in_pieces(data)
        return gather_runs(self._read_commands(data), self._run_words)

    def _read_in_pieces(self, data: bytes) -> list[Parsed]:
        self._pieces = deque(self._cut(data))
        return self._read_on(b"")

    def _read_on(self, data: bytes) -> list[Parsed]:
        """Read piece by piece until a command is complete, but at most `_MAX_PIECES`."""
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
        if result := split_uniform(data, self._limits):
            command, size_bytes = result
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
        if not all(commands):  # `*0` is ignored
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
        """Whether no command is over a limit; with the usual limits and sizes of reads none can be."""
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
