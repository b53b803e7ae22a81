"""The arguments of RESP commands: their number, their options, and the errors about both."""

from miniqueue.core.options.settle import NACK_OPTIONS, PLAIN_NACK, NackOptions, parse_nack_options
from miniqueue.errors import RequestError, UnknownCommandError
from miniqueue.wire.resp_parser import Command


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


def without_flag(words: Command, start: int, *flags: bytes) -> tuple[Command, bytes]:
    """Return a command without its last word, and this word in capitals, if it is one of `flags`; else b"".

    From word `start` on, the other words are pairs of a name and a value: a last word that completes a pair is a value.
    """
    last = words[-1].upper()
    return (words[:-1], last) if (len(words) - start) % 2 and last in flags else (words, b"")


def nack_options_of(words: list[bytes], first: int) -> tuple[list[bytes], NackOptions]:
    """Return the words of a NACK before its options, which can begin at word `first`, and the options.

    No receipt is the name of an option. Raises InvalidDelayError, or RequestError as `options_of` does.
    """
    count = len(words)
    if count < first + 2:
        return words, PLAIN_NACK
    last_words = range(max(first, count - 2 * len(NACK_OPTIONS)), count)
    start = next((n for n in last_words if words[n].upper() in NACK_OPTIONS), count)
    return words[:start], parse_nack_options(options_of(words, start, NACK_OPTIONS))


def check_arity(is_right: bool, arity: int) -> None:
    """Raise ArityError(arity) unless the number of arguments is right."""
    if not is_right:
        raise ArityError(arity)
