"""The read model `topics`: a page of topics, filtered and sorted here, so that the browser gets one page of them.

    ?q=       a part of the name, in any case, or a pattern with `*`
    ?state=   one of the states
    ?sort=    a column; with `-` first, descending
    ?page=    from 1, with count= topics each

Which rows are on the page, and in which order, is decided when it is opened; afterwards only their figures change, so
that no row moves while a person points at it. Topics that match later are added at the end of the first page while it
has room, so that a list that was opened before its first topic existed shows it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import translate
from functools import partial
from operator import attrgetter, itemgetter
from re import compile as compile_pattern
from typing import Final

from miniqueue.access.users import User
from miniqueue.broker.inspect.survey import TopicRow
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import UnknownTopicError
from miniqueue.server.dashboard.models.model import Context, Make, Model, choice_of, number_of, text_of
from miniqueue.server.dashboard.models.visible import ALL_STATES, ROWS_IN_TURN, Visible, visible

DEFAULT_COUNT: Final = 50
MAX_COUNT: Final = 100
MAX_PAGE: Final = 100_000
_DEFAULT_SORT: Final = "-ready"
#: The columns that are fields of a row, with the field.
_FIELDS: Final = {
    "topic": "name",
    "ready": "ready",
    "leased": "leased",
    "delayed": "delayed",
    "published": "published",
    "acknowledged": "acknowledged",
    "returned": "returned",
    "consumers": "consumers",
    "groups": "groups",
}
_COLUMNS: Final = (*_FIELDS, "dead", "state", "oldest")
_SORTS: Final = (*_COLUMNS, *(f"-{column}" for column in _COLUMNS))
#: Rows whose age, which may be in the store, is found in one iteration of the event loop.
KEYS_IN_TURN: Final = 50
#: Sorts unknown values after all others.
_UNKNOWN: Final = float("inf")


class _Page:
    """A page of topics of one user."""

    def __init__(self, context: Context, options: Mapping[str, bytes], user: User | None) -> None:
        self._context = context
        self._user = user
        self._matches = matcher_of(text_of(options, "q"))
        self._state = choice_of(options, "state", ALL_STATES)
        self._sort = choice_of(options, "sort", _SORTS, _DEFAULT_SORT)
        self._count = number_of(options, "count", DEFAULT_COUNT, MAX_COUNT)
        self._page = number_of(options, "page", 1, MAX_PAGE)
        self._names: list[bytes] | None = None
        self._sorted_at_ms = 0

    async def make(self) -> dict[str, object]:
        """Return the page with the figures of now."""
        seen = await visible(await self._context.broker.overview.look(), self._user)
        rows, counts = await self._matching(seen)
        if self._names is None:
            self._sorted_at_ms = self._context.broker.clock.now_ms()
            first = (self._page - 1) * self._count
            self._names = [row.name for row in (await self._in_order(rows, seen))[first : first + self._count]]
        elif self._page == 1:
            await self._fill(rows, seen)
        shown = [seen.rows[name] for name in self._names if name in seen.rows]
        return {
            "total": len(seen.rows),
            "matching": len(rows),
            "states": counts,
            "page": self._page,
            "sortedAtMs": self._sorted_at_ms,
            "topics": [await shown_row(self._context, row, seen) for row in shown],
        }

    async def _matching(self, seen: Visible) -> tuple[list[TopicRow], dict[str, int]]:
        """Return the rows on all pages, and how many topics with such a name are in each state."""
        counts, rows, all_rows = dict.fromkeys(ALL_STATES, 0), list[TopicRow](), [*seen.rows.values()]
        for start in range(0, len(all_rows), ROWS_IN_TURN):
            for row in all_rows[start : start + ROWS_IN_TURN]:
                if self._matches is None or self._matches(row.name):
                    state = seen.state_of(row)
                    counts[state] += 1
                    if not self._state or state == self._state:
                        rows.append(row)
            await asyncio.sleep(0)
        return rows, counts

    async def _fill(self, rows: Sequence[TopicRow], seen: Visible) -> None:
        """Add topics that match now to the end of a page that has room; topics that were deleted make room."""
        self._names = [name for name in self._names or () if name in seen.rows]
        if room := self._count - len(self._names):
            on_page = set(self._names)
            more = [row for row in rows if row.name not in on_page]
            self._names += [row.name for row in (await self._in_order(more, seen))[:room]]

    async def _in_order(self, rows: Sequence[TopicRow], seen: Visible) -> list[TopicRow]:
        column, is_descending = self._sort.removeprefix("-"), self._sort.startswith("-")
        if (name := _FIELDS.get(column)) is not None:
            return sorted(rows, key=attrgetter(name), reverse=is_descending)
        keys = list[float]()
        for number, row in enumerate(rows, 1):
            keys.append(await self._key(column, row, seen))
            if number % KEYS_IN_TURN == 0:
                await asyncio.sleep(0)
        known = [(key, row) for key, row in zip(keys, rows, strict=True) if key != _UNKNOWN]
        unknown = [row for key, row in zip(keys, rows, strict=True) if key == _UNKNOWN]
        known.sort(key=itemgetter(0), reverse=is_descending)
        return [*(row for _, row in known), *unknown]

    async def _key(self, column: str, row: TopicRow, seen: Visible) -> float:
        if column == "state":
            return ALL_STATES.index(seen.state_of(row))
        if column == "dead":
            return _UNKNOWN if row.dead is None else row.dead
        at_ms = await oldest_at_ms_of(self._context, row)
        return _UNKNOWN if at_ms is None else -at_ms  # the age


def open_topics(context: Context, options: Mapping[str, bytes], user: User | None) -> Make:
    """Open a page of topics."""
    return _Page(context, options, user).make


TOPICS: Final = Model(open_topics, ("q", "state", "sort", "page", "count"))


def matcher_of(text: str) -> Callable[[bytes], bool] | None:
    """Return a function that returns whether a name matches what a person is looking for; None: every name does."""
    if not text:
        return None
    lowered = text.lower()
    if "*" in text:
        escaped = lowered.replace("[", "[[]").replace("?", "[?]")
        pattern = compile_pattern(translate(escaped))
        return lambda name: pattern.match(name.decode().lower()) is not None
    return partial(_contains, lowered)


def _contains(lowered: str, name: bytes) -> bool:
    return lowered in name.decode().lower()


async def oldest_at_ms_of(context: Context, row: TopicRow) -> int | None:
    """Return when the oldest message of a topic was published; None if there is none, or it cannot be read."""
    if not row.depth:
        return None
    with suppress(MiniqueueError):
        return await context.broker.inspect.oldest_at_ms(row.name)
    return None


def dead_letter_topic_of(context: Context, name: bytes) -> str | None:
    """Return the name of the topic that gets the dead letters of a topic; None if the topic was just deleted."""
    try:
        return context.broker.admin.settings_of(name).dead_letters_of(name).decode()
    except UnknownTopicError:
        return None


async def shown_row(context: Context, row: TopicRow, seen: Visible) -> dict[str, object]:
    """Return a topic as JSON."""
    worst = seen.worst.get(row.name)
    return {
        "topic": row.name.decode(),
        "state": seen.state_of(row),
        "sinceMs": None if worst is None else worst.since_ms,
        "ready": row.ready,
        "leased": row.leased,
        "delayed": row.delayed,
        "dead": row.dead,
        "publishedPerSecond": row.published,
        "acknowledgedPerSecond": row.acknowledged,
        "returnedPerSecond": row.returned,
        "oldestAtMs": await oldest_at_ms_of(context, row),
        "consumers": row.consumers,
        "groups": row.groups,
        "paused": row.paused or None,
        "damaged": row.is_damaged,
        "isDeadLetters": row.has_letters,
        "deadLetterTopic": dead_letter_topic_of(context, row.name),
        "readyHistory": context.broker.overview.history.ready_of(row.topic_id),
    }
