"""What is known of a topic, and the order of topics. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX

#: The figures of a topic, by name; those that are not known are missing or None.
Row: TypeAlias = Mapping[str, Any]

#: The orders: the word of the flag, the member of a row. Numbers are sorted with the largest first.
ORDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lag": "lag",
        "topic": "topic",
        "dead": "dead",
        "oldest": "oldest_seconds",
        "in": "in_per_second",
        "out": "out_per_second",
    }
)


def row_of(topic: str, stats: Mapping[str, Any] | None) -> Row:
    """Return the row of a topic; `stats` is None if the user may not see its statistics."""
    if stats is None:
        return {"topic": topic}
    return {
        "topic": topic,
        "lag": stats["depth"],
        "ready": stats["ready"],
        "leased": stats["leased"],
        "delayed": stats["delayed"],
        "oldest_seconds": stats["oldest_seconds"],
        "in_per_second": stats["publish_rate_10s"],
        "out_per_second": stats["ack_rate_10s"],
        "consumers": stats["consumers"],
    }


def dead_letter_topic(topic: str, settings: Mapping[str, str] | None) -> str:
    """Return the topic of the dead letters of a topic; `settings` is None if they are not known."""
    named = (settings or {}).get("dead_letter_topic", "default")
    return topic + DEAD_LETTER_SUFFIX.decode() if named == "default" else named


def ranked(rows: Iterable[Row], order: str, *, is_reversed: bool) -> list[Row]:
    """Return the rows in an order; rows without the figure come last, and equal rows by name."""
    member = ORDERS[order]
    by_name = sorted(rows, key=lambda row: str(row["topic"]), reverse=member == "topic" and is_reversed)
    if member == "topic":
        return by_name
    known = [row for row in by_name if row.get(member) is not None]
    unknown = [row for row in by_name if row.get(member) is None]
    sign = 1 if is_reversed else -1
    return sorted(known, key=lambda row: sign * float(row[member])) + unknown
