"""The read model `totals`: the counts of the sidebar, which every open page shows."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from miniqueue import __version__
from miniqueue.access.rights import Right
from miniqueue.access.users import User, is_permitted
from miniqueue.broker.inspect.attention import Kind, Level
from miniqueue.server.dashboard.models.model import Context, Make, Model
from miniqueue.server.dashboard.models.visible import parts_needing_attention, visible


def open_totals(context: Context, _options: Mapping[str, bytes], user: User | None) -> Make:
    """Open the counts for a user."""
    return partial(_make, context, user)


TOTALS: Final = Model(open_totals)


async def _make(context: Context, user: User | None) -> dict[str, object]:
    broker = context.broker
    seen = await visible(await broker.overview.look(), user)
    refusal = broker.refusal
    return {
        "version": __version__,
        "startedAtMs": context.facts.started_at_ms,
        "topics": seen.totals.topics,
        "ready": seen.totals.ready,
        "dead": seen.totals.dead,
        "deadGrows": any(each.kind is Kind.DEAD for each in (*seen.findings, *seen.part_findings)),
        "consumers": seen.totals.consumers,
        "schedules": broker.scheduler.count if is_permitted(user, Right.MONITOR) else None,
        "attention": sum(each.kind.level is not Level.NOTE for each in seen.findings),
        "critical": sum(each.kind.level is Level.CRITICAL for each in seen.findings),
        "refused": None if refusal is None else refusal.code,
        **parts_needing_attention(seen),
    }
