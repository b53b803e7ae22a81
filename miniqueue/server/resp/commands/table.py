"""The table of the RESP commands: what each requires and which function carries it out; COMMAND shows it.

To add a command, write its function, add it to `COMMANDS`, add its right to `access/rights.py`, and describe it in
docs/protocol.md; tests check all three.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from miniqueue.access.rights import COMMANDS as RIGHTS
from miniqueue.broker.runtime.notices import parse_kinds
from miniqueue.broker.transactions.acts import Act, Publish, PublishWith, Settle
from miniqueue.core.message.names import check_topic
from miniqueue.core.options.consume import StreamOptions, parse_stream_options
from miniqueue.core.options.redis_channels import is_redis_channel
from miniqueue.errors import RequestError, UnknownCommandError
from miniqueue.server.resp.commands import connection as about_connection
from miniqueue.server.resp.commands import (
    groups,
    info,
    inspect,
    leases,
    logs,
    messages,
    publish,
    receive,
    request_reply,
    schedules,
    topics,
    transaction,
)
from miniqueue.server.resp.commands.channels import Channels
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.server.resp.commands.events import MAX_UNSENT_BYTES, EventStream
from miniqueue.server.resp.commands.subscribe import Output, Stream
from miniqueue.server.resp.commands.transaction import PUBLISH, Part, Transaction, check_sizes
from miniqueue.server.views.events import resp_event, sees_events
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import ArityError, shown, unknown_subcommand
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_syntax import Syntax, encode_docs, shown_syntax


class Entry(NamedTuple):
    """A command.

    Attributes:
      arity: number of words, the name included; negative: minimum.
      syntax: arguments, in the notation of `syntax`; COMMAND DOCS and errors about the number of words show it.
      summary: purpose, for COMMAND DOCS.
      run: carries out the command; returns the reply, empty if it has been queued or comes later.
      plain_arity: the arity in errors, if the command had fewer words in the Go program.
      part: how the command is a part of the atomic part of a transaction; None if it is not.
      alone: the error if it is sent in a transaction, in which it cannot be; empty if it can.
    """

    arity: int
    syntax: Syntax
    summary: str
    run: Callable[[Client, Command], bytes]
    plain_arity: int | None = None
    part: Part | None = None
    alone: str = ""


def execute(client: Client, command: Command) -> bytes:
    """Carry out one command, if the client may send it, and return its reply; raises MiniqueueError."""
    entry = _entry_of(client, command)
    try:
        return entry.run(client, command)
    except ArityError as exc:
        raise exc.showing(shown_syntax(command, entry.syntax)) from exc


def _entry_of(client: Client, command: Command) -> Entry:
    """Return the entry of a command, if the client may send it with so many words; raises MiniqueueError."""
    if client.guard is not None:
        client.guard.check(command)
    entry = COMMANDS.get(command[0].upper())
    if entry is None:
        raise UnknownCommandError(f"unknown command '{shown(command[0])}'")
    if len(command) != entry.arity and not 0 < -entry.arity <= len(command):
        raise ArityError(entry.plain_arity or entry.arity, shown_syntax(command, entry.syntax))
    return entry


def check_queued(client: Client, command: Command) -> tuple[Part | None, Act | None]:
    """Check a command that is carried out at EXEC; return its part, and its act. Raises MiniqueueError."""
    entry = _entry_of(client, command)
    if entry.alone:
        raise RequestError(entry.alone)
    if entry.part is None:
        if entry.run is _receive:
            receive.options_of_receive(command[2:])
        return None, None
    act = entry.part.parse(command)
    check_topic(act.topic)
    if not isinstance(act, Settle):
        check_sizes(client, [act.payload] if isinstance(act, PublishWith) else act.payloads)
    return entry.part, act


def carry_out_queued(client: Client, command: Command, taken: list[Callable[[], None]]) -> bytes:
    """Carry out a command that is not in the atomic part; append to `taken` what returns the messages it leased."""
    if COMMANDS[command[0].upper()].run is _receive:
        return client.after_writes(partial(receive.receive_at_once, client, command, taken))
    return execute(client, command)


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
        output=Output(client.reply, client.send, partial(answer_later, client)),
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


_STREAM_OPTIONS = frozenset({b"PREFETCH", b"GROUP", b"MEMBER", b"SESSION", b"LEASE"})


def _stream_options(command: Command) -> StreamOptions:
    options = dict(zip(map(bytes.upper, command[2::2]), command[3::2], strict=False))
    if len(command) != 2 + 2 * len(options) or not options.keys() <= _STREAM_OPTIONS:
        raise ArityError(2)
    return parse_stream_options({name.decode().lower(): value for name, value in options.items()})


def _events(client: Client, command: Command) -> bytes:
    client.check_client()
    client.broker.memory.check()
    user = client.user
    client.mode = EventStream(
        client.broker.notices,
        parse_kinds(command[1:]),
        sees=lambda topic: sees_events(user, topic),
        send=lambda notices: client.send(b"".join(resp_event(notice, client.session.protocol) for notice in notices)),
        is_slow=lambda: client.is_slow or client.unsent_bytes > MAX_UNSENT_BYTES,
        others=_allowed(client, b"PING", b"QUIT", b"RESET"),
    )
    return replies.OK


def _multi(client: Client, _command: Command) -> bytes:
    refusal = "" if client.stream is None else "a stream has no transactions; use another connection"
    client.mode = Transaction(client, check_queued, carry_out_queued, execute, refusal)
    return replies.OK


_receive = _after_writes(receive.receive)

_PUB = Part(publish.parse_pub, lambda act, accepted: publish.pub_reply(accepted, act.options))
_MPUBLISH = Part(
    lambda command: Publish(command[1], command[2:]),
    lambda act, published: publish.mpublish_reply(published, len(act.payloads)),
)
_BATCH = Part(publish.parse_batch, lambda _, accepted: publish.batch_reply(accepted, publish.all_ids))
_PACKED = Part(publish.parse_batch, lambda _, accepted: publish.batch_reply(accepted, publish.runs_of_ids))
_SETTLE = Part(receive.parse_settle, lambda act, _: receive.settle_reply(act))

_CHANGES_CONNECTION = (
    "a command that changes the connection cannot be in a transaction; send it before MULTI or after EXEC"
)
_WAITS_FOR_CONSUMER = (
    "REQUEST cannot be in a transaction: it waits for a consumer, which gets nothing before EXEC; send it alone"
)


def _topics(client: Client, command: Command) -> bytes:
    names, user = client.broker.topics(), client.user
    if user is not None:
        names = user.seen(names)
    return replies.array_of_bulks(names)


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


def _describe(name: bytes) -> list[replies.Value] | None:
    """Return the entry of COMMAND INFO in the form of Redis 7; clients that speak RESP3 read all of it.

    Name, arity, flags; the first and the last key, and the step between keys; then lists of ACL categories, tips, key
    specifications, and subcommands. The key is the topic: clients of Redis Cluster choose the node by it.
    """
    entry = COMMANDS.get(name)
    if entry is None:
        return None
    below = [
        _described(f"{name.decode()}|{word}", -2, required.topic_at)
        for word in (entry.syntax if isinstance(entry.syntax, dict) else ())
        if (required := RIGHTS.get(b"%b %b" % (name, word.encode()))) is not None
    ]
    return _described(name.decode(), entry.arity, RIGHTS[name].topic_at, below)


def _described(name: str, arity: int, topic_at: int | None, below: Sequence[replies.Value] = ()) -> list[replies.Value]:
    keys: list[replies.Value] = [0, 0, 0] if topic_at is None else [topic_at, topic_at, 1]
    return [name.lower(), arity, ["fast"], *keys, [], [], [], list(below)]


COMMANDS: dict[bytes, Entry] = {
    b"PUBLISH": Entry(3, "topic message", "Add a message to a topic.", _publish, part=PUBLISH),
    b"PUB": Entry(
        -3,
        (
            "topic message [DELAY seconds | AT ms] [PRIORITY high|normal|low] "
            "[KEY k] [TTL seconds] [DEDUP id] [UNIQUE k [REPLACE]] [HEADER name value]..."
        ),
        "Add a message to a topic, with options; returns its id.",
        publish.pub,
        part=_PUB,
    ),
    b"MPUBLISH": Entry(
        -3,
        "topic message...",
        "Add several messages to a topic, all or none; returns their ids.",
        publish.mpublish,
        part=_MPUBLISH,
    ),
    b"PUBBATCH": Entry(
        -4, "topic id message...", "Add several messages with one deduplication id.", publish.pubbatch, part=_BATCH
    ),
    b"PUBEACH": Entry(
        -5,
        "topic id (message n [option...])...",
        "As PUBBATCH, each message with its own options.",
        publish.pubeach,
        part=_BATCH,
    ),
    b"PUBPACKED": Entry(
        -5,
        "topic id sizes messages [sizes keys]",
        "As PUBBATCH, all messages in one argument and their sizes in another.",
        publish.pubpacked,
        part=_PACKED,
    ),
    b"REQUEST": Entry(
        -3,
        "topic message [TIMEOUT seconds] [option...]",
        "Add a message to a topic and wait for its reply.",
        request_reply.request,
        alone=_WAITS_FOR_CONSUMER,
    ),
    b"REPLY": Entry(
        4,
        "topic receipt payload",
        "Acknowledge a message by its receipt and send a reply to the requester.",
        request_reply.reply,
        alone="REPLY cannot be in a transaction: the requester gets it at once; send it alone, or publish the reply",
    ),
    b"SUBSCRIBE": Entry(
        -2,
        "topic [PREFETCH n] [GROUP g] [MEMBER m [SESSION seconds]] [LEASE seconds]",
        "Receive the messages of a topic, one at a time or up to PREFETCH n.",
        _subscribe,
        plain_arity=2,
        alone=_CHANGES_CONNECTION,
    ),
    b"SUB": Entry(
        -2,
        "topic [PREFETCH n] [GROUP g] [MEMBER m [SESSION seconds]] [LEASE seconds]",
        "Alias of SUBSCRIBE.",
        _subscribe,
        plain_arity=2,
        alone=_CHANGES_CONNECTION,
    ),
    b"PSUBSCRIBE": Entry(
        -2,
        "pattern...",
        "Subscribe to channels of Redis, which carry no messages.",
        _channels,
        alone=_CHANGES_CONNECTION,
    ),
    b"UNSUBSCRIBE": Entry(
        -1, "[channel...]", "End subscriptions to channels of Redis.", _channels, alone=_CHANGES_CONNECTION
    ),
    b"PUNSUBSCRIBE": Entry(
        -1, "[pattern...]", "End subscriptions to patterns of channels of Redis.", _channels, alone=_CHANGES_CONNECTION
    ),
    b"GET": Entry(
        2,
        "topic",
        "Lease the next message of a topic to this connection; ACK topic settles it.",
        _after_writes(receive.get),
        alone="GET cannot be in a transaction; use RECEIVE, whose messages are settled by receipt",
    ),
    b"RECEIVE": Entry(
        -2,
        "topic [GROUP g] [MEMBER m] [COUNT n] [WAIT seconds] [LEASE seconds] [AUTOACK]",
        "Receive messages of a topic, leased for a time.",
        _receive,
    ),
    b"RECEIVEANY": Entry(
        -1,
        "[GROUP g] [MEMBER m] [COUNT n] [WAIT seconds] [LEASE seconds] [AUTOACK] "
        "[PATTERN pattern]... [TOPICS topic...]",
        "Receive messages of any of several topics, leased for a time.",
        _after_writes(receive.receive_any),
        alone="RECEIVEANY cannot be in a transaction; use RECEIVE, whose messages are settled by receipt",
    ),
    b"ACK": Entry(
        -1,
        "[topic [receipt...] [SYNC]]",
        "Acknowledge messages by receipt, or the message of the stream.",
        receive.settle,
        part=_SETTLE,
    ),
    b"NACK": Entry(
        -1,
        "[topic [receipt...] [SYNC]] [DELAY seconds] [REASON text]",
        "Return messages to the front of their topic, immediately or after a delay, with a reason.",
        receive.nack,
        part=_SETTLE,
    ),
    b"BACK": Entry(
        -1,
        "[topic [receipt...] [SYNC]]",
        "Return messages to the back of their topic.",
        receive.settle,
        part=_SETTLE,
    ),
    b"DACK": Entry(
        -1,
        "[topic [receipt...] [SYNC] seconds]",
        "Return messages to the front after a number of seconds.",
        receive.settle,
        part=_SETTLE,
    ),
    b"REJECT": Entry(
        -4,
        "topic receipt... [SYNC] reason",
        "Drop or dead-letter messages, with a reason.",
        receive.settle,
        part=_SETTLE,
    ),
    b"EXTEND": Entry(
        -4,
        "topic receipt... seconds",
        "Extend leases to a number of seconds from now.",
        receive.settle,
        part=_SETTLE,
    ),
    b"LEASES": Entry(
        -1,
        "[topic [GROUP g] [MEMBER m] [COUNT n] [AFTER receipt]]",
        "List the messages that this connection, a group or a member of a group holds.",
        leases.leases,
    ),
    b"GROUP": Entry(
        -3,
        {
            "CREATE": "topic group [FROM start] [EPHEMERAL] [IDLE seconds]",
            "LIST": "topic",
            "MEMBERS": "topic group",
            "HOLDERS": "topic group",
            "SEEK": "topic group start [DRYRUN]",
            "DELETE": "topic group",
        },
        "CREATE, LIST, SEEK and DELETE the groups of a topic; list their MEMBERS, and HOLDERS of leases.",
        _after_writes(groups.group),
    ),
    b"EVENTS": Entry(
        -1,
        "[type...]",
        "Report what happens in the broker, until RESET.",
        _events,
        alone=_CHANGES_CONNECTION,
    ),
    b"TOPICS": Entry(1, "", "List the topics.", _for_reader(_in_own_turn(_topics))),
    b"REDRIVE": Entry(
        -2,
        "topic [TO topic] [LIMIT n] [RATE n] [REPORT|TASK]",
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
    b"SEARCH": Entry(
        -2,
        (
            "topic [STATE ready|delayed|dead] [KEY k] [HEADER name value] [CONTAINS text] [OLDER seconds] "
            "[REASON reason] [GROUP g] [COUNT n] [SCAN n] [AFTER position]"
        ),
        "Show the messages of a topic that meet conditions.",
        _for_reader(_after_writes(messages.search)),
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
    b"MESSAGE": Entry(
        -2,
        {
            "DELETE": "topic id [GROUP g]",
            "FRONT": "topic id [GROUP g]",
            "REDRIVE": "topic id [TO topic] [GROUP g]",
            "DUE": "topic id [AT ms | DELAY seconds] [GROUP g]",
        },
        "DELETE a message, move it to the FRONT, REDRIVE a dead letter, or make a delayed one DUE.",
        _after_writes(messages.message),
    ),
    b"MESSAGES": Entry(
        -3,
        (
            "DELETE|FRONT|REDRIVE|DUE topic [condition...] [LIMIT n] [RATE n] [TO topic] [AT ms | DELAY seconds] "
            "[DRYRUN|TASK]"
        ),
        "As MESSAGE, with all messages that meet conditions; count them, or begin a task.",
        _after_writes(messages.messages),
    ),
    b"TASK": Entry(
        -2,
        {
            "LIST": "",
            "GET": "id",
            "CANCEL": "id",
        },
        "LIST, GET and CANCEL acts on many messages.",
        messages.task,
    ),
    b"SCHEDULE": Entry(
        -2,
        {
            "SET": "name (CRON expression [TZ zone] | EVERY seconds) [MISSED all|one|none] [UNTIL ms] [KEY k]"
            " [HEADER name value]... [PRIORITY high|normal|low] [TTL seconds] topic message",
            "GET": "name",
            "LIST": "[AFTER name] [COUNT n]",
            "FIRE": "name",
            "DELETE": "name",
        },
        "SET, GET, LIST, FIRE and DELETE schedules.",
        schedules.schedule,
    ),
    b"PAUSE": Entry(
        -2,
        "topic [IN|OUT|BOTH] [seconds] [GROUP g]",
        "Pause publishing to a topic (IN), delivery (OUT) to all or to one group, or BOTH, for a time or until RESUME.",
        topics.pause,
    ),
    b"RESUME": Entry(-2, "topic [IN|OUT|BOTH] [GROUP g]", "Resume a paused topic or group.", topics.resume),
    b"PURGE": Entry(
        -2,
        "topic [STATE ready|delayed] [OLDER seconds] [GROUP g] [TASK]",
        "Remove the messages of a topic, by state and age.",
        _after_writes(inspect.purge),
    ),
    b"MULTI": Entry(
        1,
        "",
        "Begin a transaction: the next commands are queued until EXEC.",
        _multi,
        alone="MULTI calls can not be nested",
    ),
    b"EXEC": Entry(1, "", "Carry out the queued commands; publishes and settles are one commit.", transaction.outside),
    b"DISCARD": Entry(1, "", "Drop the queued commands.", transaction.outside),
    b"WATCH": Entry(
        -2,
        "key...",
        "Not supported: there are no keys to watch.",
        transaction.watch,
        alone=transaction.NO_WATCH,
    ),
    b"UNWATCH": Entry(1, "", "Return OK; no key is watched.", transaction.unwatch),
    b"PING": Entry(-1, "[text]", "Return PONG, or the argument.", about_connection.ping),
    b"INFO": Entry(-1, "[section...]", "Show information about the broker.", _for_reader(_after_writes(info.info))),
    b"USAGE": Entry(
        1, "", "Show what the user, or all users, have and may have.", _for_reader(_after_writes(inspect.usage))
    ),
    b"HELLO": Entry(
        -1,
        "[2|3 [AUTH user secret] [SETNAME name]]",
        "Select the protocol version, 2 or 3.",
        about_connection.hello,
        alone=_CHANGES_CONNECTION,
    ),
    b"AUTH": Entry(-2, "[user] secret", "Authenticate.", about_connection.auth, alone=_CHANGES_CONNECTION),
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
    b"CLUSTER": Entry(
        -2,
        {
            "INFO": "",
            "KEYSLOT": "topic",
            "MYID": "",
            "NODES": "",
            "SHARDS": "",
            "SLOTS": "",
        },
        "Show the nodes and the slots that they own, as Redis Cluster does.",
        about_connection.cluster,
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
