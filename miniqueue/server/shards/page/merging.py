"""What shards have of a read model, made one: pure functions of what they answer, by number.

A part is None if its shard does not answer. Sums are without it, and it is among what needs attention.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from miniqueue.core.settings.quotas import Quotas
from miniqueue.server.dashboard.models.overview import SHOWN_FINDINGS, SHOWN_TOPICS
from miniqueue.server.dashboard.models.topics import Criteria, Looked, matcher_of
from miniqueue.server.dashboard.models.visible import FINE, IDLE
from miniqueue.server.shards.http.merging import merged_usage
from miniqueue.server.shards.page.wholes import (
    key_of,
    whole_findings,
    whole_holders,
    whole_letters,
    whole_names,
    whole_rows,
)
from miniqueue.server.views.wholes import whole_name

#: A read model, as JSON.
Content: TypeAlias = dict[str, Any]
Part: TypeAlias = Content | None
Merge = Callable[[Sequence[Part]], Content]

#: Members that say what a shard has of spread topics.
_OF_PARTS: Final = frozenset({"parts", "partNames", "partAttention"})
_LEVELS: Final = ("critical", "warning", "note")
_STATUSES: Final = ("ok", "degraded", "not ready")


def looked(criteria: Criteria, names: Collection[str], parts: Sequence[Part]) -> Looked:
    """Return the topics of all shards, which the page sorts; the spread ones that match, or have these names."""
    known = [*_known(parts)]
    spread = whole_rows(_joined(known, "parts"))
    named = [row for row in spread if criteria.matches is None or criteria.matches(row["topic"].encode())]
    matching = [row for row in named if criteria.state in ("", row["state"])]
    states = _added([part["states"] for part in known])
    for row in named:
        states[row["state"]] += 1
    order = [(key, name) for part in known for key, name in part["order"]]
    return {
        "total": _sum(known, "total") + len(spread),
        "matching": _sum(known, "matching") + len(matching),
        "states": states,
        "order": order + [(key_of(row, criteria.column), row["topic"]) for row in matching],
        "topics": _joined(known, "topics") + [row for row in spread if row["topic"] in names],
        "parts": [],
    }


def dead(text: str, parts: Sequence[Part]) -> Content:
    """Return the topics with dead letters, those that grow first; of spread topics, those that match a text."""
    known, matches = [*_known(parts)], matcher_of(text)
    spread = whole_letters(row for part in known for row in part.get("parts", ()))
    matching = [row for row in spread if matches is None or matches(row["topic"].encode())]
    rows = [*_joined(known, "topics"), *matching]
    return {
        "total": _sum(known, "total") + len(spread),
        "matching": _sum(known, "matching") + len(matching),
        "topics": sorted(rows, key=lambda row: (-row["grown"], -row["dead"], row["topic"])),
    }


def connections(parts: Sequence[Part]) -> Content:
    """Return the connections of all processes; and who holds leases of a topic, if there is one."""
    known = [*_known(parts)]
    merged = {"total": _sum(known, "total"), "connections": _joined(known, "connections")}
    if any("holders" in part for part in known):
        holders = whole_holders(_joined(known, "holders"))
        merged["holders"] = sorted(holders, key=lambda row: (-row["leased"], row["group"]))
    return merged


def totals(parts: Sequence[Part]) -> Content:
    """Return the counts of the sidebar."""
    known, away_count = [*_known(parts)], sum(part is None for part in parts)
    schedules, (names, findings) = [part["schedules"] for part in known], _of_spread_topics(known)
    return {
        **_without_parts(known[0]),
        **{name: _sum(known, name) for name in ("ready", "dead", "consumers")},
        "topics": _sum(known, "topics") + len(names),
        "deadGrows": any(part["deadGrows"] for part in known),
        "schedules": None if None in schedules else sum(schedules),
        "attention": _sum(known, "attention") + away_count + sum(each["level"] != _LEVELS[-1] for each in findings),
        "critical": _sum(known, "critical") + away_count + sum(each["level"] == _LEVELS[0] for each in findings),
        "refused": _first(known, "refused"),
    }


def overview(parts: Sequence[Part]) -> Content:
    """Return the overview: the worst findings and the sums of all shards."""
    known = [*_known(parts)]
    names, of_spread = _of_spread_topics(known)
    findings = [*_away(parts), *_joined(known, "attention"), *of_spread]
    findings.sort(key=lambda finding: _LEVELS.index(finding["level"]))
    more_count = _sum(known, "attentionMore") + len(findings[SHOWN_FINDINGS:])
    spread = whole_rows(row for part in known for row in part.get("parts", ()))
    spread = [row for row in spread if row["ready"] or row["state"] not in (FINE, IDLE)]
    rows = sorted([*_joined(known, "topics"), *spread], key=itemgetter("ready"), reverse=True)
    named = {finding["topic"]: number for number, finding in reversed([*enumerate(findings)])}
    rows.sort(key=lambda row: named.get(row["topic"], len(findings)))
    facts, totals = [part["broker"] for part in known], _added([part["totals"] for part in known])
    oldest = min(filter(None, (part["oldest"] for part in known)), key=itemgetter("atMs"), default=None)
    return {
        **_without_parts(known[0]),
        "attention": findings[:SHOWN_FINDINGS],
        "attentionMore": more_count,
        "totals": totals | {"topics": totals["topics"] + len(names)},
        "oldest": oldest and {**oldest, "topic": whole_name(oldest["topic"])},
        "broker": None if None in facts else _facts(facts),
        "topics": rows[:SHOWN_TOPICS],
    }


def broker(quotas_of: Callable[[str], Quotas], parts: Sequence[Part]) -> Content:
    """Return what is shown of the broker: sums, and a row for each shard; `quotas_of` returns those of a user."""
    known = [*_known(parts)]
    own = known[0]
    return {
        **own,
        **_facts(known),
        "ready": _readiness(parts),
        "storeBytes": _sum(known, "storeBytes"),
        "limits": [_limit(rows) for rows in zip(*[part["limits"] for part in known], strict=True)],
        "usage": merged_usage([part["usage"] for part in known], quotas_of),
        "followers": _joined(known, "followers"),
        "tasks": sorted(_joined(known, "tasks"), key=lambda task: int(task["id"])),
        "shards": [_shard(number, part) for number, part in enumerate(parts)],
    }


def history(parts: Sequence[Part]) -> Content:
    """Return the sums of the lines, point by point; a point that is unknown in all shards is unknown."""
    known = [part for part in _known(parts) if part["firstMs"] is not None]
    if not known:
        return next(_known(parts))
    step_ms, first_ms = 1000 * known[0]["stepSeconds"], min(part["firstMs"] for part in known)
    offsets = [round((part["firstMs"] - first_ms) / step_ms) for part in known]
    return {
        **known[0],
        "firstMs": first_ms,
        "series": {
            name: _line([(offset, part["series"][name]) for offset, part in zip(offsets, known, strict=True)])
            for name in known[0]["series"]
        },
    }


def _line(lines: Sequence[tuple[int, Sequence[float | None]]]) -> list[float | None]:
    merged: list[float | None] = [None] * max(offset + len(values) for offset, values in lines)
    for offset, values in lines:
        for index, value in enumerate(values, offset):
            if value is not None:
                merged[index] = round((merged[index] or 0) + value, 3)
    return merged


def _of_spread_topics(parts: Iterable[Content]) -> tuple[list[str], list[Content]]:
    """Return the names of the spread topics, and what needs attention there."""
    known = [*parts]
    names = whole_names(name for part in known for name in part.get("partNames", ()))
    return names, whole_findings(finding for part in known for finding in part.get("partAttention", ()))


def _without_parts(part: Content) -> Content:
    return {name: value for name, value in part.items() if name not in _OF_PARTS}


def _known(parts: Sequence[Part]) -> Iterator[Content]:
    return (part for part in parts if part is not None)


def _sum(parts: Iterable[Content], name: str) -> int:
    return sum(part[name] for part in parts)


def _joined(parts: Iterable[Content], name: str) -> list[Any]:
    return [row for part in parts for row in part[name]]


def _first(parts: Iterable[Content], name: str) -> object:
    return next((part[name] for part in parts if part[name] is not None), None)


def _added(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add numbers by name; one that a row does not know is unknown."""
    values = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: None if None in of_name else _rounded(sum(of_name)) for name, of_name in values.items()}


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, 3)


def _away(parts: Sequence[Part]) -> list[Content]:
    """Return a finding for each shard that does not answer."""
    text = "shard {} does not answer; its topics are unavailable"
    return [
        {
            "level": _LEVELS[0],
            "kind": "away",
            "topic": None,
            "group": None,
            "text": text.format(number),
            "side": None,
            "sinceMs": None,
        }
        for number, part in enumerate(parts)
        if part is None
    ]


def _facts(rows: Sequence[Content]) -> Content:
    """Return what is shown of the broker as a whole, from what each shard shows of itself."""
    memory = [row["memory"] for row in rows]
    purposes = {purpose for each in memory for purpose in each["purposes"]}
    lags = [row["loopLagSeconds"] for row in rows if row["loopLagSeconds"]]
    free = [row["diskFreeBytes"] for row in rows if row["diskFreeBytes"] is not None]
    return {
        **{name: rows[0][name] for name in ("version", "startedAtMs", "minFreeBytes")},
        "diskFreeBytes": min(free, default=None),
        "memory": {
            **{name: _sum(memory, name) for name in ("limitBytes", "usedBytes", "rssBytes")},
            "purposes": {
                purpose: sum(each["purposes"].get(purpose, 0) for each in memory) for purpose in sorted(purposes)
            },
        },
        "loopLagSeconds": {name: max(lag[name] for lag in lags) for name in lags[0]} if lags else None,
    }


def _readiness(parts: Sequence[Part]) -> Content:
    rows = [part["ready"] for part in _known(parts)]
    statuses = [row["status"] for row in rows] + ["degraded"] * (len(rows) < len(parts))
    return {
        "status": max(statuses, key=_STATUSES.index),
        "refused": sorted({each for row in rows for each in row["refused"]}),
        "reasons": [reason for number, part in enumerate(parts) for reason in _reasons_of(number, part)],
    }


def _reasons_of(shard: int, part: Part) -> list[str]:
    if part is None:
        return [f"shard {shard} does not answer"]
    return [f"shard {shard}: {reason}" for reason in part["ready"]["reasons"]]


def _limit(rows: Sequence[Content]) -> Content:
    """Add a limit of which each shard has a part."""
    limits = [row["limit"] for row in rows]
    return {**rows[0], "used": _sum(rows, "used"), "limit": None if None in limits else sum(limits)}


def _shard(number: int, part: Part) -> Content:
    if part is None:
        return {"shard": number, "status": "away"}
    return {
        "shard": number,
        "status": part["ready"]["status"],
        **part["process"],
        "rssBytes": part["memory"]["rssBytes"],
        "storeBytes": part["storeBytes"],
        "lagSeconds": (part["loopLagSeconds"] or {}).get("p99"),
    }
