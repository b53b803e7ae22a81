"""Spread topics on the page: what shards show of each part, made what a person sees of the topic; pure functions.

    orders␟0 {ready 2, state fine}   orders␟3 {ready 5, state behind}   ─▶   orders {ready 7, state behind}

Counts are added, the oldest message is that of all parts, and the state is the worst.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from miniqueue.server.dashboard.models.visible import ALL_STATES
from miniqueue.server.views.wholes import (
    Combine,
    Row,
    combined,
    grouped,
    joined,
    united,
    whole_members,
    whole_name,
    whole_value,
)

#: The members of a row that have other names than the columns.
_COLUMNS: Final = {name: f"{name}PerSecond" for name in ("published", "acknowledged", "returned")}


def whole_names(names: Iterable[str]) -> list[str]:
    """Return the names of the topics, each once."""
    return [*dict.fromkeys(map(whole_name, names))]


def whole_rows(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each topic, from rows of the list of topics for each part."""
    return [_whole_row(of_topic) for of_topic in _by_name(rows).values()]


def whole_findings(findings: Iterable[Row]) -> list[Row]:
    """Return each finding about a topic once; its text is that of one part, and says how many more there are."""
    merged = grouped(findings, lambda finding: (finding["kind"], whole_name(finding["topic"]), finding["group"]))
    return [_whole_finding(topic, of_parts) for (_, topic, _), of_parts in merged.items()]


def whole_letters(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each topic, from rows of the list of topics with dead letters."""
    kinds: dict[str, Combine] = {"dead": sum, "grown": sum, "oldestAtMs": min}
    return [
        combined(of_topic, kinds) | {name: whole_name(of_topic[0][name]) for name in ("topic", "deadLetterTopic")}
        for of_topic in _by_name(rows).values()
    ]


def whole_holders(rows: Iterable[Row]) -> list[Row]:
    """Return who holds leases of a topic, each once for each group."""
    held = grouped(rows, lambda row: (row["group"], row["user"], row["address"]))
    return [combined(of_holder, {"leased": sum, "firstEndsAtMs": min}) for of_holder in held.values()]


def whole_reasons(parts: Sequence[Row]) -> Row:
    """Return the reasons of the dead letters of a topic, the most frequent first."""
    reasons = grouped(joined(part["reasons"] for part in parts), lambda reason: reason["reason"])
    merged = [combined(rows, {"count": sum, "firstMs": min, "lastMs": max}) for rows in reasons.values()]
    return {
        **combined(parts, {"examined": sum, "total": sum, "isPart": any}),
        **{name: whole_name(parts[0][name]) for name in ("topic", "deadLetterTopic")},
        "reasons": sorted(merged, key=lambda reason: -reason["count"]),
    }


def whole_topic(parts: Sequence[Row]) -> Row:
    """Return the view of a topic, from the views of its parts; its settings are those of the first."""
    groups = grouped(joined(part["groups"] for part in parts), lambda group: group["group"])
    merged = [combined(of_group, _OF_GROUP) for of_group in groups.values()]
    slowest = max(merged, key=lambda group: group["lag"], default=None)
    origin = parts[0]["deadLettersOf"]
    return {
        **_whole_row([part | {"groups": len(part["groups"])} for part in parts]),
        "slowestGroup": slowest["group"] if slowest is not None and len(merged) > 1 and slowest["lag"] else None,
        "groups": merged,
        "groupsMore": max(part["groupsMore"] for part in parts),
        "partitions": joined(part["partitions"] for part in parts),
        "nextDueAtMs": whole_value(min, parts, "nextDueAtMs"),
        "deliveryP99Seconds": whole_value(max, parts, "deliveryP99Seconds"),
        "totals": combined([part["totals"] for part in parts], dict.fromkeys(parts[0]["totals"], sum)),
        "deadLettersOf": None if origin is None else whole_name(origin),
    }


def key_of(row: Row, column: str) -> int | float | str | None:
    """Return by what the list of topics is sorted by a column; None if that is unknown."""
    if column == "state":
        return ALL_STATES.index(row["state"])
    if column == "oldest":
        return None if row["oldestAtMs"] is None else -row["oldestAtMs"]  # the age
    value: int | float | str | None = row[_COLUMNS.get(column, column)]
    return value


# --- the parts of a value -------------------------------------------------------------------------------------


def _by_name(rows: Iterable[Row]) -> dict[str, list[Row]]:
    return grouped(rows, lambda row: whole_name(row["topic"]))


def _whole_row(rows: Sequence[Row]) -> Row:
    state = min((row["state"] for row in rows), key=ALL_STATES.index)
    return {
        **combined(rows, _OF_ROW),
        "topic": whole_name(rows[0]["topic"]),
        "state": state,
        "sinceMs": whole_value(min, [row for row in rows if row["state"] == state], "sinceMs"),
        "deadLetterTopic": next((whole_name(name) for row in rows if (name := row.get("deadLetterTopic"))), None),
    }


def _whole_finding(topic: str, findings: Sequence[Row]) -> Row:
    more_count = len(findings) - 1
    more = f" The same in {more_count} more {'parts' if more_count > 1 else 'part'}." if more_count else ""
    return {
        **findings[0],
        "topic": topic,
        "text": findings[0]["text"] + more,
        "sinceMs": whole_value(min, findings, "sinceMs"),
    }


def _line(lines: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Add lines that end at the same time."""
    points = zip_longest(*[reversed(line) for line in lines])
    added = [sum(known) if (known := [value for value in of_all if value is not None]) else None for of_all in points]
    return added[::-1]


_OF_ROW: Final[Mapping[str, Combine]] = {
    **dict.fromkeys(("ready", "leased", "delayed", "dead"), sum),
    **dict.fromkeys(("publishedPerSecond", "acknowledgedPerSecond", "returnedPerSecond"), sum),
    "oldestAtMs": min,
    "consumers": max,
    "groups": max,
    "damaged": any,
    "isDeadLetters": any,
    "readyHistory": _line,
}
_OF_GROUP: Final[Mapping[str, Combine]] = {
    **dict.fromkeys(("ready", "leased", "delayed", "lag", "acknowledged", "missed"), sum),
    "acknowledgedPerSecond": sum,
    "consumers": max,
    "waiting": max,
    "oldestAtMs": min,
    "unreadSeconds": min,
    "position": joined,
    "lags": united,
    "members": whole_members,
    "moving": united,
}
