"""The commands that one RESP connection has received and not carried out yet.

    bytes ─▶ reader ─▶ commands ─▶ carried out
               │           └─▶ no time for all ─▶ postponed
               └─▶ bounded: a long read becomes commands piece by piece (`reader.is_stopped`)

Knows no commands and no time; the connection decides how many are carried out.
"""

from collections.abc import Callable, Sequence
from typing import Final

from miniqueue.wire.resp_limits import limits_for
from miniqueue.wire.resp_reader import CommandReader, Parsed
from miniqueue.wire.resp_unknown import UnauthenticatedReader

#: How many bytes become commands before the next check of the clock, or how many words if the slow reader is needed.
#: That takes a fifth of a millisecond.
MAX_READ_BYTES: Final = 8 << 10
MAX_STRICT_WORDS: Final = 128
#: Arguments up to this size are read even if messages are limited to less: command words and names must fit.
MIN_ARGUMENT_BYTES: Final = 1024
_RUN_WORDS = frozenset({b"PUBLISH", b"publish"})


class CommandQueue:
    """Reads commands, and keeps those that have to wait.

    Attributes:
      reader: turns bytes into commands; what it has not read comes after `postponed`.
      postponed: commands that have been read, and wait for another turn.
    """

    __slots__ = ("postponed", "reader")

    def __init__(self) -> None:
        self.reader: CommandReader | UnauthenticatedReader = UnauthenticatedReader()
        self.postponed: list[Parsed] = []

    @property
    def is_behind(self) -> bool:
        """Whether commands wait, or bytes that become commands or an error."""
        return bool(self.postponed) or self.reader.is_stopped or self.reader.error is not None

    def trust(self, max_message_bytes: int) -> None:
        """Permit what users may send, beginning with the bytes that have not been read."""
        if isinstance(self.reader, UnauthenticatedReader):
            rest = self.reader.take_rest()
            self.reader = CommandReader(
                limits_for(max(max_message_bytes, MIN_ARGUMENT_BYTES)),
                run_words=_RUN_WORDS,
                max_strict_words=MAX_STRICT_WORDS,
                max_read_bytes=MAX_READ_BYTES,
            )
            if rest:
                self.reader.keep(rest)

    def next_commands(self) -> list[Parsed]:
        """Return what was postponed; if nothing was, read on."""
        return self.postponed or [*self.reader.read(b"")]

    def put_back(self, commands: Sequence[Parsed]) -> None:
        """Make commands the next ones."""
        self.postponed = [*commands, *self.postponed]

    def take_while(self, is_wanted: Callable[[Parsed], bool]) -> list[Parsed]:
        """Take the next commands, up to the first that is not wanted."""
        wanted: list[Parsed] = []
        while self.postponed or self.reader.is_stopped:
            commands = self.next_commands()
            count = next((i for i, command in enumerate(commands) if not is_wanted(command)), len(commands))
            wanted += commands[:count]
            self.postponed = commands[count:]
            if self.postponed or not commands:
                break
        return wanted
