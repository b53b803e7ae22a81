"""The RESP commands of a connection that is not subscribed: one table, from which COMMAND is answered too.

To add a command, write its function and put it into `COMMANDS`; docs/protocol.md must describe it (a test looks).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from miniqueue.core.redis_channels import is_redis_channel
from miniqueue.core.stream_options import StreamOptions, parse_stream_options
from miniqueue.errors import UnknownCommandError
from miniqueue.server import (
    resp_connecting,
    resp_get,
    resp_groups,
    resp_info,
    resp_looking,
    resp_pausing,
    resp_publish,
    resp_reading,
    resp_receive,
    resp_request,
    resp_schedules,
    resp_topics,
    resp_transaction,
)
from miniqueue.server.resp_channels import Channels
from miniqueue.server.resp_errors import ArityError, shown, unknown_subcommand
from miniqueue.server.resp_stream import Stream
from miniqueue.server.resp_syntax import Syntax, encode_docs, shown_syntax
from miniqueue.server.resp_transaction import RefusedTransaction
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


class Entry(NamedTuple):
    """A command: how many words it has with its name (negative: at least), its syntax, what it does, what runs it.

    `syntax` is what `resp_syntax` reads; COMMAND DOCS and errors about the number of words show it. `plain_arity` is
    what the error about a wrong number says, where the Go program knew no more words.
    """

    arity: int
    syntax: Syntax
    summary: str
    run: "Callable[[RespConnection, Command], bytes]"
    plain_arity: int | None = None


def execute(connection: "RespConnection", command: Command) -> bytes:
    """Carry out one command, if its sender may, and return its reply; raises MiniqueueError."""
    if connection.guard is not None:
        connection.guard.check(command)
    entry = COMMANDS.get(command[0].upper())
    if entry is None:
        raise UnknownCommandError(f"unknown command '{shown(command[0])}'")
    if len(command) != entry.arity and not 0 < -entry.arity <= len(command):
        raise ArityError(entry.plain_arity or entry.arity, shown_syntax(command, entry.syntax))
    try:
        return entry.run(connection, command)
    except ArityError as exc:
        raise exc.showing(shown_syntax(command, entry.syntax)) from exc


# --- messages and topics -------------------------------------------------------------------------------------


def _after_writes(run: "Callable[[RespConnection, Command], bytes]") -> "Callable[[RespConnection, Command], bytes]":
    """Have a command that looks at what is committed see what its own connection has written before."""

    def run_after_writes(connection: "RespConnection", command: Command) -> bytes:
        return connection.after_writes(partial(run_showing_syntax, connection, command))

    def run_showing_syntax(connection: "RespConnection", command: Command) -> bytes:
        try:
            return run(connection, command)
        except ArityError as exc:  # this may be later, and `execute` be over
            raise exc.showing(shown_syntax(command, COMMANDS[command[0].upper()].syntax)) from exc

    return run_after_writes


def _publish(connection: "RespConnection", command: Command) -> bytes:
    connection.publish(command[1], [command[2]])
    return b""


def _subscribe(connection: "RespConnection", command: Command) -> bytes:
    if command[0].upper() == b"SUBSCRIBE" and is_redis_channel(command[1]):
        return _channels(connection, command)

    def end() -> None:
        connection.leave()
        connection.close_soon()

    stream = Stream(
        connection.broker,
        command[1],
        _stream_options(command),
        reply=connection.reply,
        send=connection.send,
        otherwise=_otherwise(connection, b"PING", b"QUIT", b"RESET", b"MULTI"),
        end=end,
    )
    stream.start()
    connection.stream = connection.mode = stream
    return b""


def _channels(connection: "RespConnection", command: Command) -> bytes:
    """Carry out what subscribes to channels of Redis, and what ends that, where there is none yet."""

    def end() -> None:
        connection.mode = None

    channels = Channels(connection.session, partial(execute, connection), end)
    reply = channels.execute(command)
    if channels.count:
        connection.mode = channels
    return reply


def _otherwise(connection: "RespConnection", *words: bytes) -> dict[bytes, Callable[[Command], bytes]]:
    return {word: partial(execute, connection) for word in words}


_STREAM_OPTIONS = frozenset({b"PREFETCH", b"GROUP", b"MEMBER", b"SESSION"})


def _stream_options(command: Command) -> StreamOptions:
    options = dict(zip(map(bytes.upper, command[2::2]), command[3::2], strict=False))
    if len(command) != 2 + 2 * len(options) or not options.keys() <= _STREAM_OPTIONS:
        raise ArityError(2)
    return parse_stream_options({name.decode().lower(): value for name, value in options.items()})


def _multi(connection: "RespConnection", _command: Command) -> bytes:
    before = connection.mode

    def end() -> None:
        connection.mode = before

    connection.mode = RefusedTransaction(_otherwise(connection, b"RESET", b"QUIT"), end)
    return replies.OK


def _topics(connection: "RespConnection", command: Command) -> bytes:
    names, guard = connection.broker.topics(), connection.guard
    if guard is not None and guard.user is not None:
        names = list(filter(guard.user.sees, names))
    return replies.array([replies.bulk(name) for name in names])


def _command(connection: "RespConnection", command: Command) -> bytes:
    protocol = connection.session.protocol
    subcommand = command[1].upper() if len(command) > 1 else b""
    names = [word.upper() for word in command[2:]] or list(COMMANDS)
    if subcommand == b"COUNT":
        return replies.integer(len(COMMANDS))
    if subcommand == b"DOCS":
        known = [name for name in dict.fromkeys(names) if name in COMMANDS]
        return replies.map_of([(replies.bulk(name.lower()), _docs(name, protocol)) for name in known], protocol)
    if subcommand in (b"", b"INFO"):
        return replies.encode([_describe(name) for name in names], protocol)
    raise unknown_subcommand(command)


@cache
def _docs(name: bytes, protocol: int) -> bytes:
    entry = COMMANDS[name]
    return encode_docs(name.decode().lower(), entry.summary, entry.syntax, protocol)


def _describe(name: bytes) -> list[str | int | list[str]] | None:
    """Return what COMMAND INFO says since Redis 7, of which clients that speak RESP3 read all.

    Name, arity, flags; three zeros, for no argument is a Redis key; then no ACL categories, tips, key
    specifications or subcommands.
    """
    entry = COMMANDS.get(name)
    return [name.decode().lower(), entry.arity, ["fast"], 0, 0, 0, [], [], [], []] if entry else None


COMMANDS: dict[bytes, Entry] = {
    b"PUBLISH": Entry(3, "topic message", "Add a message to a topic.", _publish),
    b"PUB": Entry(
        -3,
        (
            "topic message [DELAY seconds | AT ms] [PRIORITY high|normal|low] "
            "[KEY k] [TTL seconds] [DEDUP id] [UNIQUE k] [HEADER name value]..."
        ),
        "Add a message to a topic, with options; answers its id.",
        resp_publish.pub,
    ),
    b"MPUBLISH": Entry(
        -3,
        "topic message...",
        "Add several messages to a topic, all or none; answers their ids.",
        resp_publish.mpublish,
    ),
    b"PUBBATCH": Entry(
        -4, "topic id message...", "Add several messages under one id against duplicates.", resp_publish.pubbatch
    ),
    b"PUBEACH": Entry(
        -5,
        "topic id (message n [option...])...",
        "The same, each message with options of its own.",
        resp_publish.pubeach,
    ),
    b"PUBPACKED": Entry(
        -5,
        "topic id sizes messages [sizes keys]",
        "The same, all messages in one word and their sizes in another.",
        resp_publish.pubpacked,
    ),
    b"REQUEST": Entry(
        -3,
        "topic message [TIMEOUT seconds] [option...]",
        "Add a message to a topic and wait for the reply to it.",
        resp_request.request,
    ),
    b"REPLY": Entry(
        4, "topic receipt payload", "Settle a message by its receipt and pass a reply to who waits.", resp_request.reply
    ),
    b"SUBSCRIBE": Entry(
        -2,
        "topic [PREFETCH n] [GROUP g] [MEMBER m [SESSION seconds]]",
        "Receive the messages of a topic, one after the other or PREFETCH n at a time.",
        _subscribe,
        plain_arity=2,
    ),
    b"SUB": Entry(
        -2,
        "topic [PREFETCH n] [GROUP g] [MEMBER m [SESSION seconds]]",
        "The same as SUBSCRIBE.",
        _subscribe,
        plain_arity=2,
    ),
    b"PSUBSCRIBE": Entry(-2, "pattern...", "Subscribe to channels of Redis, which carry no messages.", _channels),
    b"UNSUBSCRIBE": Entry(-1, "[channel...]", "End subscriptions to channels of Redis.", _channels),
    b"PUNSUBSCRIBE": Entry(-1, "[pattern...]", "End subscriptions to patterns of such channels.", _channels),
    b"GET": Entry(
        2,
        "topic",
        "Take the next message of a topic, for this connection; ACK topic settles it.",
        _after_writes(resp_get.get),
    ),
    b"RECEIVE": Entry(
        -2,
        "topic [GROUP g] [MEMBER m] [COUNT n] [WAIT seconds] [LEASE seconds] [AUTOACK]",
        "Receive messages of a topic once, leased for a time.",
        _after_writes(resp_receive.receive),
    ),
    b"ACK": Entry(
        -1,
        "[topic [receipt...]]",
        "Settle messages by receipt, or the one of the stream: they are done.",
        resp_receive.settle,
    ),
    b"NACK": Entry(-1, "[topic [receipt...]]", "Return messages to the front of their topic.", resp_receive.settle),
    b"BACK": Entry(-1, "[topic [receipt...]]", "Return messages to the back of their topic.", resp_receive.settle),
    b"DACK": Entry(
        -1,
        "[topic [receipt...] seconds]",
        "Return messages to the front after a number of seconds.",
        resp_receive.settle,
    ),
    b"REJECT": Entry(-4, "topic receipt... reason", "Give messages up, for a reason.", resp_receive.settle),
    b"EXTEND": Entry(
        -4, "topic receipt... seconds", "Have leases end a number of seconds from now.", resp_receive.settle
    ),
    b"GROUP": Entry(
        -3,
        {
            "CREATE": "topic group [FROM start]",
            "LIST": "topic",
            "MEMBERS": "topic group",
            "SEEK": "topic group start [DRYRUN]",
            "DELETE": "topic group",
        },
        "CREATE, LIST, SEEK and DELETE the groups that read a topic, list MEMBERS.",
        _after_writes(resp_groups.group),
    ),
    b"TOPICS": Entry(1, "", "List the topics.", _after_writes(_topics)),
    b"REDRIVE": Entry(
        -2,
        "topic [TO topic] [LIMIT n] [RATE n] [REPORT]",
        "Move dead letters back to where they came from.",
        _after_writes(resp_topics.redrive),
    ),
    b"TOPIC": Entry(
        -2,
        {
            "CREATE": "topic [name value]...",
            "SET": "topic (name value)...",
            "GET": "topic",
            "DELETE": "topic",
        },
        "CREATE, SET, GET and DELETE topics and their settings.",
        resp_topics.topic,
    ),
    b"LEN": Entry(
        -2,
        "topic [GROUP g]",
        "Count the messages of a topic, or a group, that are not acknowledged.",
        _after_writes(resp_looking.length),
    ),
    b"STATS": Entry(
        -1, "[topic [GROUP g]]", "Tell the figures of a group, a topic, or all.", _after_writes(resp_looking.stats)
    ),
    b"PEEK": Entry(
        -2,
        "topic [ID id | [STATE ready|leased|delayed|dead] [COUNT n] [AFTER id]] [GROUP g]",
        "Show messages of a topic without taking them.",
        _after_writes(resp_looking.peek),
    ),
    b"TRACE": Entry(3, "topic id", "Tell what happened to a message.", _after_writes(resp_looking.trace)),
    b"READ": Entry(
        -4,
        "topic partition (offset | TIME ms) [COUNT n] [BYTES n]",
        "Read messages of a partition from an offset or a time on.",
        _after_writes(resp_reading.read),
    ),
    b"PARTITIONS": Entry(
        2,
        "topic",
        "List the partitions of a topic, and what can be read of each.",
        _after_writes(resp_reading.partitions),
    ),
    b"CANCEL": Entry(3, "topic id", "Remove a message that is not due yet.", _after_writes(resp_looking.cancel)),
    b"SCHEDULE": Entry(
        -2,
        {
            "SET": "name (CRON expression [TZ zone] | EVERY seconds) [MISSED all|one|none] topic message",
            "GET": "name",
            "LIST": "[AFTER name] [COUNT n]",
            "DELETE": "name",
        },
        "SET, GET, LIST and DELETE schedules.",
        resp_schedules.schedule,
    ),
    b"PAUSE": Entry(
        -2,
        "topic [IN|OUT|BOTH] [seconds]",
        "Stop a topic, on the way IN, OUT or BOTH, for a time or until RESUME.",
        resp_pausing.pause,
    ),
    b"RESUME": Entry(-2, "topic [IN|OUT|BOTH]", "Let a topic go on.", resp_pausing.resume),
    b"PURGE": Entry(
        -2,
        "topic [STATE ready|delayed] [OLDER seconds] [GROUP g]",
        "Remove the messages of a topic, by state and age.",
        _after_writes(resp_looking.purge),
    ),
    b"MULTI": Entry(1, "", "Begin a transaction, all of which is refused.", _multi),
    b"EXEC": Entry(1, "", "End a transaction; nothing of it was carried out.", resp_transaction.outside),
    b"DISCARD": Entry(1, "", "End a transaction; nothing of it was carried out.", resp_transaction.outside),
    b"WATCH": Entry(-2, "key...", "Is refused, as transactions are.", resp_transaction.watch),
    b"UNWATCH": Entry(1, "", "Answer OK; nothing is watched.", resp_transaction.unwatch),
    b"PING": Entry(-1, "[text]", "Answer PONG, or what was sent.", resp_connecting.ping),
    b"INFO": Entry(-1, "[section...]", "Tell about this broker.", _after_writes(resp_info.info)),
    b"HELLO": Entry(
        -1, "[2|3 [AUTH user secret] [SETNAME name]]", "Choose the protocol version, 2 or 3.", resp_connecting.hello
    ),
    b"AUTH": Entry(-2, "[user] secret", "Say who you are.", resp_connecting.auth),
    b"CLIENT": Entry(
        -2,
        {
            "ID": "",
            "GETNAME": "",
            "SETNAME": "name",
            "SETINFO": "LIB-NAME|LIB-VER text",
            "LIST": "",
            "NO-EVICT": "on|off",
            "NO-TOUCH": "on|off",
        },
        "Ask and tell about connections.",
        resp_connecting.client,
    ),
    b"COMMAND": Entry(
        -1,
        {
            "INFO": "[name...]",
            "COUNT": "",
            "DOCS": "[name...]",
        },
        "List the commands.",
        _command,
    ),
    b"CONFIG": Entry(
        -2,
        {
            "GET": "pattern...",
        },
        "CONFIG GET pattern shows settings.",
        resp_connecting.config,
    ),
    b"SELECT": Entry(2, "0", "Choose the database; there is only 0.", resp_connecting.select),
    b"ECHO": Entry(2, "text", "Answer what was sent.", resp_connecting.echo),
    b"RESET": Entry(1, "", "Leave the stream and forget what the client said about itself.", resp_connecting.reset),
    b"QUIT": Entry(-1, "", "Answer what was asked, then close the connection.", resp_connecting.quit),
}
