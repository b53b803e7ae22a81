"""Inspecting a spread topic: its statistics, its partitions, and pages of its messages.

GET /topics/{topic}                        all parts at the same time; the settings are those of the whole
GET /topics/{topic}/partitions             the same
GET /topics/{topic}/messages, search       one part after the other, until the page is full
GET /leases?topic=                         the same
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import orjson

from miniqueue.broker.inspect.peek import DEFAULT_COUNT
from miniqueue.broker.inspect.peeked import parse_count
from miniqueue.broker.inspect.positions import DEFAULT_SCAN, parse_scan
from miniqueue.broker.leases.listing import MAX_COUNT
from miniqueue.core.message.parts import part_of_id
from miniqueue.server.asgi.request import parameters_of
from miniqueue.server.shards.http.owners import Answer
from miniqueue.server.shards.http.parts.whole import ABSENT, Whole, code_of, joined, json_answer, merged
from miniqueue.server.shards.parts.paging import Page, PartPage, Wanted, page_of, start_of
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
    first = part_of_id(options["after"]) % whole.topic.part_count if "after" in options else 0
    page = await _page(whole, "messages", first, DEFAULT_COUNT, {"after": None})
    return page.error or json_answer({"messages": _joined(page)})


async def leases(whole: Whole) -> Answer:
    """Return a page of leases; raises RequestError.

    Receipts of a part are above those of the parts before it, so `after` is right for all of them.
    """
    page = await _page(whole, "leases", 0, MAX_COUNT, {})
    name = whole.topic.name.decode()
    return page.error or json_answer({"leases": [row | {"topic": name} for row in _joined(page)]})


async def _page(
    whole: Whole, name: str, first: int, default_count: int, following: Mapping[str, bytes | None]
) -> Page[Answer]:
    """Return the lists of this name of the parts from `first` on; those after it get the parameters `following`."""

    def ask(number: int, wanted: Wanted) -> Awaitable[Answer]:
        return whole.ask(number, count=b"%d" % wanted.max_count, **({} if wanted.is_first else following))

    def page_in(answer: Answer) -> PartPage | None:
        if answer.is_error:
            return None
        rows = orjson.loads(answer.body)[name]
        return PartPage(rows, len(rows), len(answer.body))

    options = dict(parameters_of(whole.scope))
    count = parse_count(options["count"]) if "count" in options else default_count
    return await page_of(range(first, whole.topic.part_count), ask, page_in, _is_absent, count)


async def search(whole: Whole) -> Answer:
    """Return a page of messages that fit a filter; raises RequestError."""
    options = dict(parameters_of(whole.scope))
    count = parse_count(options["count"]) if "count" in options else DEFAULT_COUNT
    scan = parse_scan(options["scan"]) if "scan" in options else DEFAULT_SCAN
    after = options.get("after")
    first = 0 if after is None else part_of_id(after) % whole.topic.part_count

    def ask(number: int, wanted: Wanted) -> Awaitable[Answer]:
        own = after if wanted.is_first and after != start_of(number) else None
        return whole.ask(number, count=b"%d" % wanted.max_count, scan=b"%d" % wanted.scan, after=own)

    def page_in(answer: Answer) -> PartPage | None:
        if answer.is_error:
            return None
        content = orjson.loads(answer.body)
        rows, following = content["messages"], content["next"]
        return PartPage(rows, len(rows), len(answer.body), content["scanned"], following and following.encode())

    page = await page_of(range(first, whole.topic.part_count), ask, page_in, _is_absent, count, scan)
    following = None if page.following is None else page.following.decode()
    return page.error or json_answer({"messages": _joined(page), "next": following, "scanned": page.scanned})


def _is_absent(error: Answer) -> bool:
    return code_of(error) in ABSENT


def _joined(page: Page[Answer]) -> list[Row]:
    return [row for rows in page.contents for row in rows]
