"""The RESP commands that look into topics: LEN, STATS, PEEK and TRACE; and PURGE and CANCEL.

What must read the store is done beside the connection, which carries out nothing meanwhile, so that its replies keep
their order; other connections go on.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from miniqueue.access.rights import Right
from miniqueue.broker.peeking import DEFAULT_COUNT, State, parse_count, parse_state
from miniqueue.core.delay import parse_delay
from miniqueue.core.delayed_id import parse_any_id, parse_delayed_id
from miniqueue.errors import MiniqueueError, RequestError
from miniqueue.server.groups_shown import shown_group
from miniqueue.server.resp_errors import ArityError, shown
from miniqueue.server.resp_output import Waiting
from miniqueue.server.seen import resp_message, resp_messages
from miniqueue.server.traced import resp_steps
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

log = structlog.get_logger()


def length(connection: "RespConnection", command: Command) -> bytes:
    """Carry out LEN, of a topic or of a group."""
    group = options_of(command, 2, (b"GROUP",)).get(b"GROUP")
    return replies.integer(connection.broker.looker.depth(command[1], group))


def stats(connection: "RespConnection", command: Command) -> bytes:
    """Carry out STATS, of a group, a topic or all."""
    if len(command) not in (1, 2, 4):
        raise ArityError(2)
    group = options_of(command, 2, (b"GROUP",)).get(b"GROUP")
    if len(command) == 1 and connection.guard is not None:
        connection.guard.check_everything(Right.MONITOR, command)
    looker, protocol = connection.broker.looker, connection.session.protocol

    async def reply() -> bytes:
        if group is not None:
            return replies.encode(shown_group(await connection.broker.groups.figures_of(command[1], group)), protocol)
        figures = await (looker.totals() if len(command) == 1 else looker.stats(command[1]))
        pairs = [(replies.encode(name, protocol), replies.encode(figures[name], protocol)) for name in figures]
        return replies.map_of(pairs, protocol)

    return answer_later(connection, reply())


def peek(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PEEK."""
    options = options_of(command, 2, (b"STATE", b"COUNT", b"AFTER", b"ID", b"GROUP"))
    return answer_later(connection, _peek(connection, command[1], options))


async def _peek(connection: "RespConnection", topic: bytes, options: dict[bytes, bytes]) -> bytes:
    peeker, protocol = connection.broker.peeker, connection.session.protocol
    if b"ID" in options:
        if options.keys() - {b"ID", b"GROUP"}:
            raise RequestError("PEEK takes ID alone")
        return resp_message(await peeker.find(topic, parse_any_id(options[b"ID"]), options.get(b"GROUP")), protocol)
    state = parse_state(options[b"STATE"]) if b"STATE" in options else State.READY
    count = parse_count(options[b"COUNT"]) if b"COUNT" in options else DEFAULT_COUNT
    after = parse_any_id(options[b"AFTER"]) if b"AFTER" in options else None
    return resp_messages(await peeker.peek(topic, state, count, after, options.get(b"GROUP")), protocol)


def trace(connection: "RespConnection", command: Command) -> bytes:
    """Carry out TRACE."""
    message_id, protocol = parse_any_id(command[2]), connection.session.protocol
    user = None if connection.guard is None else connection.guard.user
    sees = None if user is None else partial(user.may, Right.MONITOR)

    async def reply() -> bytes:
        return resp_steps(await connection.broker.traces.trace(command[1], message_id, sees), protocol)

    return answer_later(connection, reply())


def cancel(connection: "RespConnection", command: Command) -> bytes:
    """Carry out CANCEL."""
    delayed_id = parse_delayed_id(command[2])

    async def reply() -> bytes:
        await connection.broker.delayer.cancel(command[1], delayed_id)
        return replies.OK

    return answer_later(connection, reply())


def purge(connection: "RespConnection", command: Command) -> bytes:
    """Carry out PURGE."""
    options = options_of(command, 2, (b"STATE", b"OLDER", b"GROUP"))
    state = parse_state(options[b"STATE"]) if b"STATE" in options else None
    older = parse_delay(options[b"OLDER"].decode("utf-8", "replace")) if b"OLDER" in options else None

    async def reply() -> bytes:
        group = options.get(b"GROUP")
        return replies.integer(await connection.broker.clearer.purge(command[1], state, older, group))

    return answer_later(connection, reply())


def options_of(command: Command, start: int, names: tuple[bytes, ...]) -> dict[bytes, bytes]:
    """Return what a command says from word `start` on, in pairs of a name and a value.

    Raises RequestError for a name that is not among `names`, is there twice, or has no value.
    """
    options: dict[bytes, bytes] = {}
    for index in range(start, len(command), 2):
        name = command[index].upper()
        if name not in names or name in options or index + 1 == len(command):
            raise RequestError(f"syntax error at '{shown(command[index])}'")
        options[name] = command[index + 1]
    return options


def answer_later(connection: "RespConnection", work: Awaitable[bytes], waiting: Waiting | None = None) -> bytes:
    """Hold the connection until `work` has made the reply; what it raises is the reply otherwise.

    `waiting`, if given, hears when the client leaves.
    """
    connection.hold(waiting)
    task = asyncio.get_running_loop().create_task(_answer(connection, work))
    connection.tasks.add(task)
    task.add_done_callback(connection.tasks.discard)
    return b""


async def _answer(connection: "RespConnection", work: Awaitable[bytes]) -> None:
    try:
        reply = await work
    except MiniqueueError as exc:
        reply = replies.error(exc.code, str(exc))
    except Exception:  # a bug of ours must not leave the connection held for ever
        log.exception("a RESP command failed")
        reply = replies.error("ERR", "internal error, the broker's log has it")
    connection.release(reply)
