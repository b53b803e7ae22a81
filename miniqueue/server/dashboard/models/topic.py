"""The read model `topic`: one topic, with its groups, its partitions, and its settings."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from operator import attrgetter
from typing import Final

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_permitted, is_permitted
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.views import GroupFigures
from miniqueue.core.message.parts import remove_from
from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX, TopicSettings
from miniqueue.errors import MiniqueueError
from miniqueue.server.dashboard.models.model import Context, Make, Model, topic_of
from miniqueue.server.dashboard.models.rights import rights_of
from miniqueue.server.dashboard.models.topics import shown_row
from miniqueue.server.dashboard.models.visible import FINE, visible
from miniqueue.server.views.groups import partition_word, shown_group

#: Number of groups and of partitions that are listed.
MAX_GROUPS: Final = 200
MAX_PARTITIONS: Final = 256
_TOTALS: Final = {
    "published": "published",
    "acknowledged": "acknowledged",
    "moved": "moved",
    "dropped": "dropped",
    "expired": "expired",
    "missed": "missed",
    "sizeBytes": "size_bytes",
    "retained": "retained",
    "retainedBytes": "retained_bytes",
    "requests": "requests",
}


def open_topic(context: Context, options: Mapping[str, bytes], user: User | None) -> Make:
    """Open a topic; raises NotPermittedError."""
    name = topic_of(options)
    check_permitted(user, Right.MONITOR, name, "GET /ui/data/topic")
    return partial(_make, context, name, user)


TOPIC: Final = Model(open_topic, ("topic",))


async def _make(context: Context, name: bytes, user: User | None) -> dict[str, object]:
    """Return the topic; raises UnknownTopicError or InvalidTopicError."""
    broker = context.broker
    settings, figures = broker.admin.settings_of(name), await broker.inspect.stats(name)
    async with aclosing(broker.groups.figures(name)) as listed:
        groups = [group async for group in listed]
    return {
        **await _shown(context, name, user),
        "ready": figures["ready"],
        "slowestGroup": _slowest_of(groups),
        "leased": sum(group.leased for group in groups),
        "delayed": figures["delayed"],
        "rights": rights_of(user, name),
        "groups": [await _group(context, name, group, settings) for group in groups[:MAX_GROUPS]],
        "groupsMore": max(0, len(groups) - MAX_GROUPS),
        "partitions": await _partitions(context, name, groups),
        "deliveryP99Seconds": figures["latency_p99_seconds"],
        "nextDueAtMs": await _next_due_at_ms(context, name) if figures["delayed"] else None,
        "pausedInUntilMs": settings.paused_in_until_ms or None,
        "pausedOutUntilMs": settings.paused_out_until_ms or None,
        "settings": settings._asdict(),
        "changed": sorted(settings.members()),
        "totals": {shown: figures[figure] for shown, figure in _TOTALS.items()},
        "deadLetterTopic": settings.dead_letters_of(name).decode(),
        "deadLettersOf": _origin_of(context, user, name),
    }


def _slowest_of(groups: Sequence[GroupFigures]) -> str | None:
    """Return the group whose ready messages are those of the topic; None if there is no other, or nothing waits."""
    if len(groups) < 2:
        return None
    slowest = max(groups, key=attrgetter("lag"))
    return slowest.name.decode() if slowest.lag else None


def _origin_of(context: Context, user: User | None, name: bytes) -> str | None:
    """Return the topic whose dead letters a topic holds, if its name says that, and the user may know of it."""
    origin = remove_from(name, DEAD_LETTER_SUFFIX)
    if origin == name or not is_permitted(user, Right.MONITOR, origin):
        return None
    with suppress(MiniqueueError):  # there is no such topic
        if context.broker.admin.settings_of(origin).dead_letters_of(origin) == name:
            return origin.decode()
    return None


async def _shown(context: Context, name: bytes, user: User | None) -> dict[str, object]:
    """Return the row of the topic; most of it is unknown if the topic is newer than the last survey."""
    seen = await visible(await context.broker.overview.look(), user)
    row = seen.row_of(name)
    if row is None:
        return {"topic": name.decode(), "state": FINE, "sinceMs": None, "dead": None, "readyHistory": []}
    return await shown_row(context, row, seen)


async def _group(context: Context, topic: bytes, group: GroupFigures, settings: TopicSettings) -> dict[str, object]:
    shown, at_ms = shown_group(group), None
    with suppress(MiniqueueError):
        at_ms = await context.broker.inspect.oldest_at_ms(topic, group.name) if group.lag else None
    return {
        "group": group.name.decode(),
        "ready": group.ready,
        "leased": group.leased,
        "delayed": group.delayed,
        "lag": group.lag,
        "oldestAtMs": at_ms,
        "consumers": group.consumers,
        "waiting": group.waiting,
        "acknowledged": group.acknowledged,
        "acknowledgedPerSecond": group.ack_rate_10s,
        "missed": group.missed,
        "pausedUntilMs": dict(settings.paused_groups).get(group.name.decode()),
        "position": shown["position"],
        "lags": shown["lags"],
        "members": shown["members"],
        "moving": shown["moving"],
        "unreadSeconds": group.unread_seconds,
        "idleSeconds": group.idle_seconds,
    }


async def _partitions(context: Context, name: bytes, groups: Sequence[GroupFigures]) -> list[dict[str, object]]:
    """Return the partitions, each with the lag of the group that lags most there."""
    partitions = await context.broker.inspect.log.partitions(name)
    return [
        {
            "partition": partition_word(bounds.partition),
            "earliest": bounds.earliest_seq,
            "end": bounds.end_seq,
            "earliestAtMs": at_ms,
            "lag": max((group.lags.get(bounds.partition, 0) for group in groups), default=0),
        }
        for bounds, at_ms in partitions[:MAX_PARTITIONS]
    ]


async def _next_due_at_ms(context: Context, name: bytes) -> int | None:
    messages = await context.broker.inspect.peek(name, State.DELAYED, 1)
    return messages[0].due_at_ms if messages else None
