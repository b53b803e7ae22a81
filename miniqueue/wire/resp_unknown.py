"""The RESP reader of a client that has not authenticated: low limits, and one authentication at a time.

    read ─▶ commands ─▶ AUTH or HELLO: stopped ─▶ the caller answers it ─▶ failed: read(b"") continues
                                                                       └▶ authenticated: another reader gets take_rest()

So commands that follow a valid AUTH in the same packet have the limits of an authenticated client.
"""

from typing import Final

from miniqueue.errors import ProtocolError
from miniqueue.wire.resp_limits import STRANGER
from miniqueue.wire.resp_parser import Command, StrictParser

_SIGNING_IN: Final = frozenset({b"AUTH", b"HELLO"})
#: Maximum number of words of one `read`, so that many short commands do not delay other clients.
_MAX_WORDS_AT_A_TIME: Final = 100


class UnauthenticatedReader:
    """Turns the bytes of an unauthenticated client into commands, using only the strict parser.

    Attributes:
      is_stopped: whether there may be unread bytes; then `read` must be called again.
    """

    def __init__(self) -> None:
        self._strict = StrictParser(STRANGER)
        self.is_stopped = False

    @property
    def error(self) -> ProtocolError | None:
        """The error in the bytes read so far, after which nothing is read; None if there is none."""
        return self._strict.error

    def read(self, data: bytes) -> list[Command]:
        """Return the commands that `data` completes, up to one that can authenticate the client."""
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
        """Return None: this reader has no fast path for repeated commands."""
        return

    def keep(self, data: bytes) -> None:
        """Store `data` for the next call of `read`."""
        self._strict.feed(data)
        self.is_stopped = True

    def unread_bytes(self) -> int:
        """Return how much is stored of the bytes that have not become commands."""
        return self._strict.stored_bytes()

    def take_rest(self) -> bytes:
        """Return the unread bytes; call it only while `is_stopped` is set."""
        return self._strict.take_rest()
