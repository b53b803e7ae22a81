"""The statistics of a spread topic and its groups, made of those of its parts; pure functions.

    orders␟0 {ready 2, oldest_seconds 7}   orders␟3 {ready 5, oldest_seconds 9}  ─▶  orders {ready 7, oldest_seconds 9}

Counts and rates are added. Of times, the longest is that of the whole.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

Row = dict[str, Any]

#: Figures that are not added. A consumer can read all parts, so the part with most of them says how many there are.
_LARGEST: Final = frozenset(
    {"consumers", "waiting", "paused", "paused_in", "paused_out", "ephemeral", "idle_seconds"}
    | {"oldest_seconds", "retained_seconds", "latency_p50_seconds", "latency_p99_seconds"}
)
_LEAST: Final = frozenset({"unread_seconds"})
#: Figures of groups that are lists, and maps, of partitions.
_LISTS: Final = frozenset({"position", "held_back"})
_MAPS: Final = frozenset({"lags", "moving"})


def whole_topic(rows: Sequence[Row]) -> Row:
    """Return the statistics of a topic, without its name and settings."""
    return {name: _figure(name, rows) for name in rows[0] if name not in ("topic", "settings")}


def whole_group(rows: Sequence[Row]) -> Row:
    """Return a group, from what each part that has it shows."""
    group: Row = {}
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if name == "name":
            group[name] = first
        elif name == "members":
            group[name] = _members(values)
        elif name in _LISTS:
            group[name] = [each for value in values for each in value]
        elif name in _MAPS:
            group[name] = {key: each for value in values for key, each in value.items()}
        else:
            group[name] = _figure(name, rows)
    return group


def whole_groups(lists: Iterable[Sequence[Row]]) -> list[Row]:
    """Return each group once, by name."""
    by_name: dict[str, list[Row]] = {}
    for row in (row for rows in lists for row in rows):
        by_name.setdefault(row["name"], []).append(row)
    return [whole_group(by_name[name]) for name in sorted(by_name)]


def whole_holders(rows: Iterable[Row]) -> list[Row]:
    """Return who holds leases, each once, the one with most messages first."""
    held: dict[tuple[str | None, str | None], Row] = {}
    for row in rows:
        holder = held.setdefault((row["user"], row["address"]), row)
        if holder is not row:
            holder["leased"] += row["leased"]
            holder["remainingMs"] = min(holder["remainingMs"], row["remainingMs"])
    return sorted(held.values(), key=lambda row: (-row["leased"], row["user"] or "", row["address"] or ""))


def _figure(name: str, rows: Sequence[Row]) -> Any:  # noqa: ANN401 - a number, or whether something holds
    """Return a figure of the whole; None if no part has one."""
    values = [value for row in rows if (value := row.get(name)) is not None]
    if not values:
        return None
    number = max(values) if name in _LARGEST else min(values) if name in _LEAST else sum(values)
    return round(number, 3) if isinstance(number, float) else number


def _members(values: Iterable[Row]) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for name, numbers in (member for value in values for member in value.items()):
        partitions.setdefault(name, []).extend(numbers)
    return partitions
