"""The read model `overview`: what needs attention, the sums, the broker, and the topics to check first."""

from collections.abc import Mapping
from functools import partial
from heapq import nlargest, nsmallest
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Final

from miniqueue import __version__
from miniqueue.access.rights import Right
from miniqueue.access.users import User, is_permitted
from miniqueue.broker.inspect.survey import TopicRow, Totals
from miniqueue.server.dashboard.models.model import Context, Make, Model
from miniqueue.server.dashboard.models.topics import oldest_at_ms_of, shown_parts, shown_row
from miniqueue.server.dashboard.models.visible import Visible, parts_needing_attention, shown_finding, visible

#: Number of findings and of topics that are listed.
SHOWN_FINDINGS: Final = 5
SHOWN_TOPICS: Final = 10
#: Maximum number of topics of which the oldest message is read again.
MAX_AGES: Final = 20
#: Bytes are rounded, so that a small change is not sent.
_MIB: Final = 1 << 20


def open_overview(context: Context, _options: Mapping[str, bytes], user: User | None) -> Make:
    """Open the overview."""
    return partial(_make, context, user)


async def _make(context: Context, user: User | None) -> dict[str, object]:
    broker = context.broker
    seen = await visible(await broker.overview.look(), user)
    sees_broker = is_permitted(user, Right.MONITOR)
    connections = broker.memory.connection_count(None) if sees_broker else None
    return {
        "attention": [shown_finding(each, seen.rows) for each in seen.findings[:SHOWN_FINDINGS]],
        "attentionMore": max(0, len(seen.findings) - SHOWN_FINDINGS),
        "totals": shown_totals(seen.totals) | {"connections": connections},
        "oldest": await _oldest(context, seen),
        "broker": broker_facts(context) if sees_broker else None,
        "topics": [await shown_row(context, row, seen) for row in _to_look_at(seen)],
        **await shown_parts(context, seen),
        **parts_needing_attention(seen),
    }


OVERVIEW: Final = Model(open_overview)


async def _oldest(context: Context, seen: Visible) -> dict[str, object] | None:
    """Return the oldest message of all topics; None if there is none, or none is known.

    What the survey knows is at most as late as the oldest message of a topic, so topics are read in that order until
    the next one cannot be older. Dead letters do not count: they wait for a person.
    """
    first = nsmallest(MAX_AGES, seen.ages.items(), key=itemgetter(1))
    oldest: tuple[int, bytes] | None = None
    for name, at_latest_ms in first:
        if oldest is not None and oldest[0] <= at_latest_ms:
            break
        row = seen.row_of(name)
        at_ms = None if row is None else await oldest_at_ms_of(context, row)
        if at_ms is not None and (oldest is None or at_ms < oldest[0]):
            oldest = at_ms, name
    return None if oldest is None else {"topic": oldest[1].decode(), "atMs": oldest[0]}


def shown_totals(totals: Totals) -> dict[str, object]:
    """Return sums as JSON."""
    return {
        "topics": totals.topics,
        "ready": totals.ready,
        "leased": totals.leased,
        "delayed": totals.delayed,
        "dead": totals.dead,
        "consumers": totals.consumers,
        "publishedPerSecond": totals.published,
        "acknowledgedPerSecond": totals.acknowledged,
        "returnedPerSecond": totals.returned,
    }


def broker_facts(context: Context) -> dict[str, object]:
    """Return what is shown of the broker as a whole: its memory, its disk, and how busy it is."""
    broker, facts = context.broker, context.facts
    memory, free_bytes = broker.memory, broker.free_bytes
    return {
        "version": __version__,
        "startedAtMs": context.facts.started_at_ms,
        "diskFreeBytes": None if free_bytes is None else _rounded(free_bytes),
        "minFreeBytes": facts.min_free_bytes,
        "memory": {
            "limitBytes": memory.max_bytes,
            "usedBytes": memory.used_bytes,
            "rssBytes": _rounded(facts.rss_bytes()),
            "purposes": {purpose.value: size_bytes for purpose, size_bytes in memory.amounts().items()},
        },
        "loopLagSeconds": _lag(context),
    }


def _lag(context: Context) -> dict[str, float] | None:
    lag = context.facts.loop_lag()
    return None if not lag else {"p50": lag["0.5"], "p99": lag["0.99"], "max": lag["1"]}


def _rounded(size_bytes: int) -> int:
    return size_bytes // _MIB * _MIB


def _to_look_at(seen: Visible) -> list[TopicRow]:
    """Return the topics that need attention, and then those with the most ready messages."""
    names: dict[bytes, None] = {}
    for each in seen.findings:
        if each.topic in seen.rows and each.topic in seen.worst:
            names[each.topic] = None
            if len(names) == SHOWN_TOPICS:
                break
    largest = nlargest(SHOWN_TOPICS, seen.rows.values(), key=attrgetter("ready"))
    names |= dict.fromkeys(row.name for row in largest if row.ready)
    return [seen.rows[name] for name in islice(names, SHOWN_TOPICS)]
