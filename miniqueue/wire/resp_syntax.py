"""The syntax of RESP commands: one text each, the source of COMMAND DOCS and of errors about the number of arguments.

    topic [PREFETCH n] [HEADER name value]... (offset | TIME ms) [IN|OUT|BOTH]

A word in capitals is literal, and so are words joined by bars; any other word names an argument. Brackets enclose
optional arguments, parentheses group arguments. Bars with blanks around them separate alternatives. Arguments followed
by dots can be repeated. COMMAND DOCS describes the same in the structure of Redis:
https://redis.io/docs/latest/commands/command-docs/.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import RESP3

#: The syntax of a command, or of each of its subcommands by name.
Syntax: TypeAlias = str | Mapping[str, str]

_PIECES = re.compile(r" \| |[\[(]|[\])](?:\.\.\.)?|[^\s\[\]()]+")
_LITERAL = re.compile(r"[A-Z0-9-]+")
_REPEATED = "..."
_TYPES = {"n": "integer", "offset": "integer", "ms": "unix-time", "seconds": "double", "pattern": "pattern"}


class Argument(NamedTuple):
    """An argument of a command, with the fields that it has in COMMAND DOCS."""

    name: str
    type: str
    token: str = ""
    flags: tuple[str, ...] = ()
    arguments: "tuple[Argument, ...]" = ()


def parse(syntax: str) -> list[Argument]:
    """Return the arguments that the syntax of a command, or of a subcommand, names."""
    (sequence,), _ = _alternatives(_PIECES.findall(syntax)[::-1])
    return sequence


def shown_syntax(command: Command, syntax: Syntax) -> str:
    """Return the syntax of a command for an error: that of its subcommand if it names a known one."""
    name = command[0].upper().decode()
    if isinstance(syntax, str):
        return f"{name} {syntax}".rstrip()
    subcommand = command[1].upper().decode("utf-8", "replace") if len(command) > 1 else ""
    if subcommand in syntax:
        return f"{name} {subcommand} {syntax[subcommand]}".rstrip()
    return f"{name} {'|'.join(syntax)} ..."


def encode_docs(name: str, summary: str, syntax: Syntax, protocol: int) -> bytes:
    """Encode the reply of COMMAND DOCS for a command, whose name is in lower case."""
    docs = {"summary": replies.encode(summary, protocol), "group": replies.encode("miniqueue", protocol)}
    if isinstance(syntax, str):
        if arguments := parse(syntax):
            docs["arguments"] = replies.array([_encode(argument, protocol) for argument in arguments])
    else:
        subcommands = {
            f"{name}|{word.lower()}": encode_docs(name, summary, line, protocol) for word, line in syntax.items()
        }
        docs["subcommands"] = _map(subcommands, protocol)
    return _map(docs, protocol)


def _map(fields: Mapping[str, bytes], protocol: int) -> bytes:
    return replies.map_of(((replies.encode(name, protocol), field) for name, field in fields.items()), protocol)


@cache  # the same arguments belong to many commands
def _encode(argument: Argument, protocol: int) -> bytes:
    fields = {"name": replies.encode(argument.name, protocol), "type": replies.encode(argument.type, protocol)}
    if argument.token:
        fields["token"] = replies.encode(argument.token, protocol)
    if argument.arguments:
        fields["arguments"] = replies.array([_encode(inner, protocol) for inner in argument.arguments])
    else:
        fields["display_text"] = fields["name"]
    if argument.flags:  # a set of simple strings: redis-cli crashes on anything else
        kind = b"~" if protocol == RESP3 else b"*"
        fields["flags"] = b"%b%d\r\n%b" % (kind, len(argument.flags), b"".join(map(replies.simple, argument.flags)))
    return _map(fields, protocol)


def _alternatives(pieces: list[str]) -> tuple[list[list[Argument]], str]:
    """Take pieces from the end of a list up to the one that closes this level; return the alternatives and it."""
    sequences: list[list[Argument]] = [[]]
    while pieces:
        piece = pieces.pop()
        if piece == " | ":
            sequences.append([])
        elif piece in ("[", "("):
            inner, closing = _alternatives(pieces)
            sequences[-1].append(
                _flagged(_one_of(inner), is_optional=piece == "[", is_multiple=closing.endswith(_REPEATED))
            )
        elif piece[0] in "])":
            return sequences, piece
        else:
            _add(sequences[-1], piece)
    return sequences, ""


def _add(sequence: list[Argument], word: str) -> None:
    """Add the argument that a word names; a word in capitals before it is its token, unless it is in brackets."""
    argument = _argument(word.removesuffix(_REPEATED))
    before = sequence[-1] if sequence else None
    if before is not None and before.type == "pure-token" and not before.flags and argument.type != "pure-token":
        name = before.name if argument.type == "oneof" else argument.name
        argument = argument._replace(name=name, token=before.token)
        sequence.pop()
    sequence.append(_flagged(argument, is_multiple=word.endswith(_REPEATED)))


def _argument(word: str) -> Argument:
    choices = word.split("|")
    if len(choices) > 1:
        return Argument(choices[0].lower(), "oneof", arguments=tuple(map(_literal, choices)))
    return _literal(word) if _LITERAL.fullmatch(word) else Argument(word, _TYPES.get(word, "string"))


def _literal(word: str) -> Argument:
    return Argument(word.lower(), "pure-token", token=word)


def _one_of(sequences: list[list[Argument]]) -> Argument:
    blocks = [_block(sequence) for sequence in sequences]
    return blocks[0] if len(blocks) == 1 else Argument(blocks[0].name, "oneof", arguments=tuple(blocks))


def _block(sequence: list[Argument]) -> Argument:
    first = sequence[0]
    if len(sequence) == 1:
        return first
    return Argument((first.token or first.name).lower(), "block", arguments=tuple(sequence))


def _flagged(argument: Argument, *, is_optional: bool = False, is_multiple: bool = False) -> Argument:
    flags = {"optional": is_optional, "multiple": is_multiple}
    return argument._replace(flags=(*argument.flags, *(name for name, is_set in flags.items() if is_set)))
