"""Where a read begins and ends, as its options say it: offsets, or times, and what cannot be both, or in this order.

Knows no broker: whether there are such offsets, only `check_offsets` can tell.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from miniqueue.spark.offsets import Offsets, parse_offsets, parse_time

#: `path`, which is what `load` and `save` are given, is another name for `topic`.
_NAMES_OF_TOPIC: Final = ("topic", "path")
_PAIRS: Final = (("startingOffsets", "startingTime"), ("endingOffsets", "endingTime"))


def parse_start(text: str) -> str | Offsets:
    """Return `earliest`, `latest` or "" as it stands, or offsets; raises ConfigError."""
    return text if text in ("", "earliest", "latest") else parse_offsets(text)


def parse_end(text: str) -> str | Offsets:
    """Return `latest` or "" as it stands, or offsets; raises ConfigError, and ValueError for `earliest`."""
    if text == "earliest":
        raise ValueError("there is nothing in front of the earliest message")
    return parse_start(text)


def parse_moment(text: str) -> datetime | None:
    """Return a time, None for ""; raises ConfigError."""
    return parse_time(text) if text else None


def instead_of(name: str) -> str | None:
    """Return the option that says the same as this one, in lower case as this one."""
    pairs = {one.lower(): other.lower() for one, other in (*_PAIRS, _NAMES_OF_TOPIC)}
    return pairs.get(name) or {other: one for one, other in pairs.items()}.get(name)


def named_twice(given: Mapping[str, str]) -> list[str]:
    """Return what is wrong where a place is given in both ways; what is empty is not given."""
    twice = [pair for pair in _PAIRS if all(given.get(name) for name in pair)]
    return [f"{one} and {other} are both given; one of them says where" for one, other in twice]


def ends_before_starts(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an end that was given in front of a start, by the values of options.

    Only what was given in the same way: where a time is meant to end what begins with an offset, there may be nothing.
    """
    since, until = values.get("startingTime"), values.get("endingTime")
    if since is not None and until is not None and until < since:
        return [f"endingTime, {until}, is in front of startingTime, {since}"]
    start, end = values.get("startingOffsets"), values.get("endingOffsets")
    if not isinstance(start, dict) or not isinstance(end, dict):
        return []
    return [
        f"{topic}, partition {word}: endingOffsets, {last}, is in front of startingOffsets, {start[topic][word]}"
        for topic, of in end.items()
        for word, last in of.items()
        if last < start.get(topic, {}).get(word, 0)
    ]
