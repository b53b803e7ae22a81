"""TOPIC over RESP: make topics, set how they work, look it up, remove them.

    TOPIC CREATE letters max_deliveries 5        TOPIC SET letters lease_seconds 60 retry_delays 1,5,30
    TOPIC GET letters ─▶ every setting, as SET takes it        TOPIC DELETE letters
    REDRIVE letters.dlq [TO other] LIMIT 100 RATE 10 ─▶ how many dead letters were moved back, or to the other topic
    REDRIVE letters.dlq … REPORT ─▶ how many were moved, how many remain, and what stopped it, if anything did

What each setting may be stands in `core.topic_settings`; the default of each is called `default`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from miniqueue.broker import Commit
from miniqueue.broker.redriving import Redriven
from miniqueue.core import topic_settings
from miniqueue.core.redrive_options import parse_limit, parse_rate
from miniqueue.errors import MiniqueueError
from miniqueue.server.dead_letter_rights import check_dead_letters, check_target
from miniqueue.server.resp_errors import ArityError, unknown_subcommand
from miniqueue.server.resp_looking import answer_later, options_of
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


def topic(connection: "RespConnection", command: Command) -> bytes:
    """Carry out TOPIC; the reply is empty when it comes later."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return act(connection, command)


def _create(connection: "RespConnection", command: Command) -> bytes:
    _check_arity(len(command) >= 3, -3)
    connection.wait_for(connection.broker.configurator.create(command[2], _settings(connection, command)), replies.OK)
    return b""


def _set(connection: "RespConnection", command: Command) -> bytes:
    _check_arity(len(command) >= 5, -5)
    connection.wait_for(connection.broker.configurator.change(command[2], _settings(connection, command)), replies.OK)
    return b""


def _get(connection: "RespConnection", command: Command) -> bytes:
    _check_arity(len(command) == 3, 3)
    settings = connection.broker.configurator.settings_of(command[2])
    texts: dict[replies.Value, replies.Value] = {
        name: topic_settings.text_of(value) for name, value in settings._asdict().items()
    }
    return replies.encode(texts, connection.session.protocol)


def _delete(connection: "RespConnection", command: Command) -> bytes:
    _check_arity(len(command) == 3, 3)
    removal = connection.broker.delete_topic(command[2])
    outcome = Commit()
    connection.wait_for(outcome, replies.OK)
    # It runs beside the connection; what it replies keeps its place.
    task = asyncio.get_running_loop().create_task(_report(removal, outcome))
    connection.tasks.add(task)
    task.add_done_callback(connection.tasks.discard)
    return b""


def redrive(connection: "RespConnection", command: Command) -> bytes:
    """Carry out REDRIVE; commands behind it wait until the last message was moved."""
    is_report = len(command) > 2 and command[-1].upper() == b"REPORT" and len(command) % 2 == 1
    options = options_of(command[: len(command) - is_report], 2, (b"LIMIT", b"RATE", b"TO"))
    limit = parse_limit(options[b"LIMIT"]) if b"LIMIT" in options else None
    per_second = parse_rate(options[b"RATE"]) if b"RATE" in options else None
    target = options.get(b"TO")
    check_target(None if connection.guard is None else connection.guard.user, target)
    still = _StillThere()
    redriving = connection.broker.redriver.report(command[1], limit, per_second, target, lambda: still.is_there)
    reply = _report_of(redriving, connection.session.protocol) if is_report else _count_of(redriving)
    return answer_later(connection, reply, still if per_second else None)


class _StillThere:
    """Whether the client waits for the reply; it is read from meanwhile, to hear it leave."""

    def __init__(self) -> None:
        self.is_there = True

    def give_up(self) -> None:
        """It has left."""
        self.is_there = False

    wait_no_longer = give_up


async def _count_of(redriving: Awaitable[Redriven]) -> bytes:
    report = await redriving
    return (
        replies.integer(report.moved) if report.error is None else replies.error(report.error.code, report.error_text)
    )


async def _report_of(redriving: Awaitable[Redriven], protocol: int) -> bytes:
    report = await redriving
    error = None if report.error is None else f"{report.error.code} {report.error}"
    return replies.encode({"moved": report.moved, "remaining": report.remaining, "error": error}, protocol)


#: By name in capitals.
SUBCOMMANDS: "Mapping[bytes, Callable[[RespConnection, Command], bytes]]" = MappingProxyType(
    {b"CREATE": _create, b"SET": _set, b"GET": _get, b"DELETE": _delete}
)


def _check_arity(is_right: bool, arity: int) -> None:
    if not is_right:
        raise ArityError(arity)


def _settings(connection: "RespConnection", command: Command) -> dict[str, object]:
    settings = topic_settings.parse_texts([word.decode("utf-8", "replace") for word in command[3:]])
    check_dead_letters(None if connection.guard is None else connection.guard.user, settings)
    return settings


async def _report(removal: Awaitable[bool], outcome: Commit) -> None:
    try:
        await removal
    except MiniqueueError as exc:
        outcome.finish(exc)
    else:
        outcome.finish()
