"""The RESP commands of a connection that is not subscribed: one table, from which COMMAND is answered too.

To add a command, write its function and put it into `COMMANDS`; docs/protocol.md must describe it (a test looks).
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from miniqueue import __version__
from miniqueue.broker import Commit
from miniqueue.errors import (
    MiniqueueError,
    NothingOutstandingError,
    RequestError,
    UnknownCommandError,
)
from miniqueue.server.resp_session import Session
from miniqueue.server.resp_stream import Stream
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


class Entry(NamedTuple):
    """A command: how many words it has with its name (negative: at least), what it does, what carries it out."""

    arity: int
    summary: str
    run: "Callable[[RespConnection, Command], bytes]"


class ArityError(RequestError):
    """Invalid number of args."""

    def __init__(self, arity: int) -> None:
        super().__init__(f"invalid number of args, want: {arity if arity > 0 else f'at least {-arity}'}")


class NoProtocolError(RequestError):
    """Unsupported protocol version."""

    code = "NOPROTO"


class WrongPasswordError(RequestError):
    """Invalid username-password pair or user is disabled."""

    code = "WRONGPASS"


def execute(connection: "RespConnection", command: Command) -> bytes:
    """Carry out one command and return its reply; raises MiniqueueError."""
    entry = COMMANDS.get(command[0].upper())
    if entry is None:
        raise UnknownCommandError(f"unknown command '{_shown(command[0])}'")
    if len(command) != entry.arity and not 0 < -entry.arity <= len(command):
        raise ArityError(entry.arity)
    return entry.run(connection, command)


def _shown(word: bytes) -> str:
    return "".join(c if c.isprintable() else "?" for c in word[:128].decode("utf-8", "replace"))


# --- messages and topics -------------------------------------------------------------------------------------


def _publish(connection: "RespConnection", command: Command) -> bytes:
    connection.publish(command[1], [command[2]])
    return b""


def _subscribe(connection: "RespConnection", command: Command) -> bytes:
    stream = Stream(
        connection.broker,
        command[1],
        connection.reply,
        connection.flush,
        {word: lambda command: execute(connection, command) for word in (b"PING", b"QUIT", b"RESET")},
    )
    connection.stream = stream
    stream.start()
    return b""


def _settle(connection: "RespConnection", command: Command) -> bytes:
    raise NothingOutstandingError


def _topics(connection: "RespConnection", command: Command) -> bytes:
    return replies.array([replies.bulk(name) for name in connection.broker.topics()])


def _topic(connection: "RespConnection", command: Command) -> bytes:
    if command[1].upper() != b"DELETE":
        raise _unknown_subcommand(command)
    if len(command) != 3:
        raise ArityError(3)
    outcome = Commit()
    connection.wait_for(outcome, replies.OK)
    connection.spawn(_delete(connection, command[2], outcome))
    return b""


async def _delete(connection: "RespConnection", topic: bytes, outcome: Commit) -> None:
    try:
        await connection.broker.delete_topic(topic)
    except MiniqueueError as exc:
        outcome.finish(exc)
    else:
        outcome.finish()


# --- what Redis clients say on connecting --------------------------------------------------------------------


def _ping(connection: "RespConnection", command: Command) -> bytes:
    if len(command) > 2:
        raise ArityError(1)
    return replies.bulk(command[1]) if len(command) == 2 else replies.PONG


def _echo(connection: "RespConnection", command: Command) -> bytes:
    return replies.bulk(command[1])


def _hello(connection: "RespConnection", command: Command) -> bytes:
    session = connection.session
    if len(command) > 1:
        if command[1] not in (b"2", b"3"):
            raise NoProtocolError
        _hello_options(session, command[2:])
        session.protocol = int(command[1])
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


def _hello_options(session: Session, options: list[bytes]) -> None:
    while options:
        word, *options = options
        if word.upper() == b"AUTH" and len(options) >= 2:
            _check_user(options[0])
            options = options[2:]
        elif word.upper() == b"SETNAME" and options:
            session.name = _client_word(options[0])
            options = options[1:]
        else:
            raise RequestError(f"syntax error in HELLO option '{_shown(word)}'")


def _auth(connection: "RespConnection", command: Command) -> bytes:
    if len(command) > 3:
        raise ArityError(3)
    if len(command) == 2:
        raise RequestError("AUTH called without any password configured: this broker has no users")
    _check_user(command[1])
    return replies.OK


def _check_user(user: bytes) -> None:
    """Let in the one user that a broker without users has: as in Redis, `default`, with any password."""
    if user != b"default":
        raise WrongPasswordError


def _select(connection: "RespConnection", command: Command) -> bytes:
    if command[1] != b"0":
        raise RequestError("DB index is out of range")
    return replies.OK


def _client(connection: "RespConnection", command: Command) -> bytes:
    run = _CLIENT_SUBCOMMANDS.get((command[1].upper(), len(command)))
    if run is None:
        raise _unknown_subcommand(command)
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
            raise RequestError(f"unrecognized option '{_shown(command[2])}'")
    return replies.OK


def _client_list(connection: "RespConnection", command: Command) -> bytes:
    lines = [other.describe() + b"\n" for other in connection.server.connections.values()]
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


def _config(connection: "RespConnection", command: Command) -> bytes:
    if command[1].upper() != b"GET" or len(command) < 3:
        raise _unknown_subcommand(command)
    patterns = [pattern.decode("utf-8", "replace").lower() for pattern in command[2:]]
    found: dict[replies.Value, replies.Value] = {
        name: value
        for name, value in connection.server.parameters.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    return replies.encode(found, connection.session.protocol)


def _info(connection: "RespConnection", command: Command) -> bytes:
    broker, server = connection.broker, connection.server
    stats = broker.stats().values()
    lines = [
        "# Server",
        f"redis_version:miniqueue_v{__version__}",
        "redis_mode:standalone",
        f"tcp_port:{server.parameters.get('port', '')}",
        "",
        "# Clients",
        f"connected_clients:{len(server.connections)}",
        "",
        "# Persistence",
        "loading:0",
        f"refusal:{broker.refusal.code if broker.refusal else ''}",
        "",
        "# Topics",
        f"topics:{len(broker.topics())}",
        f"messages:{sum(topic.ready + topic.leased + topic.delayed for topic in stats)}",
        "",
    ]
    return replies.bulk("\r\n".join(lines).encode())


def _reset(connection: "RespConnection", command: Command) -> bytes:
    connection.leave()
    connection.session.forget()
    return replies.simple("RESET")


def _quit(connection: "RespConnection", command: Command) -> bytes:
    connection.reply(replies.OK)
    connection.leave()
    connection.close_when_sent()
    return b""


def _command(connection: "RespConnection", command: Command) -> bytes:
    protocol = connection.session.protocol
    subcommand = command[1].upper() if len(command) > 1 else b""
    names = [word.upper() for word in command[2:]] or list(COMMANDS)
    if subcommand == b"COUNT":
        return replies.integer(len(COMMANDS))
    if subcommand == b"DOCS":
        docs: dict[replies.Value, replies.Value] = {
            name.decode().lower(): {"summary": COMMANDS[name].summary, "group": "miniqueue"}
            for name in names
            if name in COMMANDS
        }
        return replies.encode(docs, protocol)
    if subcommand in (b"", b"INFO"):
        return replies.encode([_describe(name) for name in names], protocol)
    raise _unknown_subcommand(command)


def _describe(name: bytes) -> list[str | int | list[str]] | None:
    """Return what COMMAND INFO says: name, arity, flags, and three zeros, for no argument is a Redis key."""
    entry = COMMANDS.get(name)
    return [name.decode().lower(), entry.arity, ["fast"], 0, 0, 0] if entry else None


def _unknown_subcommand(command: Command) -> UnknownCommandError:
    name = command[0].upper().decode("utf-8", "replace")
    return UnknownCommandError(f"unknown subcommand or wrong number of arguments for {name} '{_shown(command[1])}'")


COMMANDS: dict[bytes, Entry] = {
    b"PUBLISH": Entry(3, "Add a message to a topic.", _publish),
    b"SUBSCRIBE": Entry(2, "Receive the messages of a topic, one after the other.", _subscribe),
    b"ACK": Entry(1, "Settle the message received: it is done.", _settle),
    b"NACK": Entry(1, "Return the message received to the front of its topic.", _settle),
    b"BACK": Entry(1, "Return the message received to the back of its topic.", _settle),
    b"DACK": Entry(-1, "Return the message received to the front after a number of seconds.", _settle),
    b"TOPICS": Entry(1, "List the topics.", _topics),
    b"TOPIC": Entry(-2, "TOPIC DELETE name removes a topic with all its messages.", _topic),
    b"PING": Entry(-1, "Answer PONG, or what was sent.", _ping),
    b"INFO": Entry(-1, "Tell about this broker.", _info),
    b"HELLO": Entry(-1, "Choose the protocol version, 2 or 3.", _hello),
    b"AUTH": Entry(-2, "Say who you are.", _auth),
    b"CLIENT": Entry(-2, "Ask and tell about connections.", _client),
    b"COMMAND": Entry(-1, "List the commands.", _command),
    b"CONFIG": Entry(-2, "CONFIG GET pattern shows settings.", _config),
    b"SELECT": Entry(2, "Choose the database; there is only 0.", _select),
    b"ECHO": Entry(2, "Answer what was sent.", _echo),
    b"RESET": Entry(1, "Leave the stream and forget what the client said about itself.", _reset),
    b"QUIT": Entry(-1, "Answer what was asked, then close the connection.", _quit),
}
