"""Spread topics on the page: what shards show of each part, made what a person sees of the topic; pure functions.

    orders␟0 {ready 2, state fine}   orders␟3 {ready 5, state behind}   ─▶   orders {ready 7, state behind}

Counts are added, the oldest message is that of all parts, and the state is the worst.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from miniqueue.core.message.parts import whole_of
from miniqueue.server.dashboard.models.visible import ALL_STATES

Row = dict[str, Any]
#: Makes one value of those of all parts, none of which is None.
Combine = Callable[[Sequence[Any]], Any]

#: The members of a row that have other names than the columns.
_COLUMNS: Final = {name: f"{name}PerSecond" for name in ("published", "acknowledged", "returned")}


def whole_name(name: str) -> str:
    """Return the name of the topic, for that of a part of it."""
    return whole_of(name.encode()).decode()


def whole_names(names: Iterable[str]) -> list[str]:
    """Return the names of the topics, each once."""
    return [*dict.fromkeys(map(whole_name, names))]


def whole_rows(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each topic, from rows of the list of topics for each part."""
    return [_whole_row(of_topic) for of_topic in _by_name(rows).values()]


def whole_findings(findings: Iterable[Row]) -> list[Row]:
    """Return each finding about a topic once; its text is that of one part, and says how many more there are."""
    merged: dict[tuple[str, str, str | None], list[Row]] = {}
    for finding in findings:
        key = finding["kind"], whole_name(finding["topic"]), finding["group"]
        merged.setdefault(key, []).append(finding)
    return [_whole_finding(topic, of_parts) for (_, topic, _), of_parts in merged.items()]


def whole_letters(rows: Iterable[Row]) -> list[Row]:
    """Return a row for each topic, from rows of the list of topics with dead letters."""
    kinds: dict[str, Combine] = {"dead": sum, "grown": sum, "oldestAtMs": min}
    return [
        _combined(of_topic, kinds) | {name: whole_name(of_topic[0][name]) for name in ("topic", "deadLetterTopic")}
        for of_topic in _by_name(rows).values()
    ]


def whole_holders(rows: Iterable[Row]) -> list[Row]:
    """Return who holds leases of a topic, each once for each group."""
    held: dict[tuple[str, str | None, str | None], list[Row]] = {}
    for row in rows:
        held.setdefault((row["group"], row["user"], row["address"]), []).append(row)
    return [_combined(of_holder, {"leased": sum, "firstEndsAtMs": min}) for of_holder in held.values()]


def whole_reasons(parts: Sequence[Row]) -> Row:
    """Return the reasons of the dead letters of a topic, the most frequent first."""
    reasons: dict[str, list[Row]] = {}
    for each in (reason for part in parts for reason in part["reasons"]):
        reasons.setdefault(each["reason"], []).append(each)
    merged = [_combined(rows, {"count": sum, "firstMs": min, "lastMs": max}) for rows in reasons.values()]
    return {
        **_combined(parts, {"examined": sum, "total": sum, "isPart": any}),
        **{name: whole_name(parts[0][name]) for name in ("topic", "deadLetterTopic")},
        "reasons": sorted(merged, key=lambda reason: -reason["count"]),
    }


def whole_topic(parts: Sequence[Row]) -> Row:
    """Return the view of a topic, from the views of its parts; its settings are those of the first."""
    groups: dict[str, list[Row]] = {}
    for group in (group for part in parts for group in part["groups"]):
        groups.setdefault(group["group"], []).append(group)
    merged = [_combined(of_group, _OF_GROUP) for of_group in groups.values()]
    slowest = max(merged, key=lambda group: group["lag"], default=None)
    origin = parts[0]["deadLettersOf"]
    return {
        **_whole_row([part | {"groups": len(part["groups"])} for part in parts]),
        "slowestGroup": slowest["group"] if slowest is not None and len(merged) > 1 and slowest["lag"] else None,
        "groups": merged,
        "groupsMore": max(part["groupsMore"] for part in parts),
        "partitions": [partition for part in parts for partition in part["partitions"]],
        **{name: _of(min, parts, name) for name in ("nextDueAtMs",)},
        "deliveryP99Seconds": _of(max, parts, "deliveryP99Seconds"),
        "totals": _combined([part["totals"] for part in parts], dict.fromkeys(parts[0]["totals"], sum)),
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
    named: dict[str, list[Row]] = {}
    for row in rows:
        named.setdefault(whole_name(row["topic"]), []).append(row)
    return named


def _whole_row(rows: Sequence[Row]) -> Row:
    state = min((row["state"] for row in rows), key=ALL_STATES.index)
    return {
        **_combined(rows, _OF_ROW),
        "topic": whole_name(rows[0]["topic"]),
        "state": state,
        "sinceMs": _of(min, [row for row in rows if row["state"] == state], "sinceMs"),
        "deadLetterTopic": next((whole_name(name) for row in rows if (name := row.get("deadLetterTopic"))), None),
    }


def _whole_finding(topic: str, findings: Sequence[Row]) -> Row:
    more_count = len(findings) - 1
    more = f" The same in {more_count} more {'parts' if more_count > 1 else 'part'}." if more_count else ""
    return {
        **findings[0],
        "topic": topic,
        "text": findings[0]["text"] + more,
        "sinceMs": _of(min, findings, "sinceMs"),
    }


def _combined(rows: Sequence[Row], kinds: Mapping[str, Combine]) -> Row:
    """Return the first row, with some values made of those of all rows."""
    return {**rows[0], **{name: _of(combine, rows, name) for name, combine in kinds.items() if name in rows[0]}}


def _of(combine: Combine, rows: Sequence[Row], name: str) -> Any:  # noqa: ANN401 - a value of JSON
    """Return one value of those of all rows that know it; None if none does."""
    known = [value for row in rows if (value := row.get(name)) is not None]
    value = combine(known) if known else None
    return round(value, 3) if isinstance(value, float) else value


def _line(lines: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Add lines that end at the same time."""
    points = zip_longest(*[reversed(line) for line in lines])
    added = [sum(known) if (known := [value for value in of_all if value is not None]) else None for of_all in points]
    return added[::-1]


def _joined(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [each for values in lists for each in values]


def _united(maps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for each in maps for name, value in each.items()}


def _members(maps: Sequence[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for each in maps for name in each)
    return {name: [partition for each in maps for partition in each.get(name, ())] for name in names}


_OF_ROW: Final[Mapping[str, Combine]] = {
    **dict.fromkeys(("ready", "leased", "delayed", "dead", "consumers"), sum),
    **dict.fromkeys(("publishedPerSecond", "acknowledgedPerSecond", "returnedPerSecond"), sum),
    "oldestAtMs": min,
    "groups": max,
    "damaged": any,
    "isDeadLetters": any,
    "readyHistory": _line,
}
_OF_GROUP: Final[Mapping[str, Combine]] = {
    **dict.fromkeys(("ready", "leased", "delayed", "lag", "consumers", "waiting", "acknowledged", "missed"), sum),
    "acknowledgedPerSecond": sum,
    "oldestAtMs": min,
    "unreadSeconds": min,
    "position": _joined,
    "lags": _united,
    "members": _members,
    "moving": _united,
}
