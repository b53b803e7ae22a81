"""Commands about the connection itself: what Redis clients send first, and RESET and QUIT."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from miniqueue import __version__
from miniqueue.core.message.parts import whole_of
from miniqueue.core.message.slots import slot_of
from miniqueue.errors import NotAuthenticatedError, RequestError, WrongSecretError
from miniqueue.server.cluster import replies as shown_nodes
from miniqueue.server.cluster.nodes import Node
from miniqueue.server.resp.commands.channels import Channels
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.server.resp.commands.events import EventStream
from miniqueue.server.resp.commands.transaction import Transaction
from miniqueue.server.views.clients import ConnectedClient, Reading
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import ArityError, shown, unknown_subcommand
from miniqueue.wire.resp_parser import Command

_MAX_PATTERN_CHARS = 64  # longer than the name of any setting, with some stars
_HELLO_WITHOUT_AUTH = (  # the text of Redis
    "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
    "option can be used to authenticate the client and select the RESP protocol version at the same time"
)
#: Number of connections that CLIENT LIST shows in one iteration of the event loop.
CLIENTS_IN_TURN: Final = 500
#: What a connection can do, with the flag by which Redis shows it.
_FLAGS: Final = {"commands": b"N", "transaction": b"x", "waits": b"b", "listens": b"P", "stream": b"P"}
_NOTHING: Final = Reading(b"", b"")
#: The end of the line of a client that another process has accepted; no client is shown it.
LINK_MARK: Final = b" link=1"


class NoProtocolError(RequestError):
    """Unsupported protocol version."""

    code = "NOPROTO"


def ping(client: Client, command: Command) -> bytes:
    """Return PONG, or the argument."""
    if len(command) > 2:
        raise ArityError(1)
    return replies.bulk(command[1]) if len(command) == 2 else replies.PONG


def echo(client: Client, command: Command) -> bytes:
    """Return the argument."""
    return replies.bulk(command[1])


def hello(client: Client, command: Command) -> bytes:
    """Select the protocol version; return a description of the broker."""
    if len(command) > 1 and command[1] not in (b"2", b"3"):
        raise NoProtocolError
    options = _hello_options(command[2:])
    protocol = int(command[1]) if len(command) > 1 else client.session.protocol
    return _sign_in(client, options.credentials, partial(_greet, client, protocol, options.name))


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


def _greet(client: Client, protocol: int, name: bytes | None) -> bytes:
    session = client.session
    session.protocol = protocol
    session.name = session.name if name is None else name
    return replies.encode(
        {
            "server": "miniqueue",
            "version": __version__,
            "proto": session.protocol,
            "id": session.id,
            "mode": client.server.nodes.mode,
            "role": "master",
            "modules": [],
        },
        session.protocol,
    )


def auth(client: Client, command: Command) -> bytes:
    """Authenticate the client."""
    if len(command) > 3:
        raise ArityError(3)
    if len(command) == 2 and client.guard is None:
        raise RequestError("AUTH called without any password configured: this broker has no users")
    name = command[1] if len(command) == 3 else None
    return _sign_in(client, (name, command[-1]), lambda: replies.OK)


def _sign_in(client: Client, credentials: tuple[bytes | None, bytes] | None, finish: Callable[[], bytes]) -> bytes:
    """Return the reply that `finish` makes, or nothing if it comes later, after the credentials are checked.

    A broker without users has one user, as Redis does: `default`, with any password.
    """
    guard = client.guard
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


def select(client: Client, command: Command) -> bytes:
    """Select the only database, 0."""
    if command[1] != b"0":
        raise RequestError("DB index is out of range")
    return replies.OK


def client_command(client: Client, command: Command) -> bytes:
    """Carry out a subcommand of CLIENT."""
    run = _CLIENT_SUBCOMMANDS.get((command[1].upper(), len(command)))
    if run is None:
        raise unknown_subcommand(command)
    return run(client, command)


def _client_getname(client: Client, command: Command) -> bytes:
    return replies.encode(client.session.name or None, client.session.protocol)


def _client_setname(client: Client, command: Command) -> bytes:
    client.session.name = _client_word(command[2])
    return replies.OK


def _client_setinfo(client: Client, command: Command) -> bytes:
    session, value = client.session, _client_word(command[3])
    match command[2].upper():
        case b"LIB-NAME":
            session.library = value
        case b"LIB-VER":
            session.library_version = value
        case _:
            raise RequestError(f"unrecognized option '{shown(command[2])}'")
    return replies.OK


def _client_list(client: Client, command: Command) -> bytes:
    async def listed() -> bytes:
        now_ms, lines = client.broker.clock.now_ms(), list[bytes]()
        others = list(client.server.clients())
        if client.is_link:  # it is asked for what it knows of the clients of all processes
            others += client.server.linked()
        for number, other in enumerate(others, 1):
            lines.append(_line(other, now_ms))
            if number % CLIENTS_IN_TURN == 0:
                await asyncio.sleep(0)
        return replies.bulk(b"".join(lines))

    return answer_later(client, listed())


def _line(client: Client, now_ms: int) -> bytes:
    session, (topic, group, member) = client.session, _reading_of(client) or _NOTHING
    return (
        b"id=%d addr=%b name=%b user=%b db=0 resp=%d sub=%d lib-name=%b lib-ver=%b topic=%b"
        b" group=%b member=%b leased=%d age=%d flags=%b%b\n"
    ) % (
        session.id,
        session.address.encode(),
        session.name,
        session.user,
        session.protocol,
        client.stream is not None,
        session.library,
        session.library_version,
        topic,
        group,
        member,
        _leased_of(client),
        max(0, now_ms - session.connected_at_ms) // 1000,
        _FLAGS[_mode_of(client)],
        LINK_MARK if client.is_link else b"",
    )


def described(client: Client) -> ConnectedClient:
    """Return what is known of a client."""
    session = client.session
    return ConnectedClient(
        str(session.id),
        "resp",
        session.address,
        session.connected_at_ms,
        session.name.decode("utf-8", "replace"),
        None if client.guard is None else session.user.decode("utf-8", "replace"),
        session.library.decode("utf-8", "replace"),
        _mode_of(client),
        _reading_of(client),
        _leased_of(client),
    )


def _reading_of(client: Client) -> Reading | None:
    """Return what a client reads, with its stream or with its last RECEIVE."""
    if client.stream is not None:
        reading = client.stream.reading
    elif client.session.received is not None:
        reading = Reading(*client.session.received)
    else:
        return None
    return reading._replace(topic=whole_of(reading.topic))


def _leased_of(client: Client) -> int:
    return len(client.held) + (0 if client.stream is None else client.stream.held_count)


def _mode_of(client: Client) -> str:
    if client.stream is not None:
        return "stream"
    if isinstance(client.mode, Channels | EventStream):
        return "listens"
    if client.is_blocked:
        return "waits"
    return "transaction" if isinstance(client.mode, Transaction) else "commands"


def _client_word(word: bytes) -> bytes:
    if not all(33 <= byte <= 126 for byte in word) or len(word) > 255:
        raise RequestError("client names cannot contain spaces, newlines or special characters")
    return word


_CLIENT_SUBCOMMANDS: dict[tuple[bytes, int], Callable[[Client, Command], bytes]] = {
    (b"ID", 2): lambda client, _: replies.integer(client.session.id),
    (b"GETNAME", 2): _client_getname,
    (b"SETNAME", 3): _client_setname,
    (b"SETINFO", 4): _client_setinfo,
    (b"LIST", 2): _client_list,
    (b"NO-EVICT", 3): lambda *_: replies.OK,
    (b"NO-TOUCH", 3): lambda *_: replies.OK,
}


def cluster(client: Client, command: Command) -> bytes:
    """Carry out a subcommand of CLUSTER. A client that is shown the slots of the nodes is sent to them from then on."""
    subcommand, session = command[1].upper(), client.session
    if subcommand == b"KEYSLOT" and len(command) == 3:
        return replies.integer(slot_of(command[2]))
    show = _CLUSTER_SUBCOMMANDS.get(subcommand)
    if show is None or len(command) != 2:
        raise unknown_subcommand(command)
    session.knows_nodes = session.knows_nodes or subcommand in _SHOWING_SLOTS
    nodes = client.server.nodes
    seen = nodes.seen_at(session.local)
    return replies.encode(show(seen, seen[nodes.own]), session.protocol)


_CLUSTER_SUBCOMMANDS: dict[bytes, Callable[[list[Node], Node], replies.Value]] = {
    b"INFO": lambda nodes, _: shown_nodes.info_text(nodes).encode(),
    b"MYID": lambda _, own: own.id.encode(),
    b"NODES": lambda nodes, own: shown_nodes.nodes_text(nodes, own).encode(),
    b"SHARDS": lambda nodes, _: shown_nodes.shards_of(nodes),
    b"SLOTS": lambda nodes, _: shown_nodes.slots_of(nodes),
}
_SHOWING_SLOTS: Final = frozenset({b"NODES", b"SHARDS", b"SLOTS"})


def config(client: Client, command: Command) -> bytes:
    """Return the settings whose names match a pattern."""
    if command[1].upper() != b"GET" or len(command) < 3:
        raise unknown_subcommand(command)
    patterns = [pattern.decode("utf-8", "replace").lower() for pattern in command[2:]]
    settings: dict[replies.Value, replies.Value] = {
        name: value
        for name, value in client.server.parameters.items()
        if any(_matches(name, pattern) for pattern in patterns)
    }
    return replies.encode(settings, client.session.protocol)


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern, in which `*` stands for any text.

    Does not use `fnmatch`, which makes a regular expression of what a client sends: 30 kB of `[` take half a minute.
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


def reset(client: Client, command: Command) -> bytes:
    """Leave the stream; reset the session and the user."""
    client.leave()
    client.session.forget()
    if client.guard is not None:
        client.guard.forget()
    return replies.simple("RESET")


def quit(client: Client, command: Command) -> bytes:
    """Reply to the commands before this one, then close."""
    client.reply(replies.OK)
    client.leave()
    client.close_when_sent()
    return b""
