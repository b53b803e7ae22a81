"""How the replies of all parts of a spread topic become one.

    LEN, PURGE                             :3  :4                                   ─▶ :7
    PARTITIONS                             [a]  [b, c]                              ─▶ [a, b, c]
    STATS, GROUP LIST, MEMBERS, HOLDERS    {ready 3, …}  {ready 4, …}               ─▶ {ready 7, …}
    GROUP CREATE, DELETE                   +OK  +OK                                 ─▶ +OK

A part that has no such group, or, of dead letters, does not exist yet, is left out, unless that is true of all parts.
An error of any other part is the reply: half of an answer would be a wrong one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import hiredis

from miniqueue.wire.resp_replies import Value, encode, joined_arrays

#: Makes one reply of those of the parts, none of which is an error; gets the version of the protocol.
Merge: TypeAlias = Callable[[Sequence[bytes], int], bytes]

#: Errors of a part that is left out, unless it is true of all: it has no such group, or, of dead letters, is not there.
ABSENT: Final = (b"-NOTOPIC", b"-NOGROUP")
#: Figures that are not sums. A consumer can read all parts, so that the part with most of them says how many there are.
_LARGEST: Final = frozenset(
    {b"consumers", b"waiting", b"paused", b"paused_in", b"paused_out", b"ephemeral", b"idle_seconds"}
    | {b"oldest_seconds", b"retained_seconds", b"latency_p50_seconds", b"latency_p99_seconds"}
)
_LEAST: Final = frozenset({b"unread_seconds"})
#: Figures of groups that are lists, and maps, of partitions or their members.
_LISTS: Final = frozenset({b"position", b"held_back"})
_MAPS: Final = frozenset({b"lags", b"moving"})


def merged(answers: Sequence[bytes], merge: Merge, protocol: int) -> bytes:
    """Return the replies of all parts as one, or the first error."""
    present = _present(answers)
    return merge(present, protocol) if (error := error_of(present)) is None else error


def error_of(answers: Sequence[bytes]) -> bytes | None:
    """Return the first error of a part that is not left out; None if there is none."""
    return next((answer for answer in _present(answers) if answer.startswith(b"-")), None)


def _present(answers: Sequence[bytes]) -> Sequence[bytes]:
    return [answer for answer in answers if not answer.startswith(ABSENT)] or answers[:1]


def parsed(answer: bytes) -> Any:  # noqa: ANN401 - whatever the reply is
    """Return the value of a reply."""
    reader = hiredis.Reader()
    reader.feed(answer)
    return reader.gets()


def map_of(value: Any) -> dict[bytes, Any]:  # noqa: ANN401 - a part of a reply
    """Return a map, which is a flat array in version 2 of the protocol."""
    return value if isinstance(value, dict) else dict(zip(value[::2], value[1::2], strict=True))


def summed(answers: Sequence[bytes], _protocol: int = 2) -> bytes:
    """Return the sum of whole numbers."""
    return b":%d\r\n" % sum(int(answer[1:]) for answer in answers)


def joined(answers: Sequence[bytes], _protocol: int = 2) -> bytes:
    """Return one array of the elements of all."""
    return joined_arrays(answers)


def last(answers: Sequence[bytes], _protocol: int = 2) -> bytes:
    """Return the last reply."""
    return answers[-1]


def figures(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the statistics of a topic, or other numbers by name."""
    return encode(_figures([map_of(parsed(answer)) for answer in answers]), protocol)


def group_figures(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the statistics of a group."""
    return encode(_group([map_of(parsed(answer)) for answer in answers]), protocol)


def groups(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the statistics of each group, by name."""
    by_name: dict[bytes, list[Mapping[bytes, Any]]] = {}
    for group in (map_of(each) for answer in answers for each in parsed(answer)):
        by_name.setdefault(group[b"name"], []).append(group)
    return encode([_group(by_name[name]) for name in sorted(by_name)], protocol)


def members(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return the partitions of each member."""
    return encode(_members(parsed(answer) for answer in answers), protocol)


def holders(answers: Sequence[bytes], protocol: int) -> bytes:
    """Return who holds leases, the one with most messages first."""
    by_holder: dict[tuple[Any, Any], dict[Any, Any]] = {}
    for each in (map_of(row) for answer in answers for row in parsed(answer)):
        held = by_holder.setdefault((each[b"user"], each[b"address"]), each)
        if held is not each:
            held[b"leased"] += each[b"leased"]
            held[b"remaining_ms"] = min(held[b"remaining_ms"], each[b"remaining_ms"])
    ordered = sorted(
        by_holder.values(), key=lambda held: (-held[b"leased"], held[b"user"] or b"", held[b"address"] or b"")
    )
    return encode(ordered, protocol)


def _figures(of_parts: Sequence[Mapping[bytes, Any]]) -> dict[Value, Value]:
    return {name: _figure(name, [part[name] for part in of_parts if name in part]) for name in of_parts[0]}


def _figure(name: bytes, values: Iterable[Any]) -> Value:
    """Return a figure of the whole; None if no part has one. In version 2 of the protocol, fractions are texts."""
    numbers = [float(value) if isinstance(value, bytes) else value for value in values if value is not None]
    if not numbers:
        return None
    number: Value = max(numbers) if name in _LARGEST else min(numbers) if name in _LEAST else sum(numbers)
    return round(number, 3) if isinstance(number, float) else number


def _group(of_parts: Sequence[Mapping[bytes, Any]]) -> dict[Value, Value]:
    group: dict[Value, Value] = {}
    for name in of_parts[0]:
        values = [part[name] for part in of_parts if name in part]
        if name == b"name":
            group[name] = values[0]
        elif name == b"members":
            group[name] = _members(values)
        elif name in _LISTS:
            group[name] = [each for value in values for each in value]
        elif name in _MAPS:
            group[name] = {key: each for value in values for key, each in map_of(value).items()}
        else:
            group[name] = _figure(name, values)
    return group


def _members(values: Iterable[Any]) -> dict[Value, Value]:
    partitions: dict[Value, list[Value]] = {}
    for name, numbers in (pair for value in values for pair in map_of(value).items()):
        partitions.setdefault(name, []).extend(numbers)
    return dict(partitions.items())
