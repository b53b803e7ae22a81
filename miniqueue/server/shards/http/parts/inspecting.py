"""Inspecting a spread topic: its statistics, its partitions, and pages of its messages.

    GET /topics/{topic}                        all parts at the same time; the settings are those of the whole
    GET /topics/{topic}/partitions             the same
    GET /topics/{topic}/messages, search       one part after the other, until the page is full
    GET /leases?topic=                         the same

Ids, receipts, and positions contain the part, so that a page continues where the one before has ended.
"""

from collections.abc import Callable, Sequence
from typing import Final

import orjson

from miniqueue.broker.inspect.peek import DEFAULT_COUNT, MAX_BYTES
from miniqueue.broker.inspect.peeked import parse_count
from miniqueue.broker.inspect.positions import DEFAULT_SCAN, parse_scan
from miniqueue.broker.leases.listing import MAX_COUNT
from miniqueue.core.message.parts import PART_BITS, part_of_id
from miniqueue.server.asgi.request import parameters_of
from miniqueue.server.shards.http.owners import Answer
from miniqueue.server.shards.http.parts.whole import ABSENT, Whole, code_of, joined, json_answer, merged, present
from miniqueue.server.views.wholes import Row, whole_figures

#: Returns the settings of a spread topic; None for dead letters that have none of their own.
SettingsOf = Callable[[bytes], Row | None]
_PARTITIONS: Final = "partitions"
#: Members of the statistics that are none.
_NO_FIGURES: Final = frozenset({"topic", "settings"})


async def statistics(settings_of: SettingsOf, whole: Whole) -> Answer:
    """Return the statistics and the settings of the topic."""
    settings, topic = settings_of(whole.topic.name), whole.topic

    def merge(rows: Sequence[Row]) -> Row:
        own = settings or {**rows[0]["settings"], "spread": topic.part_count}
        figures = [{name: value for name, value in row.items() if name not in _NO_FIGURES} for row in rows]
        return {"topic": topic.name.decode(), **whole_figures(figures), "settings": own}

    return merged(await whole.ask_all(), merge)


async def partitions(whole: Whole) -> Answer:
    """Return the partitions of all parts."""
    return merged(await whole.ask_all(), lambda contents: {_PARTITIONS: joined(_PARTITIONS, contents)})


async def messages(whole: Whole) -> Answer:
    """Return a page of messages in a state; raises RequestError."""
    options = dict(parameters_of(whole.scope))
    count = parse_count(options["count"]) if "count" in options else DEFAULT_COUNT
    first = part_of_id(options["after"]) % whole.topic.part_count if "after" in options else None
    return await _page(whole, "messages", count, first)


async def leases(whole: Whole) -> Answer:
    """Return a page of leases; raises RequestError.

    Receipts of a part are above those of the parts before it, so `after` is right for all of them.
    """
    options = dict(parameters_of(whole.scope))
    count = parse_count(options["count"]) if "count" in options else MAX_COUNT
    answer = await _page(whole, "leases", count, None)
    if answer.is_error:
        return answer
    name = whole.topic.name.decode()
    return json_answer({"leases": [row | {"topic": name} for row in orjson.loads(answer.body)["leases"]]})


async def _page(whole: Whole, name: str, count: int, only_first: int | None) -> Answer:
    """Return a list of the elements that the parts have, at most `count`.

    If `after` concerns one part, this is `only_first`, with which the page begins.
    """
    answers: list[Answer] = []
    size_bytes, rows = 0, list[Row]()
    for number in range(only_first or 0, whole.topic.part_count):
        after = {"after": None} if only_first is not None and number > only_first else {}
        answer = await whole.ask(number, count=b"%d" % (count - len(rows)), **after)
        answers.append(answer)
        if answer.is_error:
            if code_of(answer) not in ABSENT:
                return answer
            continue
        rows += orjson.loads(answer.body)[name]
        size_bytes += len(answer.body)
        if len(rows) >= count or size_bytes >= MAX_BYTES:  # so much may be less than what the part has
            break
    known = present(answers)
    return known[0] if known[0].is_error else json_answer({name: rows})


async def search(whole: Whole) -> Answer:
    """Return a page of messages that fit a filter; raises RequestError."""
    options = dict(parameters_of(whole.scope))
    count = parse_count(options["count"]) if "count" in options else DEFAULT_COUNT
    scan = parse_scan(options["scan"]) if "scan" in options else DEFAULT_SCAN
    after = options.get("after")
    first = 0 if after is None else part_of_id(after) % whole.topic.part_count
    answers: list[Answer] = []
    rows, scanned, size_bytes, following = list[Row](), 0, 0, None
    for number in range(first, whole.topic.part_count):
        if len(rows) >= count or scanned >= scan or size_bytes >= MAX_BYTES:
            following = _start_of(number).decode()
            break
        is_continued = number == first and after is not None and after != _start_of(first)
        answer = await whole.ask(
            number,
            count=b"%d" % (count - len(rows)),
            scan=b"%d" % (scan - scanned),
            after=after if is_continued else None,
        )
        answers.append(answer)
        if answer.is_error:
            if code_of(answer) not in ABSENT:
                return answer
            continue
        page = orjson.loads(answer.body)
        rows += page["messages"]
        scanned += page["scanned"]
        size_bytes += len(answer.body)
        if (following := page["next"]) is not None:
            break
    known = present(answers)
    return known[0] if known[0].is_error else json_answer({"messages": rows, "next": following, "scanned": scanned})


def _start_of(number: int) -> bytes:
    """Return a position before all of a part, which no message has."""
    return b"%d-0-0" % (number << PART_BITS)
