"""Files and directories in two states: what the process sees, and what a sync has made durable. Pure.

What lies between the two is *pending*, and a power cut decides over it:

    drop     none of the bytes that were not synced are there
    tear     the bytes up to any place are there; or any pages of them, and others not
    zero     as tear, and the file has its full length: zeroes where bytes are missing
    strict   as drop; and of the names that were made, moved or removed in a directory since it was synced only the
             first few changes are there, or none (in the other modes all are)

Strict goes with drop: that a file has grown is a change of names and sizes too, and no file system in use makes it
durable before the changes that came before it.

Sources: ALICE (OSDI 2014) and LevelDB's fault_injection_test.cc for what file systems may do; POSIX for what fsync
of a directory promises.
"""

from collections.abc import Iterator
from enum import StrEnum
from random import Random
from typing import NamedTuple

PAGE_BYTES = 4096


class Mode(StrEnum):
    """What becomes of what was not synced."""

    DROP = "drop"
    TEAR = "tear"
    ZERO = "zero"
    STRICT = "strict"


class _Change(NamedTuple):
    """Bytes at an offset; None: the file ends there, or is made that long."""

    number: int
    offset: int
    content: bytes | None


class File:
    """A regular file."""

    def __init__(self, content: bytes = b"") -> None:
        self.synced = bytearray(content)
        self.pending: list[_Change] = []

    def write(self, number: int, offset: int, content: bytes | None) -> None:
        """Write bytes at `offset`; None: let the file end there."""
        self.pending.append(_Change(number, offset, content))

    def sync(self, covered: int) -> None:
        """Make durable what was done before entry `covered`."""
        for change in self.pending:
            if change.number < covered:
                _apply(self.synced, change)
        self.pending = [change for change in self.pending if change.number >= covered]

    def content(self) -> bytearray:
        """What the process sees."""
        content = bytearray(self.synced)
        for change in self.pending:
            _apply(content, change)
        return content

    def after_cut(self, mode: Mode, random: Random) -> bytes:
        """What the disk may hold."""
        if mode in (Mode.DROP, Mode.STRICT) or not self.pending:
            return bytes(self.synced)
        torn = self._with_any_pages(random) if random.random() < 0.3 else self._up_to_any_byte(random)
        if mode is Mode.ZERO:
            torn += bytes(max(0, len(self.content()) - len(torn)))
        return bytes(torn)

    def _up_to_any_byte(self, random: Random) -> bytearray:
        left = random.randint(0, sum(len(change.content or b"-") for change in self.pending))
        content = bytearray(self.synced)
        for change in self.pending:
            if change.content is None and left:
                _apply(content, change)
            elif change.content is not None:
                _apply(content, change._replace(content=change.content[:left]))
            left = max(0, left - len(change.content or b"-"))
        return content

    def _with_any_pages(self, random: Random) -> bytearray:
        """Pages are written out in any order; where one is missing, the old bytes stand, or zeroes."""
        full = self.content()
        content = self.synced[: len(full)] + bytes(max(0, len(full) - len(self.synced)))
        end = min(len(self.synced), len(full))
        for start in range(0, len(full), PAGE_BYTES):
            if random.random() < 0.5 and full[start : start + PAGE_BYTES] != content[start : start + PAGE_BYTES]:
                end = max(end, min(len(full), start + PAGE_BYTES))
                content[start : start + PAGE_BYTES] = full[start : start + PAGE_BYTES]
        return content[:end]


def _apply(content: bytearray, change: _Change) -> None:
    if change.content is None:
        del content[change.offset :]
        content += bytes(change.offset - len(content))
    elif change.content:
        content += bytes(max(0, change.offset - len(content)))
        content[change.offset : change.offset + len(change.content)] = change.content


class _Naming(NamedTuple):
    """A name that was given to something; None: taken away."""

    number: int
    name: str
    node: "Node | None"


class Directory:
    """Names, and what they stand for."""

    def __init__(self, entries: "dict[str, Node] | None" = None) -> None:
        self.synced: dict[str, Node] = dict(entries or {})
        self.entries: dict[str, Node] = dict(self.synced)
        self.pending: list[_Naming] = []

    def name(self, number: int, name: str, node: "Node | None") -> None:
        """Give `name` to a node, or take it away."""
        if node is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = node
        self.pending.append(_Naming(number, name, node))

    def sync(self, covered: int) -> None:
        """Make durable what was done before entry `covered`."""
        self.synced = self._with(change for change in self.pending if change.number < covered)
        self.pending = [change for change in self.pending if change.number >= covered]

    def after_cut(self, mode: Mode, random: Random) -> "dict[str, Node]":
        """What the disk may hold."""
        if mode is not Mode.STRICT:
            return self.entries
        numbers = sorted({change.number for change in self.pending})  # a renaming is two changes, but one call
        kept = numbers[: random.choice((0, random.randint(0, len(numbers))))]
        return self._with(change for change in self.pending if change.number in kept)

    def _with(self, changes: Iterator[_Naming]) -> "dict[str, Node]":
        entries = dict(self.synced)
        for change in changes:
            if change.node is None:
                entries.pop(change.name, None)
            else:
                entries[change.name] = change.node
        return entries


Node = File | Directory
