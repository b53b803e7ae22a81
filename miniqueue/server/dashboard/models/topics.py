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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import translate
from functools import partial
from operator import itemgetter
from re import compile as compile_pattern
from typing import Final, NamedTuple, TypedDict

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
#: The columns that are fields of a row.
_FIELDS: Final = (
    "ready",
    "leased",
    "delayed",
    "dead",
    "published",
    "acknowledged",
    "returned",
    "consumers",
    "groups",
)
_COLUMNS: Final = ("topic", *_FIELDS, "state", "oldest")
_SORTS: Final = (*_COLUMNS, *(f"-{column}" for column in _COLUMNS))
#: Rows whose age, which may be in the store, is found in one iteration of the event loop.
KEYS_IN_TURN: Final = 50


#: A sort key of a topic, which JSON has, and its name; None if the key is unknown.
Placed = tuple[int | float | str | None, str]


class Looked(TypedDict):
    """The topics that match, as JSON.

    Attributes:
      total: number of topics that the user sees; `matching`: of those that match.
      states: number of topics with such a name by state.
      order: the first of those that match, as far as they were asked for.
      topics: the topics that were named, and exist.
      parts: the parts of spread topics that are here, which are in nothing else, whether they match or not.
    """

    total: int
    matching: int
    states: dict[str, int]
    order: list[Placed]
    topics: list[dict[str, object]]
    parts: list[dict[str, object]]


class Criteria(NamedTuple):
    """Which topics match, and their order."""

    matches: Callable[[bytes], bool] | None
    state: str
    column: str
    is_descending: bool


#: Returns the topics with these names, and the first so many of those that match.
Look = Callable[[Sequence[str], int], Awaitable[Looked]]


class TopicPage:
    """A page of topics.

    Args:
      look: returns what is on it.
      options: the parameters.
      now_ms: returns the time.
    """

    def __init__(self, look: Look, options: Mapping[str, bytes], now_ms: Callable[[], int]) -> None:
        self._look = look
        self._now_ms = now_ms
        self._is_descending = criteria_of(options).is_descending
        self._count = number_of(options, "count", DEFAULT_COUNT, MAX_COUNT)
        self._page = number_of(options, "page", 1, MAX_PAGE)
        self._names: list[str] | None = None
        self._sorted_at_ms = 0

    async def make(self) -> dict[str, object]:
        """Return the page with the figures of now."""
        if self._names is None:
            self._sorted_at_ms = self._now_ms()
            first = (self._page - 1) * self._count
            looked = await self._look((), first + self._count)
            order = in_order(looked["order"], is_descending=self._is_descending)
            self._names = [name for _, name in order[first : first + self._count]]
            looked = await self._look(self._names, 0)
        else:
            looked = await self._look_again(self._names)
        rows = {row["topic"]: row for row in looked["topics"]}
        return {
            "total": looked["total"],
            "matching": looked["matching"],
            "states": looked["states"],
            "page": self._page,
            "sortedAtMs": self._sorted_at_ms,
            "topics": [rows[name] for name in self._names if name in rows],
        }

    async def _look_again(self, names: list[str]) -> Looked:
        """Look at the page; topics that match now fill the room at its end, which topics that were deleted made."""
        may_fill = self._page == 1
        looked = await self._look(names, self._count + len(names) if may_fill and len(names) < self._count else 0)
        if not may_fill:
            return looked
        existing = {row["topic"] for row in looked["topics"]}
        if len(existing) < len(names) == self._count:
            looked = await self._look(names, self._count + len(names))
        kept = [name for name in names if name in existing]
        on_page = set(kept)
        order = in_order(looked["order"], is_descending=self._is_descending)
        more = [name for _, name in order if name not in on_page][: self._count - len(kept)]
        self._names = kept + more
        return await self._look(self._names, 0) if more else looked


def criteria_of(options: Mapping[str, bytes]) -> Criteria:
    """Return the criteria in parameters; raises RequestError."""
    sort = choice_of(options, "sort", _SORTS, _DEFAULT_SORT)
    state = choice_of(options, "state", ALL_STATES)
    return Criteria(matcher_of(text_of(options, "q")), state, sort.removeprefix("-"), sort.startswith("-"))


async def look(
    context: Context, user: User | None, criteria: Criteria, names: Sequence[str], first_count: int
) -> Looked:
    """Return the topics with these names, and the order of the first that match."""
    seen = await visible(await context.broker.overview.look(), user)
    rows, counts = await _matching(seen, criteria)
    shown = [seen.rows[name] for name in map(str.encode, names) if name in seen.rows]
    return {
        "total": len(seen.rows),
        "matching": len(rows),
        "states": counts,
        "order": await _placed(context, rows, seen, criteria, first_count) if first_count else [],
        "topics": [await shown_row(context, row, seen) for row in shown],
        "parts": (await shown_parts(context, seen)).get("parts", []),
    }


async def shown_parts(context: Context, seen: Visible) -> dict[str, list[dict[str, object]]]:
    """Return the rows of the parts of spread topics as a member of a model; none if there are no parts."""
    return {"parts": [await shown_row(context, row, seen) for row in seen.parts.values()]} if seen.parts else {}


async def _matching(seen: Visible, criteria: Criteria) -> tuple[list[TopicRow], dict[str, int]]:
    """Return the rows on all pages, and how many topics with such a name are in each state."""
    counts, rows, all_rows = dict.fromkeys(ALL_STATES, 0), list[TopicRow](), [*seen.rows.values()]
    for start in range(0, len(all_rows), ROWS_IN_TURN):
        for row in all_rows[start : start + ROWS_IN_TURN]:
            if criteria.matches is None or criteria.matches(row.name):
                state = seen.state_of(row)
                counts[state] += 1
                if not criteria.state or state == criteria.state:
                    rows.append(row)
        await asyncio.sleep(0)
    return rows, counts


async def _placed(
    context: Context, rows: Sequence[TopicRow], seen: Visible, criteria: Criteria, count: int
) -> list[Placed]:
    """Return the first rows in order."""
    placed = list[Placed]()
    for number, row in enumerate(rows, 1):
        placed.append((await _key(context, criteria.column, row, seen), row.name.decode()))
        if number % KEYS_IN_TURN == 0:
            await asyncio.sleep(0)
    return in_order(placed, is_descending=criteria.is_descending)[:count]


def in_order(placed: Sequence[Placed], *, is_descending: bool) -> list[Placed]:
    """Return topics in the order of their keys, those with unknown keys last, and equal ones in that of their names."""
    known = sorted([each for each in placed if each[0] is not None], key=itemgetter(1))
    known.sort(key=itemgetter(0), reverse=is_descending)
    return [*known, *sorted([each for each in placed if each[0] is None], key=itemgetter(1))]


async def _key(context: Context, column: str, row: TopicRow, seen: Visible) -> int | float | str | None:
    if column == "topic":
        return row.name.decode()
    if column == "state":
        return ALL_STATES.index(seen.state_of(row))
    if column == "oldest":
        at_ms = await oldest_at_ms_of(context, row)
        return None if at_ms is None else -at_ms  # the age
    value: int | float | None = getattr(row, column)
    return value


def open_topics(context: Context, options: Mapping[str, bytes], user: User | None) -> Make:
    """Open a page of topics."""
    return TopicPage(partial(look, context, user, criteria_of(options)), options, context.broker.clock.now_ms).make


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
