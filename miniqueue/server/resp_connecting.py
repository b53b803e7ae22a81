"""The RESP commands that are about the connection: what Redis clients say before they get to work."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from miniqueue import __version__
from miniqueue.errors import NotAuthenticatedError, RequestError, WrongSecretError
from miniqueue.server.resp_errors import ArityError, NoProtocolError, shown, unknown_subcommand
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

_MAX_PATTERN_CHARS = 64  # more than any name, with stars in it
_HELLO_WITHOUT_AUTH = (  # in the words of Redis
    "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
    "option can be used to authenticate the client and select the RESP protocol version at the same time"
)


def ping(connection: "RespConnection", command: Command) -> bytes:
    """Answer PONG, or what was sent."""
    if len(command) > 2:
        raise ArityError(1)
    return replies.bulk(command[1]) if len(command) == 2 else replies.PONG


def echo(connection: "RespConnection", command: Command) -> bytes:
    """Answer what was sent."""
    return replies.bulk(command[1])


def hello(connection: "RespConnection", command: Command) -> bytes:
    """Choose the protocol version, and answer who this is."""
    if len(command) > 1 and command[1] not in (b"2", b"3"):
        raise NoProtocolError
    options = _hello_options(command[2:])
    protocol = int(command[1]) if len(command) > 1 else connection.session.protocol
    return _sign_in(connection, options.credentials, partial(_greet, connection, protocol, options.name))


class _HelloOptions(NamedTuple):
    credentials: tuple[bytes, bytes] | None = None
    name: bytes | None = None


def _hello_options(words: list[bytes]) -> _HelloOptions:
    options = _HelloOptions()
    while words:
        word, *words = words
        if word.upper() == b"AUTH" and len(words) >= 2:
            options = options._replace(credentials=(words[0], words[1]))
            words = words[2:]
        elif word.upper() == b"SETNAME" and words:
            options = options._replace(name=_client_word(words[0]))
            words = words[1:]
        else:
            raise RequestError(f"syntax error in HELLO option '{shown(word)}'")
    return options


def _greet(connection: "RespConnection", protocol: int, name: bytes | None) -> bytes:
    session = connection.session
    session.protocol = protocol
    session.name = session.name if name is None else name
    return replies.encode(
        {
            "server": "miniqueue",
            "version": __version__,
            "proto": session.protocol,
            "id": session.id,
            "mode": "standalone",
            "role": "master",
            "modules": [],
        },
        session.protocol,
    )


def auth(connection: "RespConnection", command: Command) -> bytes:
    """Let the client in."""
    if len(command) > 3:
        raise ArityError(3)
    if len(command) == 2 and connection.guard is None:
        raise RequestError("AUTH called without any password configured: this broker has no users")
    name = command[1] if len(command) == 3 else None
    return _sign_in(connection, (name, command[-1]), lambda: replies.OK)


def _sign_in(
    connection: "RespConnection", credentials: tuple[bytes | None, bytes] | None, finish: Callable[[], bytes]
) -> bytes:
    """Return the reply that `finish` makes, or nothing if it comes later, when the credentials have been looked at.

    A broker without users lets in the one user that it has: as in Redis, `default`, with any password.
    """
    guard = connection.guard
    if guard is None:
        if credentials and credentials[0] != b"default":
            raise WrongSecretError
        return finish()
    if credentials:
        guard.begin(*credentials, finish)
        return b""
    if guard.user is None:
        raise NotAuthenticatedError(_HELLO_WITHOUT_AUTH)
    return finish()


def select(connection: "RespConnection", command: Command) -> bytes:
    """Choose the only database there is."""
    if command[1] != b"0":
        raise RequestError("DB index is out of range")
    return replies.OK


def client(connection: "RespConnection", command: Command) -> bytes:
    """Carry out a subcommand of CLIENT."""
    run = _CLIENT_SUBCOMMANDS.get((command[1].upper(), len(command)))
    if run is None:
        raise unknown_subcommand(command)
    return run(connection, command)


def _client_getname(connection: "RespConnection", command: Command) -> bytes:
    return replies.encode(connection.session.name or None, connection.session.protocol)


def _client_setname(connection: "RespConnection", command: Command) -> bytes:
    connection.session.name = _client_word(command[2])
    return replies.OK


def _client_setinfo(connection: "RespConnection", command: Command) -> bytes:
    session, value = connection.session, _client_word(command[3])
    match command[2].upper():
        case b"LIB-NAME":
            session.library = value
        case b"LIB-VER":
            session.library_version = value
        case _:
            raise RequestError(f"unrecognized option '{shown(command[2])}'")
    return replies.OK


def _client_list(connection: "RespConnection", command: Command) -> bytes:
    connections = connection.server.connections.values()
    lines = [one.session.describe(one.stream.topic if one.stream else None) + b"\n" for one in connections]
    return replies.bulk(b"".join(lines))


def _client_word(word: bytes) -> bytes:
    if not all(33 <= byte <= 126 for byte in word) or len(word) > 255:
        raise RequestError("client names cannot contain spaces, newlines or special characters")
    return word


_CLIENT_SUBCOMMANDS: "dict[tuple[bytes, int], Callable[[RespConnection, Command], bytes]]" = {
    (b"ID", 2): lambda connection, _: replies.integer(connection.session.id),
    (b"GETNAME", 2): _client_getname,
    (b"SETNAME", 3): _client_setname,
    (b"SETINFO", 4): _client_setinfo,
    (b"LIST", 2): _client_list,
    (b"NO-EVICT", 3): lambda *_: replies.OK,
    (b"NO-TOUCH", 3): lambda *_: replies.OK,
}


def config(connection: "RespConnection", command: Command) -> bytes:
    """Answer the settings whose names fit."""
    if command[1].upper() != b"GET" or len(command) < 3:
        raise unknown_subcommand(command)
    patterns = [pattern.decode("utf-8", "replace").lower() for pattern in command[2:]]
    found: dict[replies.Value, replies.Value] = {
        name: value
        for name, value in connection.server.parameters.items()
        if any(_fits(name, pattern) for pattern in patterns)
    }
    return replies.encode(found, connection.session.protocol)


def _fits(name: str, pattern: str) -> bool:
    """Tell whether a pattern fits, in which `*` stands for any text.

    `fnmatch` would make a regular expression of what a client sends: 30 kB of `[` take it half a minute.
    """
    if len(pattern) > _MAX_PATTERN_CHARS:
        return False
    head, *middle = pattern.split("*")
    if not middle:
        return name == head
    position, end = len(head), len(name) - len(middle[-1])
    if not name.startswith(head) or not name.endswith(middle.pop()) or position > end:
        return False
    for part in middle:
        found_at = name.find(part, position, end)
        if found_at < 0:
            return False
        position = found_at + len(part)
    return True


def reset(connection: "RespConnection", command: Command) -> bytes:
    """Leave the stream, and forget what the client said about itself."""
    connection.leave()
    connection.session.forget()
    if connection.guard is not None:
        connection.guard.forget()
    return replies.simple("RESET")


def quit(connection: "RespConnection", command: Command) -> bytes:
    """Answer what was asked before, then close."""
    connection.reply(replies.OK)
    connection.leave()
    connection.close_when_sent()
    return b""
