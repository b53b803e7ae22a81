"""The arguments of RESP commands: their number, their options, and the errors about both."""

from miniqueue.errors import RequestError, UnknownCommandError
from miniqueue.wire.resp_parser import Command


class ClientGoneError(RequestError):
    """The client has left; no messages are delivered to it."""


class ArityError(RequestError):
    """Invalid number of args.

    Args:
      arity: required number of words, the name of the command included; negative: minimum.
      syntax: syntax of the command, if the caller knows it; see `showing`.
    """

    def __init__(self, arity: int, syntax: str = "") -> None:
        wanted = f"invalid number of args, want: {arity if arity > 0 else f'at least {-arity}'}"
        super().__init__(f"{wanted}; syntax: {syntax}" if syntax else wanted)
        self._arity = arity

    def showing(self, syntax: str) -> "ArityError":
        """Return this error with the syntax of the command."""
        return ArityError(self._arity, syntax)


class NoProtocolError(RequestError):
    """Unsupported protocol version."""

    code = "NOPROTO"


def shown(word: bytes) -> str:
    """Return an argument as text for an error: printable, at most 128 bytes of it."""
    return "".join(c if c.isprintable() else "?" for c in word[:128].decode("utf-8", "replace"))


def unknown_subcommand(command: Command) -> UnknownCommandError:
    """Return the error for an unknown subcommand."""
    name = command[0].upper().decode("utf-8", "replace")
    return UnknownCommandError(f"unknown subcommand or wrong number of arguments for {name} '{shown(command[1])}'")


def options_of(command: Command, start: int, names: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """Return the options of a command, pairs of a name and a value from word `start` on.

    Raises RequestError for a name that is not among `names`, is there twice, or has no value.
    """
    options: dict[bytes, bytes] = {}
    for index in range(start, len(command), 2):
        name = command[index].upper()
        if name not in names or name in options or index + 1 == len(command):
            raise RequestError(f"syntax error at '{shown(command[index])}'")
        options[name] = command[index + 1]
    return options


def check_arity(is_right: bool, arity: int) -> None:
    """Raise ArityError(arity) unless the number of arguments is right."""
    if not is_right:
        raise ArityError(arity)
