"""Commands without a topic, which all shards carry out, each for what it has; and how one reply is made of theirs.

    TOPICS, STATS, USAGE, INFO, CLIENT LIST, LEASES, TASK LIST, SCHEDULE LIST    of all shards, merged
    TASK GET, TASK CANCEL                                      by the shard that gives such ids, or else has it;
                                                               the id of a spread topic has those of all its parts
    SCHEDULE GET, FIRE                                                           by the shard that has the schedule

If a shard does not answer, the reply is TRYAGAIN: half of an answer would be a wrong one.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import hiredis

from miniqueue.broker.inspect.peeked import MAX_COUNT, parse_count
from miniqueue.core.message.parts import whole_of
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.quotas import NO_QUOTAS, Quotas
from miniqueue.server.resp.commands.connection import LINK_MARK
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.shards.resp.parts.acts import on_tasks
from miniqueue.server.views.outbox import OUTBOX_FIELDS, fields_of_all
from miniqueue.server.views.usage import limit_of_all
from miniqueue.server.views.wholes import ids_of_tasks
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

#: Asks a shard to carry out a command; returns its reply, or raises ShardAwayError.
Ask: TypeAlias = Callable[[int, Command], Awaitable[bytes]]
#: Asks all shards, and returns their replies by number; raises ShardAwayError if one does not answer.
AskAll: TypeAlias = Callable[[Command], Awaitable[list[bytes]]]
Merge: TypeAlias = Callable[[Command, list[Any]], replies.Value]

#: Fields of INFO that are not added: those of the broker, or of the process that is asked.
_NOT_ADDED: Final = frozenset({"process_id", "tcp_port", "uptime_in_seconds", "loading", "connected_slaves"})

_TOPIC_COUNT: Final = re.compile(rb"^topics:\d+", re.MULTILINE)

#: Fields of CLIENT LIST that say what a client reads.
_READ_FIELDS: Final = (b"topic", b"group", b"member", b"sub", b"flags")


async def gathered(client: Client, placing: Placing, ask: Ask, ask_all: AskAll, command: Command) -> bytes:
    """Return the reply of all shards to a command; raises MiniqueueError."""
    word, subcommand = command[0].upper(), command[1].upper() if len(command) > 1 else b""
    if word == b"TASK" and subcommand in (b"GET", b"CANCEL") and len(command) == 3:
        ids = ids_of_tasks(command[2])
        if ids[0].isdigit():
            ask_one = partial(_on_task, placing, ask, ask_all, command)
            return await (ask_one(ids[0]) if len(ids) == 1 else on_tasks(ask_one, ids, client.session.protocol))
    answers = await ask_all(command)
    if word == b"SCHEDULE" and subcommand != b"LIST":
        return _of_one(answers)
    error = next((answer for answer in answers if answer.startswith(b"-")), None)
    if error is not None:
        return error
    parsed = [_parsed(answer) for answer in answers]
    if word == b"USAGE":
        merged = _usage(client.broker.shares.quotas_of, parsed)
    else:
        merged = MERGES[b"%b %b" % (word, subcommand) if word in _CONTAINERS else word](command, parsed)
    if word in (b"STATS", b"INFO") and client.broker.spread_topics:
        merged = await _with_count_of_topics(merged, ask_all)
    return replies.encode(merged, client.session.protocol)


async def _with_count_of_topics(merged: Any, ask_all: AskAll) -> Any:  # noqa: ANN401 - the reply to INFO, or to STATS
    """Return a reply with the number of topics that TOPICS lists: shards cannot add those that are in several."""
    if isinstance(merged, bytes) and not _TOPIC_COUNT.search(merged):
        return merged  # INFO of other sections
    answers = await ask_all([b"TOPICS"])
    count = len({whole_of(name) for answer in answers for name in _parsed(answer)})
    return _TOPIC_COUNT.sub(b"topics:%d" % count, merged) if isinstance(merged, bytes) else merged | {"topics": count}


def is_gathered(command: Command) -> bool:
    """Return whether all shards have a part in a command."""
    word = command[0].upper()
    if word in _CONTAINERS:
        return len(command) > 1 and b"%b %b" % (word, command[1].upper()) in GATHERED
    if word in (b"STATS", b"LEASES"):
        return len(command) == 1
    return word in GATHERED


def _parsed(answer: bytes) -> Any:  # noqa: ANN401 - whatever the reply is
    reader = hiredis.Reader()
    reader.feed(answer)
    return reader.gets()


def _of_one(answers: list[bytes]) -> bytes:
    """Return the reply of the shard that has what was asked for."""
    return min(answers, key=lambda answer: (answer.startswith((b"-NOSCHEDULE", b"-NOTASK")), answer.startswith(b"-")))


async def _on_task(placing: Placing, ask: Ask, ask_all: AskAll, command: Command, task: bytes) -> bytes:
    """Return the reply of the shard that has a task."""
    own = [*command[:2], task]
    reply = await ask(placing.owner_of_number(int(task[:20])), own)
    if not reply.startswith(b"-NOTASK"):
        return reply
    return _of_one(await ask_all(own))  # the store may have had another number of shards when it began


# --- merging --------------------------------------------------------------------------------------------------


def _map(value: Any) -> dict[bytes, Any]:  # noqa: ANN401 - a part of a reply
    """Return a map, which is a flat array in version 2 of the protocol."""
    return value if isinstance(value, dict) else dict(zip(value[::2], value[1::2], strict=True))


def _topics(_command: Command, answers: list[Any]) -> replies.Value:
    """Return each topic once, with the name that clients know: parts are not shown, nor copies of spread topics."""
    return [*sorted({whole_of(name) for answer in answers for name in answer})]


def _stats(_command: Command, answers: list[Any]) -> replies.Value:
    rows = [{name.decode(): value for name, value in _map(answer).items()} for answer in answers]
    outboxes = [{name: row.pop(name) for name in OUTBOX_FIELDS} for row in rows]
    merged: dict[Any, Any] = {**_added(rows), **fields_of_all(outboxes)}
    return merged


def _added(maps: Iterable[Mapping[Any, Any]]) -> dict[replies.Value, replies.Value]:
    added: dict[Any, Any] = {}
    for each in maps:
        for name, value in each.items():
            number = _number(value)
            added[name] = round(added[name] + number, 3) if name in added else number
    return added


def _number(value: Any) -> Any:  # noqa: ANN401 - a part of a reply
    """Return a number; in version 2 of the protocol, one with a fraction is a text."""
    return float(value) if isinstance(value, bytes) else value


def _joined(_command: Command, answers: list[Any]) -> replies.Value:
    return [row for answer in answers for row in answer]


def _tasks(_command: Command, answers: list[Any]) -> replies.Value:
    rows = [_map(row) for answer in answers for row in answer]
    return _listed(sorted(rows, key=lambda row: int(row[b"id"])))


def _schedules(command: Command, answers: list[Any]) -> replies.Value:
    rows = [_map(row) for answer in answers for row in answer]
    options = dict(zip(map(bytes.upper, command[2::2]), command[3::2], strict=False))
    count = parse_count(options[b"COUNT"]) if b"COUNT" in options else MAX_COUNT
    return _listed(sorted(rows, key=lambda row: row[b"name"])[:count])


def _listed(rows: list[dict[bytes, Any]]) -> list[replies.Value]:
    return [dict(row.items()) for row in rows]


def _clients(_command: Command, answers: list[Any]) -> replies.Value:
    """Return a line for each client: what its door knows of it, with what it reads and holds in other shards."""
    lines = [line for answer in answers for line in answer.split(b"\n")[:-1]]
    linked: dict[bytes, list[dict[bytes, bytes]]] = {}
    for line in lines:
        if line.endswith(LINK_MARK) and (b" topic= " not in line or b" leased=0 " not in line):
            fields = _fields_of_client(line)
            linked.setdefault(fields[b"id"], []).append(fields)
    of_doors = (line for line in lines if not line.endswith(LINK_MARK))
    return b"".join(
        b"%b\n" % (_with_links(line, linked[number]) if (number := line[3 : line.index(b" ")]) in linked else line)
        for line in of_doors
    )


def _with_links(line: bytes, linked: list[dict[bytes, bytes]]) -> bytes:
    """Return the line of a client with what its links read and hold."""
    fields = _fields_of_client(line)
    fields[b"leased"] = b"%d" % sum(int(each[b"leased"]) for each in (fields, *linked))
    for each in linked:
        if each[b"topic"] and (each[b"sub"] == b"1" or not fields[b"topic"]):
            fields |= {name: each[name] for name in _READ_FIELDS}
    return b" ".join([b"%b=%b" % field for field in fields.items()])


def _fields_of_client(line: bytes) -> dict[bytes, bytes]:
    """Return the fields of a line of CLIENT LIST; no value contains a space."""
    return dict(field.partition(b"=")[::2] for field in line.split(b" "))


def _info(_command: Command, answers: list[Any]) -> replies.Value:
    """Return the lines of the first answer, with the sums of all where they are counts."""
    fields = [dict(_fields(answer.decode())) for answer in answers]
    outbox = fields_of_all(fields) if "outbox_messages" in fields[0] else {}
    lines = []
    for line in answers[0].decode().split("\r\n"):
        name, colon, value = line.partition(":")
        values = [each.get(name, "") for each in fields]
        value = str(outbox[name]) if name in outbox else _info_value(name, value, values)
        lines.append(f"{name}:{value}" if colon else line)
        if name == "redis_mode":
            lines.append(f"shards:{len(answers)}")
    return "\r\n".join(lines).encode()


def _info_value(name: str, value: str, values: list[str]) -> str:
    if name == "db0":
        keys = sum(int(each.split(",")[0].removeprefix("keys=")) for each in values)
        return f"keys={keys},{value.partition(',')[2]}"
    if name == "refusal":
        return next(filter(None, values), "")
    is_count = name not in _NOT_ADDED and all(each.isdigit() for each in values)
    return str(sum(map(int, values))) if is_count else value


def _fields(text: str) -> Iterable[tuple[str, str]]:
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            yield name, value


def _usage(quotas_of: Callable[[str], Quotas], answers: list[Any]) -> replies.Value:
    """Add what each user has, and may have."""
    by_user: dict[Any, list[dict[bytes, Any]]] = {}
    for answer in answers:
        for row in map(_map, answer):
            by_user.setdefault(row[b"user"], []).append(row)
    users = sorted(by_user, key=lambda user: (user is not None, user or b""))
    return [_usage_of(by_user[user], NO_QUOTAS if user is None else quotas_of(user.decode())) for user in users]


def _usage_of(rows: list[dict[bytes, Any]], quotas: Quotas) -> dict[replies.Value, replies.Value]:
    merged: dict[Any, Any] = {}
    for name, first in rows[0].items():
        if not isinstance(first, (dict, list)):
            merged[name] = first
            continue
        maps = [_map(row[name]) for row in rows]
        if name == b"memory":
            merged[name] = _added(maps)
        else:
            used, limits = ([each[member] for each in maps] for member in (b"used", b"limit"))
            limit = limit_of_all(name.decode(), limits, quotas)
            merged[name] = {b"used": None if None in used else sum(used), b"limit": limit}
    return merged


_CONTAINERS: Final = frozenset({b"CLIENT", b"TASK", b"SCHEDULE"})
MERGES: Final[Mapping[bytes, Merge]] = {
    b"TOPICS": _topics,
    b"STATS": _stats,
    b"INFO": _info,
    b"LEASES": _joined,
    b"CLIENT LIST": _clients,
    b"TASK LIST": _tasks,
    b"SCHEDULE LIST": _schedules,
}
GATHERED: Final = frozenset(MERGES) | {
    b"USAGE",
    b"TASK GET",
    b"TASK CANCEL",
    b"SCHEDULE GET",
    b"SCHEDULE FIRE",
}
