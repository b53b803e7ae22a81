"""Where reading begins and ends: offsets of partitions, as Spark's checkpoint has them; no broker, no Spark.

    {"orders": {"0": 17, "0.high": 3}}        the next message to be read of each partition of each topic

A partition that is not there is one that did not exist yet: it begins at its earliest message.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from miniqueue.client import Bounds
from miniqueue.errors import ConfigError

#: By topic and partition.
Offsets: TypeAlias = dict[str, dict[str, int]]
#: In 1973: a smaller number is a year, a day or seconds, but no ms since 1970 that somebody means.
_LEAST_MS: Final = 10**11


class Range(NamedTuple):
    """Messages of one partition, from `start` to in front of `end`."""

    topic: str
    partition: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it has; not above 0 for none."""
        return self.end - self.start


def parse_offsets(text: str) -> Offsets:
    """Return the offsets that JSON says; raises ConfigError."""
    try:
        given = json.loads(text)
        return {topic: {word: _offset(offset) for word, offset in of.items()} for topic, of in given.items()}
    except (ValueError, AttributeError, RecursionError) as exc:
        raise ConfigError([f'offsets are earliest, latest, or as in {{"orders":{{"0":17}}}}, not {text!r}']) from exc


def _offset(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ConfigError([f"an offset is a whole number of 0 or more, not {json.dumps(given)}"])
    return given


def check_offsets(given: Offsets, bounds: Mapping[str, list[Bounds]]) -> None:
    """Raise ConfigError for a partition that is not there, and for a place behind the end.

    A partition without messages of a priority ends at 0 for these, and so does all of a topic that is yet to be made.
    """
    problems = []
    for topic, of in given.items():
        ends = {one.partition: one.end for one in bounds[topic]}
        for word, offset in of.items():
            if ends and word.partition(".")[0] not in ends:
                problems.append(f"{topic} has no partition {word}; there are {', '.join(ends)}")
            elif offset > (end := ends.get(word, 0)):
                problems.append(f"{offset} is behind the end of {topic}, partition {word}, which is {end}")
    if problems:
        raise ConfigError(problems)


def parse_time(text: str) -> datetime:
    """Return the time that is meant by ISO 8601, as it stands also without a zone, or by ms since 1970, in UTC."""
    try:
        return datetime.fromtimestamp(_ms(text) / 1000, UTC) if text.isdigit() else datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError) as exc:
        raise ConfigError([f"a time is ISO 8601 or ms since 1970, not {text!r}"]) from exc


def _ms(text: str) -> int:
    """Return a number that is meant as ms, and as nothing else: a year is one, too, and so is 20260101."""
    if (ms := int(text)) < _LEAST_MS:
        raise ConfigError([f"{text!r} would be {ms} ms after the beginning of 1970; a day is 2026-01-31"])
    return ms


def ends_of(bounds: Mapping[str, list[Bounds]]) -> Offsets:
    """Return where the partitions end."""
    return {topic: {one.partition: one.end for one in of} for topic, of in sorted(bounds.items())}


def starts_of(bounds: Mapping[str, list[Bounds]]) -> Offsets:
    """Return where the partitions begin."""
    return {topic: {one.partition: one.earliest for one in of} for topic, of in sorted(bounds.items())}


def ranges_between(start: Offsets, end: Offsets, *, restarts: bool = False) -> list[Range]:
    """Return what lies between, without what is empty.

    With `restarts` an end in front of the start means a topic that was made anew, and is read from its beginning.
    """
    found = []
    for topic, of in end.items():
        for partition, stop in of.items():
            first = _begun(start, topic, partition, stop) if restarts else start.get(topic, {}).get(partition, 0)
            found.append(Range(topic, partition, first, stop))
    return [one for one in found if one.size > 0]


def _begun(start: Offsets, topic: str, partition: str, stop: int) -> int:
    """Return where a partition begins that ends at `stop`; anew, where that is in front of the start."""
    first = start.get(topic, {}).get(partition, 0)
    return 0 if stop < first else first


def begun(start: Offsets, end: Offsets) -> Offsets:
    """Return where reading begins that ends at `end`, as for `ranges_between` with `restarts`."""
    return {topic: {word: _begun(start, topic, word, stop) for word, stop in of.items()} for topic, of in end.items()}


def limited(start: Offsets, end: Offsets, max_count: int) -> Offsets:
    """Return offsets between, with `max_count` messages at most, of each partition as large a part of what it has.

    An end in front of the start means a topic that was made anew, as for `ranges_between` with `restarts`.
    """
    start = begun(start, end)
    ranges = ranges_between(start, end)
    total = sum(one.size for one in ranges)
    if total <= max_count:
        return end
    until = {topic: dict(of) for topic, of in start.items()}
    left = max_count
    for one in sorted(ranges, key=lambda one: one.size):
        part = min(left, -(-one.size * max_count // total))  # rounded up: a small partition has its turn too
        until[one.topic][one.partition] = one.start + part
        left -= part
    return until


def divided(ranges: list[Range], min_count: int) -> list[Range]:
    """Return the ranges in pieces, larger ones in more, so that there are about `min_count` of them or more."""
    total = sum(one.size for one in ranges)
    pieces: list[Range] = []
    for one in ranges:
        count = max(1, min(one.size, round(min_count * one.size / total)))
        edges = [one.start + one.size * n // count for n in range(count + 1)]
        pieces += [one._replace(start=low, end=high) for low, high in pairwise(edges)]
    return pieces
