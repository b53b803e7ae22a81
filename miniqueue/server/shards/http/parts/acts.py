"""Acts on many messages of a spread topic, of which each part carries out its own.

    POST …/messages/delete?limit=100 ─▶ part 0: limit=100 ─ 70 ─▶ part 1: limit=30 ─ 30 ─▶ {"count": 100}
    POST …/purge, …/redrive          ─▶ the same
    …?task=true                      ─▶ a task in each part ─▶ {"task": "1700000000000-1700000000001"}
    GET, DELETE /tasks/1700000000000-1700000000001 ─▶ both, as one

As tasks, the parts work at the same time, so that limit and rate are divided among them; otherwise one after the other.
An error of one part does not keep the others from their work.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.core.options.amounts import parse_limit, parse_rate
from miniqueue.core.options.consume import parse_switch
from miniqueue.server.asgi.request import parameters_of
from miniqueue.server.asgi.routing import topic_of
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.merging import of_one
from miniqueue.server.shards.http.owners import Answer, Owners, first_error
from miniqueue.server.shards.http.parts.whole import ABSENT, Whole, code_of, json_answer, present
from miniqueue.server.views.wholes import TASK_JOIN, Row, ids_of_tasks, whole_task

#: The least rate of a part.
LEAST_RATE: Final = 1e-9


async def act(whole: Whole) -> Answer:
    """Carry out an act on messages that a filter selects; raises RequestError."""
    return await _counted(whole, "count")


async def purge(whole: Whole) -> Answer:
    """Remove messages; raises RequestError."""
    return await _counted(whole, "removed")


async def redrive(whole: Whole) -> Answer:
    """Redrive dead letters; raises RequestError."""
    return await _counted(whole, "moved")


async def _counted(whole: Whole, name: str) -> Answer:
    """Return the sum of what the parts have done, and of what remains."""
    options = dict(parameters_of(whole.scope))
    limit = parse_limit(options["limit"]) if "limit" in options else None
    if parse_switch("task", options) and not parse_switch("dry_run", options):
        return await _begin(whole, options, limit)
    answers: list[Answer] = []
    counts: Row = {}
    for number in whole.topic.numbers:
        if limit is None:
            answer = await whole.ask(number)
        elif (left := limit - counts.get(name, 0)) > 0:
            answer = await whole.ask(number, limit=b"%d" % left)
        else:
            counts = await _with_rest(whole, number, counts)
            continue
        answers.append(answer)
        if answer.is_error and code_of(answer) in ABSENT:
            continue
        for member, count in orjson.loads(answer.body).items():
            if member not in ("error", "code"):
                known = counts.get(member, 0)
                counts[member] = None if None in (known, count) else known + count
    error = first_error(present(answers))
    if error is None:
        return json_answer(counts)
    return error._replace(body=orjson.dumps({**orjson.loads(error.body), **counts}))


async def _with_rest(whole: Whole, number: int, counts: Row) -> Row:
    """Return counts with the dead letters of a part that is not asked to redrive any."""
    if "remaining" not in counts:
        return counts
    answer = await whole.look(number, b"")
    rest = 0 if answer.is_error else orjson.loads(answer.body)["ready"]
    return {**counts, "remaining": None if counts["remaining"] is None else counts["remaining"] + rest}


# --- tasks ----------------------------------------------------------------------------------------------------


async def _begin(whole: Whole, options: dict[str, bytes], limit: int | None) -> Answer:
    """Begin a task in each part; return the id of all. If a part refuses, those that have begun are cancelled."""
    part_count = whole.topic.part_count
    query: dict[str, bytes | None] = {}
    if "rate" in options:
        query["rate"] = b"%.9f" % max(LEAST_RATE, parse_rate(options["rate"]) / part_count)
    answers: list[Answer] = []
    for number in whole.topic.numbers:
        if limit is not None:
            own_limit = limit // part_count + (number < limit % part_count)
            if not own_limit:
                break
            query["limit"] = b"%d" % own_limit
        answers.append(await whole.ask(number, **query))
    ids = [orjson.loads(answer.body)["task"] for answer in answers if not answer.is_error]
    error = first_error(present(answers))
    if error is None:
        return json_answer({"task": TASK_JOIN.join(ids)})
    for task in ids:
        await whole.cancel(task)
    return error


def task_routes(owners: Owners, others: dict[tuple[str, str], Handler]) -> dict[tuple[str, str], Handler]:
    """Return the handlers, by method and route, of tasks, for which those of others are in `others`."""
    merge = partial(whole_task, ended_at="endedAtMs")
    return {
        ("GET", "/tasks/{id}"): _Tasks(owners, others["GET", "/tasks/{id}"], merge).answer,
        ("DELETE", "/tasks/{id}"): _Tasks(owners, others["DELETE", "/tasks/{id}"], _whole_cancelled).answer,
    }


class _Tasks:
    """Answers requests about the tasks of all parts of a topic."""

    def __init__(self, owners: Owners, other: Handler, merge: Callable[[Sequence[Row]], object]) -> None:
        self._owners = owners
        self._other = other
        self._merge = merge

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises MiniqueueError."""
        if len(ids := ids_of_tasks(topic_of(scope))) == 1:
            await self._other(scope, receive, send)
            return
        with self._owners.gathering(scope) as gathering:
            answers = []
            for task in ids:
                path = b"/tasks/" + task
                own = {**scope, "raw_path": path, "path": path.decode()}
                answers.append(of_one(await self._owners.try_all(own, gathering)))
            error = first_error(answers)
            whole = error or json_answer(self._merge([orjson.loads(answer.body) for answer in answers]))
            await whole.reply()(scope, receive, send)


def _whole_cancelled(rows: Sequence[Row]) -> Row:
    return {"cancelled": TASK_JOIN.join(row["cancelled"] for row in rows)}
