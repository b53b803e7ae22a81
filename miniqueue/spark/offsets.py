"""Offsets of partitions, as Spark's checkpoint contains them, and the ranges between them; no broker, no Spark.

    {"orders": {"0": 17, "0.high": 3}}        for each topic, the next message to read of each partition

A partition that is missing did not exist yet: reading it starts at its earliest message.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from miniqueue.errors import ConfigError
from miniqueue_client import Bounds

#: Offsets by topic and partition.
Offsets: TypeAlias = dict[str, dict[str, int]]
#: A time in 1973. A smaller number is more likely a year, a day or seconds than ms since 1970.
_LEAST_MS: Final = 10**11


class Range(NamedTuple):
    """Messages of one partition: from offset `start` up to, not including, `end`."""

    topic: str
    partition: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets; 0 or less if the range is empty."""
        return self.end - self.start


def parse_offsets(text: str) -> Offsets:
    """Parse offsets as JSON; raises ConfigError."""
    try:
        topics = json.loads(text)
        return {topic: {word: _offset(offset) for word, offset in of.items()} for topic, of in topics.items()}
    except (ValueError, AttributeError, RecursionError) as exc:
        raise ConfigError(
            [f'invalid offsets: {text!r}; must be earliest, latest, or as in {{"orders":{{"0":17}}}}']
        ) from exc


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError([f"invalid offset: {json.dumps(value)}; must be an integer of 0 or more"])
    return value


def check_offsets(offsets: Offsets, bounds: Mapping[str, list[Bounds]]) -> None:
    """Raise ConfigError for a partition that does not exist, and for an offset after the end.

    The log of a priority without messages ends at 0, and so do all partitions of a topic that does not exist yet.
    """
    problems = []
    for topic, of in offsets.items():
        ends = {partition.partition: partition.end for partition in bounds[topic]}
        for word, offset in of.items():
            if ends and word.partition(".")[0] not in ends:
                problems.append(f"{topic} has no partition {word}; there are {', '.join(ends)}")
            elif offset > (end := ends.get(word, 0)):
                problems.append(f"{offset} is after the end of {topic}, partition {word}, which is {end}")
    if problems:
        raise ConfigError(problems)


def parse_time(text: str) -> datetime:
    """Parse a time: ISO 8601, possibly without a time zone, or ms since 1970, returned in UTC; raises ConfigError."""
    try:
        return datetime.fromtimestamp(_ms(text) / 1000, UTC) if text.isdigit() else datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError) as exc:
        raise ConfigError([f"invalid time: {text!r}; must be ISO 8601 or ms since 1970"]) from exc


def _ms(text: str) -> int:
    """Parse ms since 1970; raises ConfigError for a number such as 2026 or 20260101, which is probably a date."""
    if (ms := int(text)) < _LEAST_MS:
        raise ConfigError([f"invalid time: {text!r} is {ms} ms after the start of 1970; write a day as 2026-01-31"])
    return ms


def ends_of(bounds: Mapping[str, list[Bounds]]) -> Offsets:
    """Return the end of each partition."""
    return {topic: {part.partition: part.end for part in of} for topic, of in sorted(bounds.items())}


def starts_of(bounds: Mapping[str, list[Bounds]]) -> Offsets:
    """Return the earliest offset of each partition."""
    return {topic: {part.partition: part.earliest for part in of} for topic, of in sorted(bounds.items())}


def ranges_between(start: Offsets, end: Offsets, *, restarts: bool = False) -> list[Range]:
    """Return the ranges between the offsets, without empty ones.

    With `restarts`, an end before the start means that the topic was deleted and created again; it is then read from
    its beginning.
    """
    ranges = []
    for topic, of in end.items():
        for partition, stop in of.items():
            first = _begun(start, topic, partition, stop) if restarts else start.get(topic, {}).get(partition, 0)
            ranges.append(Range(topic, partition, first, stop))
    return [wanted for wanted in ranges if wanted.size > 0]


def _begun(start: Offsets, topic: str, partition: str, stop: int) -> int:
    """Return the start of a partition that ends at `stop`; 0 if the end is before the start."""
    first = start.get(topic, {}).get(partition, 0)
    return 0 if stop < first else first


def begun(start: Offsets, end: Offsets) -> Offsets:
    """Return the offsets at which a read up to `end` starts, as in `ranges_between` with `restarts`."""
    return {topic: {word: _begun(start, topic, word, stop) for word, stop in of.items()} for topic, of in end.items()}


def limited(start: Offsets, end: Offsets, max_count: int) -> Offsets:
    """Return an earlier end, so that a read has at most `max_count` messages: the same share of each partition.

    An end before the start means that the topic was created again, as in `ranges_between` with `restarts`.
    """
    start = begun(start, end)
    ranges = ranges_between(start, end)
    total = sum(wanted.size for wanted in ranges)
    if total <= max_count:
        return end
    until = {topic: dict(of) for topic, of in start.items()}
    remaining = max_count
    for wanted in sorted(ranges, key=lambda wanted: wanted.size):
        part = min(remaining, -(-wanted.size * max_count // total))  # rounded up, so that small partitions advance too
        until[wanted.topic][wanted.partition] = wanted.start + part
        remaining -= part
    return until


def divided(ranges: list[Range], min_count: int) -> list[Range]:
    """Divide the ranges, larger ones into more pieces, so that there are about `min_count` pieces or more."""
    total = sum(wanted.size for wanted in ranges)
    pieces: list[Range] = []
    for wanted in ranges:
        count = max(1, min(wanted.size, round(min_count * wanted.size / total)))
        edges = [wanted.start + wanted.size * n // count for n in range(count + 1)]
        pieces += [wanted._replace(start=low, end=high) for low, high in pairwise(edges)]
    return pieces
