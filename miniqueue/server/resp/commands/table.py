"""The table of the RESP commands: what each requires and which function carries it out; COMMAND shows it.

To add a command, write its function, add it to `COMMANDS`, add its right to `access/rights.py`, and describe it in
docs/protocol.md; tests check all three.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from miniqueue.core.options.consume import StreamOptions, parse_stream_options
from miniqueue.core.options.redis_channels import is_redis_channel
from miniqueue.errors import UnknownCommandError
from miniqueue.server.resp.commands import connection as about_connection
from miniqueue.server.resp.commands import (
    groups,
    info,
    inspect,
    leases,
    logs,
    publish,
    receive,
    request_reply,
    schedules,
    topics,
    transaction,
)
from miniqueue.server.resp.commands.arguments import ArityError, shown, unknown_subcommand
from miniqueue.server.resp.commands.channels import Channels
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.resp.commands.subscribe import Stream
from miniqueue.server.resp.commands.syntax import Syntax, encode_docs, shown_syntax
from miniqueue.server.resp.commands.transaction import RefusedTransaction
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command


class Entry(NamedTuple):
    """A command.

    Attributes:
      arity: number of words, the name included; negative: minimum.
      syntax: arguments, in the notation of `syntax`; COMMAND DOCS and errors about the number of words show it.
      summary: purpose, for COMMAND DOCS.
      run: carries out the command; returns the reply, empty if it has been queued or comes later.
      plain_arity: the arity in errors, if the command had fewer words in the Go program.
    """

    arity: int
    syntax: Syntax
    summary: str
    run: Callable[[Client, Command], bytes]
    plain_arity: int | None = None


def execute(client: Client, command: Command) -> bytes:
    """Carry out one command, if the client may send it, and return its reply; raises MiniqueueError."""
    if client.guard is not None:
        client.guard.check(command)
    entry = COMMANDS.get(command[0].upper())
    if entry is None:
        raise UnknownCommandError(f"unknown command '{shown(command[0])}'")
    if len(command) != entry.arity and not 0 < -entry.arity <= len(command):
        raise ArityError(entry.plain_arity or entry.arity, shown_syntax(command, entry.syntax))
    try:
        return entry.run(client, command)
    except ArityError as exc:
        raise exc.showing(shown_syntax(command, entry.syntax)) from exc


# --- messages and topics -------------------------------------------------------------------------------------


def _after_writes(run: Callable[[Client, Command], bytes]) -> Callable[[Client, Command], bytes]:
    """Delay a command that reads committed data until what its connection has written before is committed."""

    def run_after_writes(client: Client, command: Command) -> bytes:
        return client.after_writes(partial(run_showing_syntax, client, command))

    def run_showing_syntax(client: Client, command: Command) -> bytes:
        try:
            return run(client, command)
        except ArityError as exc:  # this can run later, after `execute` has returned
            raise exc.showing(shown_syntax(command, COMMANDS[command[0].upper()].syntax)) from exc

    return run_after_writes


def _in_own_turn(run: Callable[[Client, Command], bytes]) -> Callable[[Client, Command], bytes]:
    """Carry out in a turn of its own a command whose work grows with the number of topics or connections."""

    def run_in_own_turn(client: Client, command: Command) -> bytes:
        return client.in_own_turn(partial(run, client, command))

    return run_in_own_turn


def _for_reader(run: Callable[[Client, Command], bytes]) -> Callable[[Client, Command], bytes]:
    """Skip a command that does nothing but show something, if the client that sent it has gone."""

    def run_for_reader(client: Client, command: Command) -> bytes:
        client.check_client()
        return run(client, command)

    return run_for_reader


def _publish(client: Client, command: Command) -> bytes:
    client.publish(command[1], [command[2]])
    return b""


def _subscribe(client: Client, command: Command) -> bytes:
    if command[0].upper() == b"SUBSCRIBE" and is_redis_channel(command[1]):
        return _channels(client, command)
    client.check_client()

    def end() -> None:
        client.leave()
        client.close_soon()

    stream = Stream(
        client.broker,
        command[1],
        _stream_options(command),
        reply=client.reply,
        send=client.send,
        others=_allowed(client, b"PING", b"QUIT", b"RESET", b"MULTI", b"LEASES"),
        end=end,
    )
    stream.start()
    client.stream = client.mode = stream
    return b""


def _channels(client: Client, command: Command) -> bytes:
    """Subscribe to channels of Redis, or unsubscribe, on a connection that has not subscribed yet."""

    def end() -> None:
        client.mode = None

    channels = Channels(client.session, partial(execute, client), end)
    reply = channels.execute(command)
    if channels.count:
        client.mode = channels
    return reply


def _allowed(client: Client, *words: bytes) -> dict[bytes, Callable[[Command], bytes]]:
    """Return the commands with these names, for a mode in which no others of the table are allowed."""
    return {word: partial(execute, client) for word in words}


_STREAM_OPTIONS = frozenset({b"PREFETCH", b"GROUP", b"MEMBER", b"SESSION"})


def _stream_options(command: Command) -> StreamOptions:
    options = dict(zip(map(bytes.upper, command[2::2]), command[3::2], strict=False))
    if len(command) != 2 + 2 * len(options) or not options.keys() <= _STREAM_OPTIONS:
        raise ArityError(2)
    return parse_stream_options({name.decode().lower(): value for name, value in options.items()})


def _multi(client: Client, _command: Command) -> bytes:
    before = client.mode

    def end() -> None:
        client.mode = before

    client.mode = RefusedTransaction(_allowed(client, b"RESET", b"QUIT"), end)
    return replies.OK


def _topics(client: Client, command: Command) -> bytes:
    names, user = client.broker.topics(), None if client.guard is None else client.guard.user
    if user is not None:
        names = user.seen(names)
    return replies.array([replies.bulk(name) for name in names])


def _command(client: Client, command: Command) -> bytes:
    protocol = client.session.protocol
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
    """Return the entry of COMMAND INFO in the form of Redis 7; clients that speak RESP3 read all of it.

    Name, arity, flags; three zeros, since no argument is a Redis key; then empty lists of ACL categories, tips, key
    specifications and subcommands.
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
        "Add a message to a topic, with options; returns its id.",
        publish.pub,
    ),
    b"MPUBLISH": Entry(
        -3,
        "topic message...",
        "Add several messages to a topic, all or none; returns their ids.",
        publish.mpublish,
    ),
    b"PUBBATCH": Entry(-4, "topic id message...", "Add several messages with one deduplication id.", publish.pubbatch),
    b"PUBEACH": Entry(
        -5,
        "topic id (message n [option...])...",
        "As PUBBATCH, each message with its own options.",
        publish.pubeach,
    ),
    b"PUBPACKED": Entry(
        -5,
        "topic id sizes messages [sizes keys]",
        "As PUBBATCH, all messages in one argument and their sizes in another.",
        publish.pubpacked,
    ),
    b"REQUEST": Entry(
        -3,
        "topic message [TIMEOUT seconds] [option...]",
        "Add a message to a topic and wait for its reply.",
        request_reply.request,
    ),
    b"REPLY": Entry(
        4,
        "topic receipt payload",
        "Acknowledge a message by its receipt and send a reply to the requester.",
        request_reply.reply,
    ),
    b"SUBSCRIBE": Entry(
        -2,
        "topic [PREFETCH n] [GROUP g] [MEMBER m [SESSION seconds]]",
        "Receive the messages of a topic, one at a time or up to PREFETCH n.",
        _subscribe,
        plain_arity=2,
    ),
    b"SUB": Entry(
        -2,
        "topic [PREFETCH n] [GROUP g] [MEMBER m [SESSION seconds]]",
        "Alias of SUBSCRIBE.",
        _subscribe,
        plain_arity=2,
    ),
    b"PSUBSCRIBE": Entry(-2, "pattern...", "Subscribe to channels of Redis, which carry no messages.", _channels),
    b"UNSUBSCRIBE": Entry(-1, "[channel...]", "End subscriptions to channels of Redis.", _channels),
    b"PUNSUBSCRIBE": Entry(-1, "[pattern...]", "End subscriptions to patterns of channels of Redis.", _channels),
    b"GET": Entry(
        2,
        "topic",
        "Lease the next message of a topic to this connection; ACK topic settles it.",
        _after_writes(receive.get),
    ),
    b"RECEIVE": Entry(
        -2,
        "topic [GROUP g] [MEMBER m] [COUNT n] [WAIT seconds] [LEASE seconds] [AUTOACK]",
        "Receive messages of a topic, leased for a time.",
        _after_writes(receive.receive),
    ),
    b"ACK": Entry(
        -1,
        "[topic [receipt...]]",
        "Acknowledge messages by receipt, or the message of the stream.",
        receive.settle,
    ),
    b"NACK": Entry(-1, "[topic [receipt...]]", "Return messages to the front of their topic.", receive.settle),
    b"BACK": Entry(-1, "[topic [receipt...]]", "Return messages to the back of their topic.", receive.settle),
    b"DACK": Entry(
        -1,
        "[topic [receipt...] seconds]",
        "Return messages to the front after a number of seconds.",
        receive.settle,
    ),
    b"REJECT": Entry(-4, "topic receipt... reason", "Drop or dead-letter messages, with a reason.", receive.settle),
    b"EXTEND": Entry(-4, "topic receipt... seconds", "Extend leases to a number of seconds from now.", receive.settle),
    b"LEASES": Entry(
        -1,
        "[topic [GROUP g] [MEMBER m] [COUNT n] [AFTER receipt]]",
        "List the messages that this connection, a group or a member of a group holds.",
        leases.leases,
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
        "CREATE, LIST, SEEK and DELETE the groups of a topic; list their MEMBERS.",
        _after_writes(groups.group),
    ),
    b"TOPICS": Entry(1, "", "List the topics.", _for_reader(_in_own_turn(_topics))),
    b"REDRIVE": Entry(
        -2,
        "topic [TO topic] [LIMIT n] [RATE n] [REPORT]",
        "Move dead letters back to their topics, or to another topic.",
        _after_writes(topics.redrive),
    ),
    b"TOPIC": Entry(
        -2,
        {
            "CREATE": "topic [name value]...",
            "SET": "topic (name value)...",
            "GET": "topic",
            "DELETE": "topic",
            "HELP": "",
        },
        "CREATE, SET, GET and DELETE topics and their settings; HELP lists the settings.",
        topics.topic,
    ),
    b"LEN": Entry(
        -2,
        "topic [GROUP g]",
        "Count the unacknowledged messages of a topic or a group.",
        _for_reader(_after_writes(inspect.length)),
    ),
    b"STATS": Entry(
        -1,
        "[topic [GROUP g]]",
        "Return the statistics of a group, a topic, or all topics.",
        _for_reader(_after_writes(inspect.stats)),
    ),
    b"PEEK": Entry(
        -2,
        "topic [ID id | [STATE ready|leased|delayed|dead] [COUNT n] [AFTER id]] [GROUP g]",
        "Show messages of a topic without leasing them.",
        _for_reader(_after_writes(inspect.peek)),
    ),
    b"TRACE": Entry(3, "topic id", "Show the trace of a message.", _for_reader(_after_writes(inspect.trace))),
    b"READ": Entry(
        -4,
        "topic partition (offset | TIME ms) [COUNT n] [BYTES n]",
        "Read messages of a partition, starting at an offset or a time.",
        _for_reader(_after_writes(logs.read)),
    ),
    b"PARTITIONS": Entry(
        2,
        "topic",
        "List the partitions of a topic and their readable offsets.",
        _for_reader(_after_writes(logs.partitions)),
    ),
    b"CANCEL": Entry(3, "topic id", "Remove a message that is not due yet.", _after_writes(inspect.cancel)),
    b"SCHEDULE": Entry(
        -2,
        {
            "SET": "name (CRON expression [TZ zone] | EVERY seconds) [MISSED all|one|none] topic message",
            "GET": "name",
            "LIST": "[AFTER name] [COUNT n]",
            "DELETE": "name",
        },
        "SET, GET, LIST and DELETE schedules.",
        schedules.schedule,
    ),
    b"PAUSE": Entry(
        -2,
        "topic [IN|OUT|BOTH] [seconds]",
        "Pause publishing to a topic (IN), delivery (OUT), or BOTH, for a time or until RESUME.",
        topics.pause,
    ),
    b"RESUME": Entry(-2, "topic [IN|OUT|BOTH]", "Resume a paused topic.", topics.resume),
    b"PURGE": Entry(
        -2,
        "topic [STATE ready|delayed] [OLDER seconds] [GROUP g]",
        "Remove the messages of a topic, by state and age.",
        _after_writes(inspect.purge),
    ),
    b"MULTI": Entry(1, "", "Begin a transaction; its commands are refused.", _multi),
    b"EXEC": Entry(1, "", "End a transaction; none of its commands was carried out.", transaction.outside),
    b"DISCARD": Entry(1, "", "End a transaction; none of its commands was carried out.", transaction.outside),
    b"WATCH": Entry(-2, "key...", "Not supported, as there are no transactions.", transaction.watch),
    b"UNWATCH": Entry(1, "", "Return OK; no key is watched.", transaction.unwatch),
    b"PING": Entry(-1, "[text]", "Return PONG, or the argument.", about_connection.ping),
    b"INFO": Entry(-1, "[section...]", "Show information about the broker.", _for_reader(_after_writes(info.info))),
    b"USAGE": Entry(
        1, "", "Show what the user, or all users, have and may have.", _for_reader(_after_writes(inspect.usage))
    ),
    b"HELLO": Entry(
        -1, "[2|3 [AUTH user secret] [SETNAME name]]", "Select the protocol version, 2 or 3.", about_connection.hello
    ),
    b"AUTH": Entry(-2, "[user] secret", "Authenticate.", about_connection.auth),
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
        "Get and set properties of the connection, and list connections.",
        about_connection.client_command,
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
        "Show the settings that match a pattern.",
        about_connection.config,
    ),
    b"SELECT": Entry(2, "0", "Select the database; there is only 0.", about_connection.select),
    b"ECHO": Entry(2, "text", "Return the argument.", about_connection.echo),
    b"RESET": Entry(1, "", "Leave the stream; reset the session and the user.", about_connection.reset),
    b"QUIT": Entry(-1, "", "Reply to the commands before it, then close the connection.", about_connection.quit),
}
