"""The read model `dead`: topics with dead letters, those that grow first; or, with `topic`, the reasons of one topic.

    ?q=&page=&count=    {"total":…,"topics":[{"topic":…,"deadLetterTopic":…,"dead":1204,"grown":12,"oldestAtMs":…}]}
    ?topic=orders       {"examined":1000,"isPart":true,"total":1204,"reasons":[{"reason":"…","count":900,…}]}

Dead letters are counted by the topic that holds them. If it holds those of several topics, they are counted together.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_permitted
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.inspect.survey import TopicRow
from miniqueue.core.message import attributes
from miniqueue.core.options.filter import parse_filter
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.errors.requests import UnknownTopicError
from miniqueue.server.dashboard.models.model import Context, Make, Model, number_of, text_of
from miniqueue.server.dashboard.models.topics import DEFAULT_COUNT, MAX_PAGE, matcher_of, oldest_at_ms_of
from miniqueue.server.dashboard.models.visible import visible

#: Number of topics that are compared in one iteration of the event loop.
ROWS_IN_TURN: Final = 500
#: Maximum number of dead letters whose reasons are counted.
EXAMINED: Final = 1_000


class _Letters(NamedTuple):
    """The dead letters of a topic, in the topic `held`."""

    grown: int
    dead: int
    topic: bytes
    held: TopicRow


def open_dead(context: Context, options: Mapping[str, bytes], user: User | None) -> Make:
    """Open the list, or the reasons of a topic; raises NotPermittedError."""
    if topic := options.get("topic"):
        check_permitted(user, Right.MONITOR, topic, "GET /ui/data/dead")
        return partial(_reasons, context, topic)
    count = number_of(options, "count", DEFAULT_COUNT, context.max_count)
    first = (number_of(options, "page", 1, MAX_PAGE) - 1) * count
    return partial(_list, context, user, text_of(options, "q"), slice(first, first + count))


DEAD: Final = Model(open_dead, ("topic", "q", "page", "count"))


async def _list(context: Context, user: User | None, text: str, page: slice) -> dict[str, object]:
    seen = await visible(await context.broker.overview.look(), user)
    matches = matcher_of(text)
    total, letters = await _letters(context, seen.rows, matches)
    of_parts = (await _letters(context, seen.parts, None))[1] if seen.parts else []
    return {
        "total": total,
        "matching": len(letters),
        "topics": [await _shown(context, each) for each in letters[page]],
        **({"parts": [await _shown(context, each) for each in of_parts]} if of_parts else {}),
    }


async def _letters(
    context: Context, rows: Mapping[bytes, TopicRow], matches: Callable[[bytes], bool] | None
) -> tuple[int, list[_Letters]]:
    """Return how many of these topics have dead letters, and those that match, the one that grows most first."""
    counted, growth_of = await _counted(context, rows), context.broker.overview.history.growth_of
    letters: list[_Letters] = []
    for number, (held, (topic, dead)) in enumerate(counted.items(), 1):
        if matches is None or matches(topic):
            letters.append(_Letters(growth_of(rows[held].topic_id)[0], dead, topic, rows[held]))
        if number % ROWS_IN_TURN == 0:
            await asyncio.sleep(0)
    letters.sort(key=lambda each: (-each.grown, -each.dead, each.topic))
    return len(counted), letters


async def _shown(context: Context, letters: _Letters) -> dict[str, object]:
    return {
        "topic": letters.topic.decode(),
        "deadLetterTopic": letters.held.name.decode(),
        "dead": letters.dead,
        "grown": letters.grown,
        "oldestAtMs": await oldest_at_ms_of(context, letters.held),
    }


async def _counted(context: Context, rows: Mapping[bytes, TopicRow]) -> dict[bytes, tuple[bytes, int]]:
    """Return the topic that dead letters came from, and their number, by the topic in `rows` that holds them."""
    settings_of = context.broker.admin.settings_of
    counted: dict[bytes, tuple[bytes, int]] = {}
    for number, row in enumerate(rows.values(), 1):
        if row.has_letters and row.depth:
            counted.setdefault(row.name, (row.name, row.depth))
        if row.dead:
            with suppress(UnknownTopicError):  # it was just deleted
                held = settings_of(row.name).dead_letters_of(row.name)
                if held in rows:
                    counted[held] = row.name, row.dead
        if number % ROWS_IN_TURN == 0:
            await asyncio.sleep(0)
    return counted


async def _reasons(context: Context, topic: bytes) -> dict[str, object]:
    """Count the reasons of the first dead letters of a topic; raises UnknownTopicError."""
    broker = context.broker
    name = broker.admin.settings_of(topic).dead_letters_of(topic)
    await broker.waking.wake_named([topic])
    page = await broker.inspect.search(topic, parse_filter({}), state=State.DEAD, count=EXAMINED, max_scanned=EXAMINED)
    reasons: dict[str, list[int]] = {}
    for message in page.messages:
        reason, died_at_ms = _end_of(message.stored.attributes)
        times = reasons.setdefault(reason, [0, died_at_ms, died_at_ms])
        times[:] = times[0] + 1, min(times[1], died_at_ms), max(times[2], died_at_ms)
    row = (await broker.overview.look()).row_of(topic)
    return {
        "topic": topic.decode(),
        "deadLetterTopic": name.decode(),
        "examined": len(page.messages),
        "isPart": page.next is not None,
        "total": None if row is None else row.dead,
        "reasons": [
            {"reason": reason, "count": count, "firstMs": first_ms, "lastMs": last_ms}
            for reason, (count, first_ms, last_ms) in sorted(reasons.items(), key=lambda item: -item[1][0])
        ],
    }


def _end_of(encoded: bytes) -> tuple[str, int]:
    """Return why and when a message became a dead letter."""
    try:
        origin = attributes.decode(encoded).origin
    except (CorruptionError, FormatVersionError):
        origin = None
    return ("", 0) if origin is None else (origin.reason.decode("utf-8", "replace"), origin.died_at_ms)
