"""What is shown of a spread topic, made of what is shown of its parts; pure functions.

    orders␟0 {ready 2, oldest_seconds 7}   orders␟3 {ready 5, oldest_seconds 9}  ─▶  orders {ready 7, oldest_seconds 9}

Counts and rates are added. Of times, the longest is that of the whole, so latencies are at most as long as shown. A
consumer can read all parts, so the part with most consumers says how many there are.

A row contains values by name, as a protocol shows them; what is None in a part is not known there.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from miniqueue.core.message.parts import MAX_PARTS, whole_of

Row: TypeAlias = dict[Any, Any]
#: Makes one value of those of all parts, none of which is None.
Combine = Callable[[Sequence[Any]], Any]
GroupedT = TypeVar("GroupedT")

_LARGEST: Final = frozenset({"consumers", "waiting", "paused", "paused_in", "paused_out", "ephemeral", "lag_max"})
#: Between the ids of the tasks of all parts, in the id of the whole.
TASK_JOIN: Final = "-"
#: The status of the whole is the first of them that a part has.
_TASK_STATUSES: Final = ("running", "failed", "cancelled", "done")


def whole_name(name: str) -> str:
    """Return the name of the topic, for that of a part of it."""
    return whole_of(name.encode()).decode()


def whole_figures(rows: Sequence[Row]) -> Row:
    """Return statistics that are numbers, or None, by name."""
    return {name: whole_value(_combine_of(name), rows, name) for name in rows[0]}


def whole_group(rows: Sequence[Row]) -> Row:
    """Return a group, from each part that has it."""
    return {name: whole_value(_OF_GROUP.get(name) or _combine_of(name), rows, name) for name in rows[0]}


def whole_groups(rows: Iterable[Row]) -> list[Row]:
    """Return each group once, by name."""
    by_name = grouped(rows, lambda row: row["name"])
    return [whole_group(by_name[name]) for name in sorted(by_name)]


def whole_holders(rows: Iterable[Row], remaining: str) -> list[Row]:
    """Return who holds leases, each once, the one with most messages first; `remaining` names the time that is left."""
    by_holder = grouped(rows, lambda row: (row["user"], row["address"]))
    holders = [combined(of_holder, {"leased": sum, remaining: min}) for of_holder in by_holder.values()]
    return sorted(holders, key=lambda row: (-row["leased"], row["user"] or "", row["address"] or ""))


def ids_of_tasks(task_id: bytes) -> Sequence[bytes]:
    """Return the ids of the tasks of all parts, for that of the whole; of another task, only its own."""
    ids = task_id.split(TASK_JOIN.encode(), MAX_PARTS)
    return ids if all(map(bytes.isdigit, ids)) else [task_id]


def whole_task(rows: Sequence[Row], ended_at: str) -> Row:
    """Return the tasks of all parts as one, which runs until all have ended; `ended_at` names the time of the end."""
    whole = dict(rows[0])
    whole["id"] = TASK_JOIN.join(row["id"] for row in rows)
    whole["status"] = min((row["status"] for row in rows), key=_TASK_STATUSES.index)
    for name in {"count", "scanned", "limit", "rate"} & whole.keys():
        whole[name] = _unless_unknown(_added, [row.get(name) for row in rows])
    whole[ended_at] = _unless_unknown(max, [row.get(ended_at) for row in rows])
    whole["error"] = next((error for row in rows if (error := row.get("error")) is not None), None)
    return {name: value for name, value in whole.items() if name in rows[0] or value is not None}


# --- how values become one ------------------------------------------------------------------------------------


def grouped(rows: Iterable[GroupedT], key: Callable[[GroupedT], Hashable]) -> dict[Any, list[GroupedT]]:
    """Return rows by what they have in common, in the order of the first of each."""
    groups: dict[Any, list[GroupedT]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def combined(rows: Sequence[Row], kinds: Mapping[str, Combine]) -> Row:
    """Return the first row, with some values made of those of all rows."""
    return {**rows[0], **{name: whole_value(combine, rows, name) for name, combine in kinds.items() if name in rows[0]}}


def whole_value(combine: Combine, rows: Sequence[Mapping[str, Any]], name: str) -> Any:  # noqa: ANN401 - of any kind
    """Return one value of those of all rows that know it; None if none does."""
    known = [value for row in rows if (value := row.get(name)) is not None]
    if not known:
        return None
    return _added(known) if combine is sum else combine(known)


def joined(lists: Iterable[Sequence[Any]]) -> list[Any]:
    """Return one list of the elements of all."""
    return [each for values in lists for each in values]


def united(maps: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    """Return one map of the members of all, which have different names."""
    return {name: value for each in maps for name, value in each.items()}


def whole_members(maps: Iterable[Mapping[Any, Iterable[Any]]]) -> dict[Any, list[Any]]:
    """Return the partitions of each member, by name, from its partitions in each part."""
    partitions: dict[Any, list[Any]] = {}
    for name, of_part in (member for each in maps for member in each.items()):
        partitions.setdefault(name, []).extend(of_part)
    return partitions


def _combine_of(name: str) -> Combine:
    if name == "unread_seconds":  # a client that reads one part has read the topic
        return min
    return max if name in _LARGEST or name.endswith("_seconds") else sum


def _unless_unknown(combine: Combine, values: Sequence[Any]) -> Any:  # noqa: ANN401 - a number
    return None if None in values else combine(values)


def _added(values: Iterable[Any]) -> Any:  # noqa: ANN401 - a number
    total = sum(values)
    return round(total, 3) if isinstance(total, float) else total


_OF_GROUP: Final[Mapping[str, Combine]] = {
    "name": lambda names: names[0],
    "members": whole_members,
    "position": joined,
    "held_back": joined,
    "lags": united,
    "moving": united,
}
