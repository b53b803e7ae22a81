"""MULTI: there are no transactions, so every command up to EXEC is refused and not carried out.

    C: MULTI             C: PUBLISH t a              C: EXEC                     C: DISCARD
    S: +OK               S: -ERR transactions are …  S: -EXECABORT transactions  S: +OK

Clients send a transaction in one piece, and read one reply for each command. go-redis stops reading after an error
reply to MULTI, and then takes the next replies for those to its next commands. So MULTI is accepted, each command after
it is refused, and EXEC fails with the error code that Redis uses for a transaction in which a command was refused:
every client stays in step and raises an error. RESET, QUIT and the end of the connection leave this state, too.
"""

from collections.abc import Callable

from miniqueue.errors import RequestError
from miniqueue.server.resp.commands.arguments import ArityError
from miniqueue.server.resp.commands.context import Client
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

_REFUSED = (
    "transactions are not supported: nothing between MULTI and EXEC is carried out; send the commands without MULTI"
)


class TransactionAbortedError(RequestError):
    """Transactions are not supported: nothing since MULTI was carried out; send the commands without MULTI."""

    code = "EXECABORT"


class RefusedTransaction:
    """Refuses the commands of a connection from MULTI to EXEC or DISCARD.

    Args:
      others: the commands that leave this state in another way, by name in capitals.
      end: restores the mode before MULTI.
    """

    def __init__(self, others: dict[bytes, Callable[[Command], bytes]], end: Callable[[], None]) -> None:
        self._others = others
        self._end = end

    def execute(self, command: Command) -> bytes:
        """Return the reply to one command; raises MiniqueueError."""
        word = command[0].upper()
        if word in self._others:
            return self._others[word](command)
        if word not in (b"EXEC", b"DISCARD"):
            raise RequestError("MULTI calls can not be nested" if word == b"MULTI" else _REFUSED)
        if len(command) > 1:
            raise ArityError(1, word.decode())
        self._end()
        if word == b"EXEC":
            raise TransactionAbortedError
        return replies.OK


def outside(_client: Client, command: Command) -> bytes:
    """Refuse EXEC and DISCARD of a client that has not sent MULTI."""
    raise RequestError(f"{command[0].upper().decode()} without MULTI")


def watch(_client: Client, _command: Command) -> bytes:
    """Refuse WATCH: a client that relies on it must not go on."""
    raise RequestError("WATCH is not supported; send the commands without WATCH and MULTI")


def unwatch(_client: Client, _command: Command) -> bytes:
    """Confirm UNWATCH: nothing is watched."""
    return replies.OK
