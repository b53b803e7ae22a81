"""Commands that inspect topics and users: LEN, STATS, PEEK, TRACE, USAGE; and that remove messages: PURGE, CANCEL.

A command that reads the store runs in the background and holds its connection, so that replies stay in order; other
connections continue.
"""

from collections.abc import Mapping
from functools import partial

from miniqueue.access.rights import Right
from miniqueue.access.users import viewed_by
from miniqueue.broker.acts.requests import purge_task
from miniqueue.broker.inspect.peek import DEFAULT_COUNT
from miniqueue.broker.inspect.peeked import State, parse_count, parse_state
from miniqueue.broker.inspect.usage import Usage
from miniqueue.core.message.ids import parse_any_id, parse_delayed_id
from miniqueue.core.options.durations import parse_seconds
from miniqueue.errors import RequestError
from miniqueue.server.resp.commands.context import Client, answer_later, begin_task
from miniqueue.server.views.groups import shown_group
from miniqueue.server.views.messages import resp_message, resp_messages
from miniqueue.server.views.outbox import outbox_fields
from miniqueue.server.views.traces import resp_steps
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import ArityError, options_of, without_flag
from miniqueue.wire.resp_parser import Command


def length(client: Client, command: Command) -> bytes:
    """Carry out LEN for a topic or a group."""
    group = options_of(command, 2, (b"GROUP",)).get(b"GROUP")
    return replies.integer(client.broker.inspect.depth(command[1], group))


def stats(client: Client, command: Command) -> bytes:
    """Carry out STATS for a group, a topic, or all topics."""
    if len(command) not in (1, 2, 4):
        raise ArityError(2)
    group = options_of(command, 2, (b"GROUP",)).get(b"GROUP")
    if len(command) == 1 and client.guard is not None:
        client.guard.check_everything(Right.MONITOR, command)
    inspection, protocol = client.broker.inspect, client.session.protocol

    async def reply() -> bytes:
        if group is not None:
            return replies.encode(shown_group(await client.broker.groups.figures_of(command[1], group)), protocol)
        is_of_all = len(command) == 1
        figures = await (inspection.totals() if is_of_all else inspection.stats(command[1]))
        shown = figures | (outbox_fields(client.broker) if is_of_all else {})
        pairs = [(replies.encode(name, protocol), replies.encode(value, protocol)) for name, value in shown.items()]
        return replies.map_of(pairs, protocol)

    return answer_later(client, reply())


def usage(client: Client, _command: Command) -> bytes:
    """Carry out USAGE: return what the user has, or all users have, and may have."""
    viewed = viewed_by(client.user)

    async def reply() -> bytes:
        return replies.encode([_usage(each) for each in await client.broker.usage(viewed)], client.session.protocol)

    return answer_later(client, reply())


def _usage(usage: Usage) -> dict[replies.Value, replies.Value]:
    return {name: dict(value.items()) if isinstance(value, Mapping) else value for name, value in usage.items()}


def peek(client: Client, command: Command) -> bytes:
    """Carry out PEEK."""
    options = options_of(command, 2, (b"STATE", b"COUNT", b"AFTER", b"ID", b"GROUP"))
    return answer_later(client, _peek(client, command[1], options))


async def _peek(client: Client, topic: bytes, options: dict[bytes, bytes]) -> bytes:
    inspection, protocol = client.broker.inspect, client.session.protocol
    if b"ID" in options:
        if options.keys() - {b"ID", b"GROUP"}:
            raise RequestError("invalid PEEK; ID can be combined with GROUP only")
        return resp_message(await inspection.find(topic, parse_any_id(options[b"ID"]), options.get(b"GROUP")), protocol)
    state = parse_state(options[b"STATE"]) if b"STATE" in options else State.READY
    count = parse_count(options[b"COUNT"]) if b"COUNT" in options else DEFAULT_COUNT
    after = parse_any_id(options[b"AFTER"]) if b"AFTER" in options else None
    messages = await inspection.peek(topic, state, count, after, options.get(b"GROUP"))
    return await resp_messages(client.broker, messages, protocol)


def trace(client: Client, command: Command) -> bytes:
    """Carry out TRACE."""
    message_id, protocol = parse_any_id(command[2]), client.session.protocol
    user = client.user
    sees = None if user is None else partial(user.may, Right.MONITOR)

    async def reply() -> bytes:
        return resp_steps(await client.broker.trace(command[1], message_id, sees), protocol)

    return answer_later(client, reply())


def cancel(client: Client, command: Command) -> bytes:
    """Carry out CANCEL."""
    delayed_id = parse_delayed_id(command[2])

    async def reply() -> bytes:
        await client.broker.delayed.cancel(command[1], delayed_id)
        return replies.OK

    return answer_later(client, reply())


def purge(client: Client, command: Command) -> bytes:
    """Carry out PURGE."""
    command, flag = without_flag(command, 2, b"TASK")
    options = options_of(command, 2, (b"STATE", b"OLDER", b"GROUP"))
    state = parse_state(options[b"STATE"]) if b"STATE" in options else None
    older = parse_seconds(options[b"OLDER"].decode("utf-8", "replace")) if b"OLDER" in options else None
    group = options.get(b"GROUP")
    if flag:
        return answer_later(
            client, begin_task(client, purge_task(command[1], state, older, group, client.broker.clock.now_ms()))
        )

    async def reply() -> bytes:
        return replies.integer(await client.broker.purge(command[1], state, older, group))

    return answer_later(client, reply())
