"""What a RESP client sends before it has said who it is: little, and one step at a time.

Knows which words may change who somebody is. Does not know users.

    read ─▶ commands ─▶ AUTH or HELLO: stopped ─▶ the caller answers it ─▶ wrong: read(b"") goes on
                                                                       └▶ right: take_rest() is for another reader

So what is sent behind a right secret, in the same breath, has the limits of a user.
"""

from typing import Final

from miniqueue.errors import ProtocolError
from miniqueue.wire.resp_limits import STRANGER
from miniqueue.wire.resp_parser import Command, StrictParser

_SIGNING_IN: Final = frozenset({b"AUTH", b"HELLO"})
_MAX_WORDS_AT_A_TIME: Final = 100


class StrangerReader:
    """Turns the bytes of somebody unknown into commands, by the strict parser alone.

    Attributes:
      is_stopped: whether it may have more bytes than it has read; then `read` must be called again.
    """

    def __init__(self) -> None:
        self._strict = StrictParser(STRANGER)
        self.is_stopped = False

    @property
    def error(self) -> ProtocolError | None:
        """What made no sense in the bytes read, after which nothing is read; None as long as all is well."""
        return self._strict.error

    def read(self, data: bytes) -> list[Command]:
        """Return commands that `data` completes, up to one that says who the client is."""
        self._strict.feed(data)
        self.is_stopped = False
        commands: list[Command] = []
        words_left = _MAX_WORDS_AT_A_TIME
        while not self.is_stopped and (command := self._strict.step()) is not None:
            words_left -= 1 + len(command)
            if command:
                commands.append(command)
            self.is_stopped = words_left <= 0 or (len(command) > 1 and command[0].upper() in _SIGNING_IN)
        return commands

    def read_again(self, _data: bytes) -> None:
        """Know nothing again: it is all read."""
        return

    def keep(self, data: bytes) -> None:
        """Have `data` read when `read` is called next."""
        self._strict.feed(data)
        self.is_stopped = True

    def take_rest(self) -> bytes:
        """Return what has not been read; only when stopped."""
        return self._strict.take_rest()
