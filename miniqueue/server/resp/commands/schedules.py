"""SCHEDULE: messages that are published repeatedly.

    SCHEDULE SET report CRON "0 9 * * MON-FRI" TZ Europe/Berlin reports now
    SCHEDULE SET beat EVERY 30 MISSED none beats x
    SCHEDULE SET sale EVERY 60 UNTIL 1700000000000 KEY shop HEADER kind sale PRIORITY high TTL 30 offers now
    SCHEDULE GET report ─▶ a map        SCHEDULE LIST [AFTER name] [COUNT n] ─▶ an array of maps
    SCHEDULE FIRE report ─▶ the id of the message that is published now        SCHEDULE DELETE report

`core.settings.schedule` parses the rules, `broker.delays.recurrence` applies them.
"""

from miniqueue.broker.delays.schedules import Listed
from miniqueue.broker.inspect.peeked import MAX_COUNT, parse_count
from miniqueue.core.message.parts import whole_of
from miniqueue.core.options.durations import parse_time_ms
from miniqueue.core.options.publish import parse_words
from miniqueue.core.settings import schedule as schedules
from miniqueue.core.settings.schedule import Missed, Schedule
from miniqueue.errors import RequestError
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.attribute_words import attribute_words
from miniqueue.wire.resp_arguments import ArityError, options_of, unknown_subcommand
from miniqueue.wire.resp_parser import Command

_OF_MESSAGES = {b"HEADER", *(name.upper().encode() for name in schedules.PUBLISH_OPTIONS)}


def schedule(client: Client, command: Command) -> bytes:
    """Carry out SCHEDULE; the reply is empty if it comes later."""
    act = SUBCOMMANDS.get(command[1].upper())
    if act is None:
        raise unknown_subcommand(command)
    return act(client, command)


def _set(client: Client, command: Command) -> bytes:
    commit, _is_new = client.broker.scheduler.set(*parse_set(command))
    client.wait_for(commit, replies.OK)
    return b""


def parse_set(command: Command) -> tuple[bytes, Schedule]:
    """Return the name and the schedule of a SCHEDULE SET; raises RequestError."""
    if len(command) < 7:
        raise ArityError(-7)
    name, topic, payload = command[2], command[-2], command[-1]
    of_schedule, of_messages = _split(command[3:-2])
    options = options_of(of_schedule, 0, (b"CRON", b"EVERY", b"TZ", b"MISSED", b"UNTIL"))
    until_ms = parse_time_ms(options.pop(b"UNTIL").decode("utf-8", "replace"), "until") if b"UNTIL" in options else None
    rule = _rule(topic, payload, options)
    return name, rule._replace(options=parse_words(of_messages), until_ms=until_ms)


def _split(words: Command) -> tuple[Command, Command]:
    """Return the words of the options of the schedule, and those of the options of its messages."""
    of_schedule: Command = []
    of_messages: Command = []
    start = 0
    while start < len(words):
        name = words[start].upper()
        stop = start + (3 if name == b"HEADER" else 2)
        (of_messages if name in _OF_MESSAGES else of_schedule).extend(words[start:stop])
        start = stop
    return of_schedule, of_messages


def _rule(topic: bytes, payload: bytes, options: dict[bytes, bytes]) -> Schedule:
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
        **{"name": listed.name, "topic": whole_of(entry.topic)},
        **rule,
        **{"missed": entry.missed.value, "next_at_ms": listed.next_at_ms},
        **({} if entry.until_ms is None else {"until_ms": entry.until_ms}),
        **dict(entry.option_members().items()),
        **attribute_words(entry.attributes),
    }


def _fire(client: Client, command: Command) -> bytes:
    if len(command) != 3:
        raise ArityError(3)

    async def reply() -> bytes:
        accepted = await client.broker.scheduler.fire(command[2])
        await accepted.commit.wait()
        return replies.bulk(accepted.message_id)

    return answer_later(client, reply())


def _delete(client: Client, command: Command) -> bytes:
    if len(command) != 3:
        raise ArityError(3)
    client.wait_for(client.broker.scheduler.delete(command[2]), replies.OK)
    return b""


#: Subcommands, by name in capitals.
SUBCOMMANDS = {b"SET": _set, b"GET": _get, b"LIST": _list, b"FIRE": _fire, b"DELETE": _delete}
