"""Groups of a spread topic: each part has them all.

    GET, DELETE, pause, resume     all parts at the same time
    PUT, seek                      one part after the other, each with its own start

A request that has reached only some parts can be repeated.
"""

from collections.abc import Awaitable, Sequence
from functools import partial

import orjson

from miniqueue.server.asgi.request import parameters_of
from miniqueue.server.shards.http.owners import Answer
from miniqueue.server.shards.http.parts.whole import (
    ABSENT,
    EXISTING,
    Whole,
    code_of,
    joined,
    last,
    merged,
)
from miniqueue.server.shards.parts.starts import begin_in_parts
from miniqueue.server.views.wholes import Row, whole_group, whole_groups, whole_holders


async def list_groups(whole: Whole) -> Answer:
    """Return all groups."""
    return merged(await whole.ask_all(), lambda contents: {"groups": whole_groups(joined("groups", contents))})


async def get(whole: Whole) -> Answer:
    """Return one group."""
    return merged(await whole.ask_all(), whole_group)


async def holders(whole: Whole) -> Answer:
    """Return who holds leases of a group."""

    def merge(contents: Sequence[Row]) -> Row:
        return {"holders": whole_holders(joined("holders", contents), "remainingMs")}

    return merged(await whole.ask_all(), merge)


async def each(whole: Whole) -> Answer:
    """Return the reply to a request that all parts carry out."""
    return last(await whole.ask_all())


async def create(whole: Whole) -> Answer:
    """Create a group in all parts that do not have it; raises RequestError."""
    return last(await _begin(whole, "from"), ABSENT | EXISTING)


async def seek(whole: Whole) -> Answer:
    """Move a group in all parts; raises RequestError."""

    def merge(contents: Sequence[Row]) -> Row:
        return {name: sum(content[name] for content in contents) for name in contents[0]}

    return merged(await _begin(whole, "to"), merge)


async def _begin(whole: Whole, name: str) -> Sequence[Answer]:
    """Return the answers of all parts, each with its own start; of one part, if it refuses the start."""
    start = dict(parameters_of(whole.scope)).get(name)
    if start is None:
        return await whole.ask_all()

    def ask(number: int, own_start: bytes) -> Awaitable[Answer]:
        return whole.ask(number, **{name: own_start})

    return await begin_in_parts(start, whole.topic.part_count, partial(_commit_time_of, whole), ask, _is_refusal)


def _is_refusal(answer: Answer) -> bool:
    return answer.is_error and code_of(answer) not in ABSENT | EXISTING


async def _commit_time_of(whole: Whole, number: int, partition: bytes, seq: bytes) -> int | None:
    read = await whole.look(number, b"/partitions/" + partition, offset=seq, count=b"1")
    messages = [] if read.is_error else orjson.loads(read.body)["messages"]
    return int(messages[0]["publishedAtMs"]) if messages else None
