"""SCHEDULE: messages that are published repeatedly.

    SCHEDULE SET report CRON "0 9 * * MON-FRI" TZ Europe/Berlin reports now
    SCHEDULE SET beat EVERY 30 MISSED none beats x
    SCHEDULE GET report ─▶ a map        SCHEDULE LIST [AFTER name] [COUNT n] ─▶ an array of maps
    SCHEDULE DELETE report

`core.settings.schedule` parses the rules, `broker.delays.recurrence` applies them.
"""

from miniqueue.broker.delays.schedules import Listed
from miniqueue.broker.inspect.peeked import MAX_COUNT, parse_count
from miniqueue.core.settings import schedule as schedules
from miniqueue.core.settings.schedule import Missed, Schedule
from miniqueue.errors import RequestError
from miniqueue.server.resp.commands.arguments import ArityError, options_of, unknown_subcommand
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command


def schedule(client: Client, command: Command) -> bytes:
    """Carry out SCHEDULE; the reply is empty if it comes later."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return act(client, command)


def _set(client: Client, command: Command) -> bytes:
    if len(command) < 7:
        raise ArityError(-7)
    name, topic, payload = command[2], command[-2], command[-1]
    options = options_of(command[:-2], 3, (b"CRON", b"EVERY", b"TZ", b"MISSED"))
    commit, _is_new = client.broker.scheduler.set(name, _schedule(topic, payload, options))
    client.wait_for(commit, replies.OK)
    return b""


def _schedule(topic: bytes, payload: bytes, options: dict[bytes, bytes]) -> Schedule:
    texts = {name: value.decode("utf-8", "replace") for name, value in options.items()}
    if (b"CRON" in texts) is (b"EVERY" in texts) or (b"EVERY" in texts and b"TZ" in texts):
        raise RequestError("invalid schedule; must have CRON, with or without TZ, or EVERY")
    missed = schedules.parse_missed(texts[b"MISSED"]) if b"MISSED" in texts else Missed.ALL
    if b"EVERY" in texts:
        return Schedule(topic, payload, every_ms=schedules.parse_every_ms(texts[b"EVERY"]), missed=missed)
    return Schedule(topic, payload, texts[b"CRON"], zone=texts.get(b"TZ", schedules.UTC), missed=missed)


def _get(client: Client, command: Command) -> bytes:
    if len(command) != 3:
        raise ArityError(3)

    async def reply() -> bytes:
        listed = await client.broker.scheduler.get(command[2])
        return replies.encode(_shown(listed) | {"payload": listed.schedule.payload}, client.session.protocol)

    return answer_later(client, reply())


def _list(client: Client, command: Command) -> bytes:
    options = options_of(command, 2, (b"AFTER", b"COUNT"))
    count = parse_count(options[b"COUNT"]) if b"COUNT" in options else MAX_COUNT

    async def reply() -> bytes:
        page = await client.broker.scheduler.page(options.get(b"AFTER", b""), count)
        return replies.array([replies.encode(_shown(listed), client.session.protocol) for listed in page])

    return answer_later(client, reply())


def _shown(listed: Listed) -> dict[replies.Value, replies.Value]:
    """Return the fields of a schedule, without the payload."""
    entry = listed.schedule
    rule: dict[replies.Value, replies.Value] = {"every": entry.every_ms / 1000}
    if entry.cron:
        rule = {"cron": entry.cron, "tz": entry.zone}
    return {
        **{"name": listed.name, "topic": entry.topic},
        **rule,
        **{"missed": entry.missed.value, "next_at_ms": listed.next_at_ms},
    }


def _delete(client: Client, command: Command) -> bytes:
    if len(command) != 3:
        raise ArityError(3)
    client.wait_for(client.broker.scheduler.delete(command[2]), replies.OK)
    return b""


#: Subcommands, by name in capitals.
SUBCOMMANDS = {b"SET": _set, b"GET": _get, b"LIST": _list, b"DELETE": _delete}
