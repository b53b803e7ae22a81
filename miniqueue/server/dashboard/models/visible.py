"""What one user sees of a survey: the topics that the user may monitor, their sums, and what needs attention there.

Users who may monitor the whole broker see the survey as it is; others see neither the broker as a whole nor the names
of other topics.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from miniqueue.access.rights import Right
from miniqueue.access.users import User, is_permitted
from miniqueue.broker.inspect.attention import Finding, Kind, Level
from miniqueue.broker.inspect.survey import Surveyed, TopicRow, Totals

#: The states of topics, the worst first, with the finding that makes them.
STATES: Final = {
    Kind.DAMAGED: "damaged",
    Kind.BEHIND: "behind",
    Kind.NO_CONSUMERS: "no-consumers",
    Kind.DEAD: "dead",
    Kind.PAUSED: "paused",
}
FINE: Final = "fine"
IDLE: Final = "idle"
ALL_STATES: Final = (*STATES.values(), FINE, IDLE)
#: Number of topics that are added or compared in one iteration of the event loop.
ROWS_IN_TURN: Final = 1_000


class Visible(NamedTuple):
    """What a user sees.

    Attributes:
      rows: the topics, by name.
      totals: their sums.
      findings: what needs attention, the worst first.
      worst: the worst finding of each topic with any.
      ages: when the oldest message of a topic was published, at the latest, by name, as far as it is known.
      parts: the parts of spread topics, and what needs attention there: `part_findings`; they are in the sums.
    """

    rows: Mapping[bytes, TopicRow]
    totals: Totals
    findings: Sequence[Finding]
    worst: Mapping[bytes, Finding]
    ages: Mapping[bytes, int]
    parts: Mapping[bytes, TopicRow]
    part_findings: Sequence[Finding]

    def row_of(self, name: bytes) -> TopicRow | None:
        """Return the row of a topic, or of a part of a spread topic; None if there is none."""
        return self.rows.get(name) or self.parts.get(name)

    def state_of(self, row: TopicRow) -> str:
        """Return the state of a topic."""
        worst = self.worst.get(row.name)
        if worst is not None:
            return STATES[worst.kind]
        return IDLE if row.is_idle else FINE


async def visible(surveyed: Surveyed, user: User | None) -> Visible:
    """Return what a user sees of a survey, in turns of the event loop."""
    rows, totals, findings, ages = surveyed.rows, surveyed.totals, surveyed.findings, surveyed.ages
    parts, part_findings = surveyed.parts, surveyed.part_findings
    if not is_permitted(user, Right.MONITOR) and user is not None:
        rows = {name: surveyed.rows[name] for name in user.monitored([*surveyed.rows])}
        parts = {name: surveyed.parts[name] for name in user.monitored([*surveyed.parts])}
        findings = [each for each in findings if each.topic in rows]
        part_findings = [each for each in part_findings if each.topic in parts]
        totals = (await _sums([*rows.values(), *parts.values()]))._replace(topics=len(rows))
        ages = {name: ages[name] for name in (*rows, *parts) if name in ages}
    return Visible(rows, totals, findings, surveyed.worst, ages, parts, part_findings)


async def _sums(rows: Sequence[TopicRow]) -> Totals:
    """Add up rows; the bytes that are stored are not known for each."""
    sums = Totals(topics=len(rows))
    for start in range(0, len(rows), ROWS_IN_TURN):
        some = rows[start : start + ROWS_IN_TURN]
        waiting = [row for row in some if not row.has_letters]
        sums = sums._replace(
            ready=sums.ready + sum(row.ready for row in waiting),
            leased=sums.leased + sum(row.leased for row in waiting),
            delayed=sums.delayed + sum(row.delayed for row in waiting),
            dead=sums.dead + sum(row.depth for row in some if row.has_letters),
            consumers=sums.consumers + sum(row.consumers for row in some),
            published=round(sums.published + sum(row.published for row in some), 3),
            acknowledged=round(sums.acknowledged + sum(row.acknowledged for row in some), 3),
            returned=round(sums.returned + sum(row.returned for row in some), 3),
        )
        await asyncio.sleep(0)
    return sums


def parts_needing_attention(seen: Visible) -> dict[str, object]:
    """Return the names of the parts of spread topics, and what needs attention there, as members of a model.

    There are none without parts: a broker without shards shows nothing of it.
    """
    if not seen.parts:
        return {}
    findings = [shown_finding(each, seen.parts) for each in seen.part_findings]
    return {"partNames": [name.decode() for name in seen.parts], "partAttention": findings}


_WORDS: Final = {Level.CRITICAL: "critical", Level.WARNING: "warning", Level.NOTE: "note"}


def shown_finding(finding: Finding, rows: Mapping[bytes, TopicRow]) -> dict[str, object]:
    """Return a finding as JSON."""
    row = rows.get(finding.topic) if finding.kind is Kind.PAUSED and not finding.group else None
    return {
        "level": _WORDS[finding.kind.level],
        "kind": finding.kind.value,
        "topic": finding.topic.decode() or None,
        "group": finding.group.decode() or None,
        "text": finding.text,
        "side": row.paused if row is not None and row.paused else None,
        "sinceMs": finding.since_ms,
    }
