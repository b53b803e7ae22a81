"""What is wrong with a RESP command, in words of its own."""

from miniqueue.errors import RequestError, UnknownCommandError
from miniqueue.wire.resp_parser import Command


class ArityError(RequestError):
    """Invalid number of args.

    Args:
      arity: how many words there must be; negative: at least.
      syntax: of the command, if it is known here; see `showing`.
    """

    def __init__(self, arity: int, syntax: str = "") -> None:
        wanted = f"invalid number of args, want: {arity if arity > 0 else f'at least {-arity}'}"
        super().__init__(f"{wanted}; syntax: {syntax}" if syntax else wanted)
        self._arity = arity

    def showing(self, syntax: str) -> "ArityError":
        """Return the same error with the syntax of the command."""
        return ArityError(self._arity, syntax)


class NoProtocolError(RequestError):
    """Unsupported protocol version."""

    code = "NOPROTO"


def shown(word: bytes) -> str:
    """Return a client's word so that it can stand in an error: printable, at most 128 bytes of it."""
    return "".join(c if c.isprintable() else "?" for c in word[:128].decode("utf-8", "replace"))


def unknown_subcommand(command: Command) -> UnknownCommandError:
    """Return the error for a second word that the command does not know."""
    name = command[0].upper().decode("utf-8", "replace")
    return UnknownCommandError(f"unknown subcommand or wrong number of arguments for {name} '{shown(command[1])}'")
