"""Groups of a spread topic: each part has them all.

    GET, DELETE, pause, resume        all parts at the same time
    PUT ?from=earliest, a time        the same in each part
    PUT ?from=1024-5, seek ?to=1024-5 this message in part 1; in the others, its commit time
    PUT ?from=0-17,1024-5             these messages in parts 0 and 1; the earliest ones in the others

A request that has reached only some parts can be repeated.
"""

from collections.abc import Sequence

import orjson

from miniqueue.core.message.parts import part_of_id
from miniqueue.core.options.start import FromMessage, FromMessages, parse_start
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
    starts = await _starts(whole, start)
    first = part_of_id(start) % whole.topic.part_count  # it is the one that can refuse an id
    answers: dict[int, Answer] = {}
    for number in sorted(whole.topic.numbers, key=lambda number: number != first):
        answers[number] = answer = await whole.ask(number, **{name: starts[number]})
        if number == first and answer.is_error and code_of(answer) not in ABSENT | EXISTING:
            return [answer]
    return [answers[number] for number in whole.topic.numbers]


async def _starts(whole: Whole, start: bytes) -> Sequence[bytes]:
    """Return the start in each part; raises RequestError."""
    parsed, part_count = parse_start(start), whole.topic.part_count
    if isinstance(parsed, FromMessages):
        by_part: dict[int, list[bytes]] = {}
        for message_id in start.split(b","):
            by_part.setdefault(part_of_id(message_id) % part_count, []).append(message_id)
        return [b",".join(by_part.get(number, [b"earliest"])) for number in whole.topic.numbers]
    if not isinstance(parsed, FromMessage):
        return [start] * part_count
    number = part_of_id(start) % part_count
    partition, _, seq = start.partition(b"-")
    read = await whole.look(number, b"/partitions/" + partition, offset=seq, count=b"1")
    messages = [] if read.is_error else orjson.loads(read.body)["messages"]
    others = b"%d" % messages[0]["publishedAtMs"] if messages else b"latest"
    return [start if each == number else others for each in whole.topic.numbers]
