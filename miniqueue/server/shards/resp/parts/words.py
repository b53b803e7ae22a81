"""The options of a command, which a door changes for each part of a spread topic."""

from typing import Final

from miniqueue.wire.resp_parser import Command

#: Words without a value, which are the last ones of their commands.
FLAGS: Final = frozenset({b"TASK", b"DRYRUN", b"REPORT"})


def _at(command: Command, start: int, name: bytes) -> int | None:
    """Return where an option is among the words from `start` on; None if it is not there, or has no value."""
    index = start
    while index + 1 < len(command):
        word = command[index].upper()
        if word == name:
            return index
        index += 3 if word == b"HEADER" else 2
    return None


def option_of(command: Command, start: int, name: bytes) -> bytes | None:
    """Return the value of an option; None if it is not there."""
    index = _at(command, start, name)
    return None if index is None else command[index + 1]


def with_option(command: Command, start: int, name: bytes, value: bytes) -> Command:
    """Return a command in which an option has a value, whether it has had one before or not."""
    index = _at(command, start, name)
    if index is None:
        return [*command[:start], name, value, *command[start:]]
    return [*command[: index + 1], value, *command[index + 2 :]]


def without_option(command: Command, start: int, name: bytes) -> Command:
    """Return a command without an option."""
    index = _at(command, start, name)
    return command if index is None else [*command[:index], *command[index + 2 :]]


def flag_of(command: Command, start: int) -> bytes:
    """Return the flag at the end of a command, in capitals; b"" if there is none."""
    index = start
    while index + 1 < len(command):
        index += 3 if command[index].upper() == b"HEADER" else 2
    last = command[index].upper() if index < len(command) else b""
    return last if last in FLAGS else b""
