"""The rules of what needs attention: pure functions from what was observed to findings.

    level      kind           when
    critical   refused        publishes are refused
               damaged        a topic cannot be read
               behind         the backlog of a group grew in the last `BEHIND_SECONDS`, and its oldest message is
                              older than that; not in dead-letter topics
    warning    no-consumers   messages are ready, and no client has read with the group for `UNREAD_SECONDS`;
                              not in dead-letter topics
               dead           the number of dead letters grew in the last 15 minutes, the time of a line
               disk           the free space is below twice the mark at which publishes are refused
               limit          a limit is 90 % full
               missed         a group missed messages in the last 15 minutes
    note       paused         a topic or a group is paused

The key of a finding is the same in each survey, so that the caller knows how long the finding has been true.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

BEHIND_SECONDS: Final = 60
UNREAD_SECONDS: Final = 60
#: The part of a limit that is used when the limit needs attention.
LIMIT_PART: Final = 0.9
#: The disk needs attention below this multiple of the free space at which publishes are refused.
DISK_FACTOR: Final = 2


class Level(IntEnum):
    """How urgent a finding is; the lowest number first."""

    CRITICAL = 0
    WARNING = 1
    NOTE = 2


class Kind(StrEnum):
    """What was found, in the order in which findings of one level are listed."""

    REFUSED = "refused"
    DAMAGED = "damaged"
    BEHIND = "behind"
    NO_CONSUMERS = "no-consumers"
    DEAD = "dead"
    DISK = "disk"
    LIMIT = "limit"
    MISSED = "missed"
    PAUSED = "paused"

    @property
    def level(self) -> Level:
        """The level of findings of this kind."""
        return _LEVELS.get(self, Level.WARNING)


_LEVELS: Final = {
    Kind.REFUSED: Level.CRITICAL,
    Kind.DAMAGED: Level.CRITICAL,
    Kind.BEHIND: Level.CRITICAL,
    Kind.PAUSED: Level.NOTE,
}
_ORDER: Final = {kind: number for number, kind in enumerate(Kind)}


class Finding(NamedTuple):
    """Something that needs attention.

    Attributes:
      rank: its order among other findings: by level, kind, weight, topic, and group.
      kind: what was found; it determines the level.
      topic: the topic; empty if the finding concerns the broker.
      group: the group; empty if the finding concerns the whole topic.
      text: a sentence with the numbers that prove it.
      key: identifies the finding; each limit has its own.
      since_ms: when it became true, in ms since 1970; None if that is when the caller first found it.
    """

    rank: tuple[int, int, float, bytes, bytes]
    kind: Kind
    topic: bytes
    group: bytes
    text: str
    key: tuple[str, bytes, bytes]
    since_ms: int | None = None


def finding(
    kind: Kind,
    topic: bytes,
    group: bytes,
    text: str,
    weight: float = 0,
    *,
    about: str = "",
    since_ms: int | None = None,
) -> Finding:
    """Return a finding; of one kind, the highest `weight` is the worst; `about` becomes a part of its key."""
    rank = kind.level.value, _ORDER[kind], -weight, topic, group
    return Finding(rank, kind, topic, group, text, (kind.value + about, topic, group), since_ms)


class LimitUse(NamedTuple):
    """How much of a limit is used; if `limit` is None, there is no limit."""

    name: str
    used: int
    limit: int | None
    setting: str = ""
    is_bytes: bool = False


class GroupSeen(NamedTuple):
    """What was observed of a group.

    Attributes:
      growth: number of ready and leased messages, less the number `BEHIND_SECONDS` ago; None if unknown.
      oldest_at_ms: when its oldest message was published; None if unknown, or if it has none.
      unread_seconds: time since a client last read with it.
    """

    name: bytes
    ready: int
    growth: int | None = None
    oldest_at_ms: int | None = None
    consumers: int = 0
    unread_seconds: float = 0.0
    is_paused: bool = False


class TopicSeen(NamedTuple):
    """What was observed of a topic.

    Attributes:
      fault: why it cannot be read; empty if it can be read.
      dead: number of its dead letters.
      dead_growth: number of its dead letters, less the number 15 minutes ago.
      missed_growth: number of messages that groups have missed in 15 minutes.
      limits: its limits.
      has_letters: whether it is the dead-letter topic of other topics: it needs no consumers, and so cannot lag.
    """

    name: bytes
    fault: str = ""
    groups: Sequence[GroupSeen] = ()
    dead: int = 0
    dead_growth: int = 0
    missed_growth: int = 0
    limits: Sequence[LimitUse] = ()
    is_paused_in: bool = False
    is_paused_out: bool = False
    has_letters: bool = False


class BrokerSeen(NamedTuple):
    """What was observed of the broker.

    Attributes:
      refusal: why publishes are refused; empty if they are accepted.
      free_bytes: free space on the disk; None if there is no disk.
      min_free_bytes: the free space below which publishes are refused.
      limits: its limits.
    """

    refusal: str = ""
    free_bytes: int | None = None
    min_free_bytes: int = 0
    limits: Sequence[LimitUse] = ()


def of_broker(seen: BrokerSeen) -> Iterator[Finding]:
    """Yield what needs attention in the broker as a whole."""
    if seen.refusal:
        yield finding(Kind.REFUSED, b"", b"", f"Publishes are refused: {seen.refusal}.")
    free_bytes, mark_bytes = seen.free_bytes, seen.min_free_bytes
    if free_bytes is not None and free_bytes < DISK_FACTOR * mark_bytes:
        text = f"The disk has {shown_bytes(free_bytes)} free; publishes are refused below {shown_bytes(mark_bytes)}."
        yield finding(Kind.DISK, b"", b"", text, -free_bytes)
    for limit in seen.limits:
        yield from _of_limit(limit, b"")


def of_topic(seen: TopicSeen, now_ms: int) -> Iterator[Finding]:
    """Yield what needs attention in a topic."""
    name = seen.name
    if seen.fault:
        yield finding(Kind.DAMAGED, name, b"", f"The topic cannot be read: {seen.fault}.")
    for group in seen.groups:
        yield from _of_group(seen, group, now_ms)
    if seen.dead and seen.dead_growth > 0:
        text = f"Dead letters: {seen.dead_growth:,} more in 15 minutes, {seen.dead:,} in total."
        yield finding(Kind.DEAD, name, b"", text, seen.dead_growth)
    if seen.missed_growth > 0:
        text = f"{seen.missed_growth:,} messages were removed in 15 minutes before a group had read them."
        yield finding(Kind.MISSED, name, b"", text, seen.missed_growth)
    for limit in seen.limits:
        yield from _of_limit(limit, name)
    if seen.is_paused_in or seen.is_paused_out:
        yield finding(Kind.PAUSED, name, b"", _paused(is_in=seen.is_paused_in, is_out=seen.is_paused_out))


def _of_group(topic: TopicSeen, group: GroupSeen, now_ms: int) -> Iterator[Finding]:
    age_ms = 0 if group.oldest_at_ms is None else now_ms - group.oldest_at_ms
    growth = 0 if group.growth is None or topic.has_letters else group.growth
    is_stopped = topic.is_paused_out or group.is_paused
    if growth > 0 and not is_stopped and age_ms > 1000 * BEHIND_SECONDS:
        text = (
            f"The backlog grew by {growth:,} in {BEHIND_SECONDS} s; {group.ready:,} are ready, and the oldest was "
            f"published {shown_seconds(age_ms / 1000)} ago."
        )
        yield finding(Kind.BEHIND, topic.name, group.name, text, growth)
    is_unread = not group.consumers and group.unread_seconds >= UNREAD_SECONDS
    if group.ready > 0 and is_unread and not is_stopped and not topic.has_letters:
        text = f"{group.ready:,} ready, and no consumer for {shown_seconds(group.unread_seconds)}."
        since_ms = now_ms - round(group.unread_seconds * 1000)
        yield finding(Kind.NO_CONSUMERS, topic.name, group.name, text, group.ready, since_ms=since_ms)
    if group.is_paused:
        yield finding(Kind.PAUSED, topic.name, group.name, "Deliveries to the group are paused.")


def _of_limit(limit: LimitUse, topic: bytes) -> Iterator[Finding]:
    if not limit.limit or limit.used < LIMIT_PART * limit.limit:
        return
    part = limit.used / limit.limit
    used, most = (shown_bytes(n) if limit.is_bytes else f"{n:,}" for n in (limit.used, limit.limit))
    setting = f" ({limit.setting})" if limit.setting else ""
    text = f"{limit.name}: {part:.0%} of the limit, {used} of {most}{setting}."
    yield finding(Kind.LIMIT, topic, b"", text, part, about=limit.name)


def _paused(*, is_in: bool, is_out: bool) -> str:
    if is_in and is_out:
        return "The topic is paused: publishes are refused, and nothing is delivered."
    return "Publishes are refused: the topic is paused." if is_in else "Nothing is delivered: the topic is paused."


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the worst first: by level, by kind, and then by weight."""
    return sorted(findings)  # they begin with their rank


_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def shown_seconds(seconds: float) -> str:
    """Return a duration as people read it: `4 min 48 s`, `32 min`; a second unit only if the first is under 10."""
    left = round(seconds)
    for index, (unit, size) in enumerate(_UNITS[:-1]):
        if left >= size:
            count, rest = divmod(left, size)
            smaller, smaller_size = _UNITS[index + 1]
            more = f" {rest // smaller_size} {smaller}" if count < 10 and rest >= smaller_size else ""
            return f"{count} {unit}{more}"
    return f"{left} s"


def shown_bytes(size_bytes: float) -> str:
    """Return a size as people read it: `2.1 KiB`, `61 GiB`."""
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while abs(size) >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.1f} {units[0]}" if units[0] != "B" and size < 10 else f"{size:.0f} {units[0]}"
