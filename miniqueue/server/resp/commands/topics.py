"""TOPIC, REDRIVE, PAUSE and RESUME: create, configure and delete topics, redrive dead letters, pause topics.

    TOPIC CREATE letters max_deliveries 5        TOPIC SET letters lease_seconds 60 retry_delays 1,5,30
    TOPIC GET letters ─▶ every setting, as SET takes it        TOPIC DELETE letters
    TOPIC HELP ─▶ a line for each setting: what it does, what it may be, its default
    REDRIVE letters.dlq [TO other] LIMIT 100 RATE 10 ─▶ how many dead letters were moved back, or to the other topic
    REDRIVE letters.dlq … TASK ─▶ the id of the task that does it
    REDRIVE letters.dlq … REPORT ─▶ how many were moved, how many remain, and the error that stopped it, if any
    PAUSE letters IN 60 ─▶ the reply comes when the pause is durable; it takes effect at once    RESUME letters
    PAUSE letters OUT 60 GROUP audit ─▶ nothing is delivered to this group

`core.settings.settings` lists the settings; the word `default` sets one to its default.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType

from miniqueue.access.users import check_settings, check_target
from miniqueue.broker import Commit
from miniqueue.broker.acts.requests import redrive_task
from miniqueue.broker.consume.redrive import Redriven
from miniqueue.broker.model.new_partitions import NewPartitions, PartitionsDueError
from miniqueue.core.options.amounts import parse_limit, parse_rate
from miniqueue.core.options.durations import parse_seconds
from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.fields import parse_side_of
from miniqueue.errors import MiniqueueError
from miniqueue.server.resp.commands.context import Client, Presence, answer_later, begin_task
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import (
    ArityError,
    check_arity,
    options_of,
    unknown_subcommand,
    without_flag,
)
from miniqueue.wire.resp_parser import Command


def topic(client: Client, command: Command) -> bytes:
    """Carry out TOPIC; the reply is empty if it comes later."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return act(client, command)


def _create(client: Client, command: Command) -> bytes:
    check_arity(len(command) >= 3, -3)
    return _carry_out(client, partial(client.broker.admin.create, command[2], _settings(client, command)))


def _set(client: Client, command: Command) -> bytes:
    check_arity(len(command) >= 5, -5)
    return _carry_out(client, partial(client.broker.admin.change, command[2], _settings(client, command)))


def _carry_out(client: Client, act: Callable[[NewPartitions], Commit]) -> bytes:
    """Carry out an act on a topic at once, unless many partitions have to be made first."""
    try:
        client.wait_for(act(NewPartitions()), replies.OK)
    except PartitionsDueError:
        return answer_later(client, _carry_out_later(client, act))
    return b""


async def _carry_out_later(client: Client, act: Callable[[NewPartitions], Commit]) -> bytes:
    commit = await client.broker.admin.carry_out(act)
    await commit.wait()
    return replies.OK


def _get(client: Client, command: Command) -> bytes:
    check_arity(len(command) == 3, 3)
    settings = client.broker.admin.settings_of(command[2])
    texts: dict[replies.Value, replies.Value] = {
        name: topic_settings.text_of(value) for name, value in settings._asdict().items()
    }
    return replies.encode(texts, client.session.protocol)


def _help(client: Client, command: Command) -> bytes:
    check_arity(len(command) == 2, 2)
    return replies.encode(list(topic_settings.help_lines()), client.session.protocol)


def _delete(client: Client, command: Command) -> bytes:
    check_arity(len(command) == 3, 3)
    removal = client.broker.delete_topic(command[2])
    outcome = Commit()
    client.wait_for(outcome, replies.OK)
    # It runs in the background; its reply keeps its place among the others.
    client.spawn(_report(removal, outcome))
    return b""


def redrive(client: Client, command: Command) -> bytes:
    """Carry out REDRIVE; the commands after it wait until the last message is moved."""
    command, flag = without_flag(command, 2, b"REPORT", b"TASK")
    options = options_of(command, 2, (b"LIMIT", b"RATE", b"TO"))
    limit = parse_limit(options[b"LIMIT"]) if b"LIMIT" in options else None
    per_second = parse_rate(options[b"RATE"]) if b"RATE" in options else None
    target = options.get(b"TO")
    check_target(client.user, target)
    if flag == b"TASK":
        return answer_later(
            client,
            begin_task(client, redrive_task(command[1], limit, per_second, target, client.broker.clock.now_ms())),
        )
    presence, protocol = Presence(), client.session.protocol

    async def reply() -> bytes:
        report = await client.broker.redrive_report(command[1], limit, per_second, target, lambda: presence.is_waiting)
        return _report_of(report, protocol) if flag == b"REPORT" else _count_of(report)

    return answer_later(client, reply(), presence if per_second else None)


def _count_of(report: Redriven) -> bytes:
    return (
        replies.integer(report.moved) if report.error is None else replies.error(report.error.code, report.error_text)
    )


def _report_of(report: Redriven, protocol: int) -> bytes:
    error = None if report.error is None else f"{report.error.code} {report.error}"
    return replies.encode({"moved": report.moved, "remaining": report.remaining, "error": error}, protocol)


#: Subcommands, by name in capitals.
SUBCOMMANDS: Mapping[bytes, Callable[[Client, Command], bytes]] = MappingProxyType(
    {b"CREATE": _create, b"SET": _set, b"GET": _get, b"DELETE": _delete, b"HELP": _help}
)


def _settings(client: Client, command: Command) -> dict[str, object]:
    settings = topic_settings.parse_texts([word.decode("utf-8", "replace") for word in command[3:]])
    check_settings(client.user, settings)
    return settings


async def _report(removal: Awaitable[bool], outcome: Commit) -> None:
    try:
        await removal
    except MiniqueueError as exc:
        outcome.finish(exc)
    else:
        outcome.finish()


def pause(client: Client, command: Command) -> bytes:
    """Carry out PAUSE."""
    command, group = _without_group(command)
    words = [word.decode("utf-8", "replace") for word in command[2:]]
    seconds = parse_seconds(words.pop()) if words and not words[-1].isalpha() else None
    if len(words) > 1:
        raise ArityError(4)
    side = parse_side_of(words[0] if words else None, group)
    admin = client.broker.admin
    if group is None:
        client.wait_for(admin.pause(command[1], side, seconds), replies.OK)
    else:
        client.wait_for(admin.pause_group(command[1], group, seconds), replies.OK)
    return b""


def resume(client: Client, command: Command) -> bytes:
    """Carry out RESUME."""
    command, group = _without_group(command)
    if len(command) > 3:
        raise ArityError(3)
    side = parse_side_of(command[2].decode("utf-8", "replace") if len(command) == 3 else None, group)
    admin = client.broker.admin
    if group is None:
        client.wait_for(admin.resume(command[1], side), replies.OK)
    else:
        client.wait_for(admin.resume_group(command[1], group), replies.OK)
    return b""


def _without_group(command: Command) -> tuple[Command, bytes | None]:
    """Return a command without `GROUP g` at its end, and the name of the group."""
    if len(command) > 3 and command[-2].upper() == b"GROUP":
        return command[:-2], command[-1]
    return command, None
