"""Routes whose replies are those of all shards, made one.

    GET /topics, /tasks, /schedules      lists: merged in their order
    GET /usage                           used and limits: added
    … /tasks/{id}                        one shard has it: its reply, or that there is none

Large lists are merged a part at a time, so that other requests go on meanwhile.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.broker.inspect.peeked import MAX_COUNT, parse_count
from miniqueue.core.settings.quotas import NO_QUOTAS, Quotas
from miniqueue.errors import MiniqueueError
from miniqueue.server.asgi.replies import Reply, json_reply
from miniqueue.server.asgi.request import query_of
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.owners import Answer, Owners, first_error
from miniqueue.server.views.usage import limit_of_all
from miniqueue.server.views.wholes import Row, whole_name

#: Number of rows that are merged in one iteration of the event loop.
ROWS_IN_TURN: Final = 1_000
_NOT_FOUND: Final = 404

#: Makes one reply of those of all shards, none of which is an error.
Merge = Callable[[Owners, Scope, list[Answer]], Awaitable[Reply]]


def merging_routes(owners: Owners, quotas_of: Callable[[str], Quotas]) -> dict[tuple[str, str], Handler]:
    """Return the handlers by method and route; `quotas_of` returns the quotas of a user."""
    return {
        ("GET", "/topics"): partial(_merged, owners, _topics),
        ("GET", "/tasks"): partial(_merged, owners, partial(_listed, "tasks", _by_number)),
        ("GET", "/schedules"): partial(_merged, owners, _schedules),
        ("GET", "/usage"): partial(_merged, owners, partial(_usage, quotas_of)),
        **{
            route: partial(_of_one, owners)
            for route in (
                ("GET", "/tasks/{id}"),
                ("DELETE", "/tasks/{id}"),
            )
        },
    }


async def _merged(owners: Owners, merge: Merge, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what all shards have; an error of one is the reply."""
    with owners.gathering(scope) as gathering:
        answers = await owners.ask_all(scope, gathering)
        error = first_error(answers)
        reply = await merge(owners, scope, answers) if error is None else error.reply()
        await reply(scope, receive, send)


async def _of_one(owners: Owners, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the reply of the shard that has what the path names."""
    with owners.gathering(scope) as gathering:
        answers = await owners.try_all(scope, gathering)
        await of_one(answers).reply()(scope, receive, send)


def of_one(answers: Iterable[Answer | MiniqueueError]) -> Answer:
    """Return the answer of the shard that has it; raises the error of one that may have it, but does not answer."""
    errors = [answer for answer in answers if isinstance(answer, MiniqueueError)]
    replies = sorted((each for each in answers if isinstance(each, Answer)), key=_usefulness)
    if errors and (not replies or replies[0].is_error):
        raise errors[0]
    return replies[0]


def _usefulness(answer: Answer) -> int:
    return 2 if answer.status == _NOT_FOUND else int(answer.is_error)


# --- lists ----------------------------------------------------------------------------------------------------


async def _listed(name: str, key: Callable[[Row], Any], _owners: Owners, _scope: Scope, answers: list[Answer]) -> Reply:
    rows = [row async for row in _in_order(name, key, answers)]
    return json_reply(200, {name: rows})


async def _topics(_owners: Owners, _scope: Scope, answers: list[Answer]) -> Reply:
    rows = list[Row]()
    async for row in _in_order("topics", _by_topic, answers):
        name = whole_name(row["topic"])
        if not rows or rows[-1]["topic"] != name:
            rows.append(row | {"topic": name})
        else:  # another part of a spread topic
            rows[-1] |= {count: rows[-1][count] + row[count] for count in row if count != "topic"}
    return json_reply(200, {"topics": rows})


async def _schedules(_owners: Owners, scope: Scope, answers: list[Answer]) -> Reply:
    options = query_of(scope, ("after", "count"))
    count = parse_count(options["count"]) if "count" in options else MAX_COUNT
    rows = [row async for row in _in_order("schedules", lambda row: row["name"], answers)]
    return json_reply(200, {"schedules": rows[:count]})


async def _in_order(name: str, key: Callable[[Row], Any], answers: list[Answer]) -> AsyncIterator[Row]:
    """Yield the rows of lists that have the same order."""
    lists: list[list[Row]] = []
    for answer in answers:
        lists.append(orjson.loads(answer.body)[name])
        await asyncio.sleep(0)
    for number, row in enumerate(heapq.merge(*lists, key=key), 1):
        yield row
        if number % ROWS_IN_TURN == 0:
            await asyncio.sleep(0)


def _by_topic(row: Row) -> str:
    topic: str = row["topic"]
    return topic  # the order of code points is that of the bytes of UTF-8; the parts of a topic follow each other


def _by_number(row: Row) -> int:
    return int(row["id"])


# --- usage ----------------------------------------------------------------------------------------------------


async def _usage(quotas_of: Callable[[str], Quotas], _owners: Owners, _scope: Scope, answers: list[Answer]) -> Reply:
    lists = [orjson.loads(answer.body)["usage"] for answer in answers]
    return json_reply(200, {"usage": merged_usage(lists, quotas_of)})


def merged_usage(lists: Iterable[list[Row]], quotas_of: Callable[[str], Quotas]) -> list[Row]:
    """Add what each user has, of the list of each shard.

    A limit is of each shard, so that all together may have the sum; a quota is of all.
    """
    users: dict[str | None, list[Mapping[str, Any]]] = {}
    for rows in lists:
        for row in rows:
            users.setdefault(row["user"], []).append(row)
    names = sorted(users, key=lambda name: (name is not None, name or ""))
    return [_added(users[name], NO_QUOTAS if name is None else quotas_of(name)) for name in names]


def _added(rows: list[Mapping[str, Any]], quotas: Quotas) -> Row:
    added: Row = {"user": rows[0]["user"]}
    for name in rows[0].keys() - {"user", "memory"}:
        limits, used = ([row[name][member] for row in rows] for member in ("limit", "used"))
        added[name] = {
            "used": None if None in used else sum(used),
            "limit": limit_of_all(_snake(name), limits, quotas),
        }
    purposes = {purpose for row in rows for purpose in row["memory"]}
    memory = {purpose: sum(row["memory"].get(purpose, 0) for row in rows) for purpose in sorted(purposes)}
    return {name: added.get(name, memory) for name in rows[0]}


def _snake(name: str) -> str:
    """Return the name of a quota for that of a member of JSON: `messagesPerSecond` is `messages_per_second`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
