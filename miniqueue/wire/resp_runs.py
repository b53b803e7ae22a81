r"""Runs: the same command over and over, with another last argument each time. What a busy publisher sends.

Knows the framing of a command of three words and a word that the caller names. Does not know what the word means.

    *3 CRLF $7 CRLF PUBLISH CRLF $6 CRLF orders CRLF $ | 5 CRLF first  | CRLF *3 … orders CRLF $ | 6 CRLF second | CRLF
    └────────────────── head ───────────────────────┘   └── piece ──┘   └────── CRLF head ─────┘  └─── piece ──┘

Such bytes need no parser: they are split at the head. The proof that this is what a parser would have found is that
every piece is a size line and as many bytes as the line says; then each argument ends just where the next head begins.
A payload that holds a head itself yields pieces of the wrong sizes, and so no run.

A message of 10 bytes takes a quarter of the time that hiredis takes with the checks around it (`resp_reader`).
"""

import re
from typing import Final, NamedTuple

from miniqueue.wire.resp_parser import Command

#: The words and sizes of the head; the sizes are checked, since a word may hold anything but the end of a line.
_HEAD: Final = re.compile(rb"\*3\r\n\$(\d{1,2})\r\n([^\r\n]+)\r\n\$(\d{1,3})\r\n([^\r\n]+)\r\n\$")

RUN_WORDS: Final = 3


class Run(NamedTuple):
    """Commands of three words that differ in the third only.

    Attributes:
      head: the two words that they share.
      lasts: the third word of each.
    """

    head: Command
    lasts: list[bytes]


def split_run(data: bytes, words: frozenset[bytes]) -> tuple[Run, int] | None:
    """Return the run of one of `words` that `data` is, and its length: an unfinished command at the end is not in it.

    None if `data` is anything else, or if it is a run in an unusual spelling.
    """
    found = _HEAD.match(data)
    if found is None:
        return None
    word_size, word, name_size, name = found.groups()
    if word not in words or word_size != b"%d" % len(word) or name_size != b"%d" % len(name):
        return None
    head = found.group()
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


def gather_runs(commands: list[Command], words: frozenset[bytes]) -> list[Command | Run]:
    """Return the same commands, with those that are, or could be, a run of one of `words` put together."""
    gathered: list[Command | Run] = []
    open_run = Run([], [])
    for command in commands:
        if len(command) != RUN_WORDS or command[0] not in words:
            gathered.append(command)
            open_run = Run([], [])
        elif command[:2] == open_run.head:
            open_run.lasts.append(command[2])
        else:
            open_run = Run(command[:2], [command[2]])
            gathered.append(open_run)
    return gathered


def _all_of_one_size(data: bytes, head_bytes: int) -> list[bytes] | None:
    """Return the last arguments if all have the size of the first and nothing is unfinished.

    Then the size line is the same too and can be split at, which takes half the time of cutting it off each piece.
    """
    start = data.find(b"\n", head_bytes) + 1
    lasts = data[start:].split(b"\r\n" + data[:start])
    is_ended = lasts[-1].endswith(b"\r\n")  # not `data`: behind the size line of an empty argument that says nothing
    lasts[-1] = lasts[-1].removesuffix(b"\r\n")
    size_line = b"%d\r\n" % len(lasts[0])
    is_proved = size_line == data[head_bytes:start] and len(set(map(len, lasts))) == 1
    return lasts if is_proved and is_ended else None


def _without_sizes(pieces: list[bytes]) -> list[bytes] | None:
    """Cut the size line off each piece; None if one of them does not say what follows it. In C, but for the calls."""
    lengths = list(map(len, pieces))
    is_usual = max(lengths, default=0) < len(_USUAL_SIZE_LINES)
    lines = list(map(_USUAL_SIZE_LINES.__getitem__ if is_usual else _size_line, lengths))
    arguments = list(map(bytes.removeprefix, pieces, lines))  # returns the piece itself where the line is another
    if b"" in lines or sum(map(len, arguments)) + sum(map(len, lines)) != sum(lengths):
        return None
    return arguments


def _size_line(piece_bytes: int) -> bytes:
    """Return the size line with which a piece is so long; empty if none is."""
    for digits in range(1, len(str(piece_bytes)) + 1):
        line = b"%d\r\n" % max(piece_bytes - digits - 2, 0)
        if len(line) == digits + 2 <= piece_bytes:
            return line
    return b""


#: By length of the piece: looking one up takes a tenth of the time of making it.
_USUAL_SIZE_LINES: Final = tuple(map(_size_line, range(4096)))
