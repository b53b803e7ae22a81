"""SCHEDULE over RESP: messages that are published over and over.

    SCHEDULE SET report CRON "0 9 * * MON-FRI" TZ Europe/Berlin reports now
    SCHEDULE SET beat EVERY 30 MISSED none beats x
    SCHEDULE GET report ─▶ a map        SCHEDULE LIST [AFTER name] [COUNT n] ─▶ an array of maps
    SCHEDULE DELETE report

What a rule may be stands in `core.schedule` and `broker.recurrence`.
"""

from typing import TYPE_CHECKING

from miniqueue.broker.peeking import MAX_COUNT, parse_count
from miniqueue.broker.scheduling import Listed
from miniqueue.core import schedule as schedules
from miniqueue.core.schedule import Missed, Schedule
from miniqueue.errors import RequestError
from miniqueue.server.resp_errors import ArityError, unknown_subcommand
from miniqueue.server.resp_looking import answer_later, options_of
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection


def schedule(connection: "RespConnection", command: Command) -> bytes:
    """Carry out SCHEDULE; the reply is empty when it comes later."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return act(connection, command)


def _set(connection: "RespConnection", command: Command) -> bytes:
    if len(command) < 7:
        raise ArityError(-7)
    name, topic, payload = command[2], command[-2], command[-1]
    options = options_of(command[:-2], 3, (b"CRON", b"EVERY", b"TZ", b"MISSED"))
    commit, _is_new = connection.broker.scheduler.set(name, _schedule(topic, payload, options))
    connection.wait_for(commit, replies.OK)
    return b""


def _schedule(topic: bytes, payload: bytes, options: dict[bytes, bytes]) -> Schedule:
    texts = {name: value.decode("utf-8", "replace") for name, value in options.items()}
    if (b"CRON" in texts) is (b"EVERY" in texts) or (b"EVERY" in texts and b"TZ" in texts):
        raise RequestError("a schedule has CRON, and TZ if need be, or EVERY")
    missed = schedules.parse_missed(texts[b"MISSED"]) if b"MISSED" in texts else Missed.ALL
    if b"EVERY" in texts:
        return Schedule(topic, payload, every_ms=schedules.parse_every_ms(texts[b"EVERY"]), missed=missed)
    return Schedule(topic, payload, texts[b"CRON"], zone=texts.get(b"TZ", schedules.UTC), missed=missed)


def _get(connection: "RespConnection", command: Command) -> bytes:
    if len(command) != 3:
        raise ArityError(3)

    async def reply() -> bytes:
        found = await connection.broker.scheduler.get(command[2])
        told = _told(found) | {"payload": found.schedule.payload}
        return replies.encode(told, connection.session.protocol)

    return answer_later(connection, reply())


def _list(connection: "RespConnection", command: Command) -> bytes:
    options = options_of(command, 2, (b"AFTER", b"COUNT"))
    count = parse_count(options[b"COUNT"]) if b"COUNT" in options else MAX_COUNT

    async def reply() -> bytes:
        page = await connection.broker.scheduler.page(options.get(b"AFTER", b""), count)
        return replies.array([replies.encode(_told(found), connection.session.protocol) for found in page])

    return answer_later(connection, reply())


def _told(found: Listed) -> dict[replies.Value, replies.Value]:
    """Return all but the payload."""
    one = found.schedule
    rule: dict[replies.Value, replies.Value] = {"every": one.every_ms / 1000}
    if one.cron:
        rule = {"cron": one.cron, "tz": one.zone}
    return {
        **{"name": found.name, "topic": one.topic},
        **rule,
        **{"missed": one.missed.value, "next_at_ms": found.next_at_ms},
    }


def _delete(connection: "RespConnection", command: Command) -> bytes:
    if len(command) != 3:
        raise ArityError(3)
    connection.wait_for(connection.broker.scheduler.delete(command[2]), replies.OK)
    return b""


SUBCOMMANDS = {b"SET": _set, b"GET": _get, b"LIST": _list, b"DELETE": _delete}
