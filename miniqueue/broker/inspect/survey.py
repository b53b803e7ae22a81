"""A survey of all topics: a row for each, the sums, and what needs attention.

    which topics hold dead letters of others ─▶ each topic: its row, what was observed of it ─▶ the findings, in order

It runs in turns, and does not wake topics at rest.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from operator import add
from typing import Final, NamedTuple

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.ages import oldest_at_ms, oldest_of
from miniqueue.broker.inspect.attention import (
    BEHIND_SECONDS,
    LIMIT_PART,
    UNREAD_SECONDS,
    Finding,
    GroupSeen,
    Kind,
    LimitUse,
    TopicSeen,
    in_order,
    of_topic,
)
from miniqueue.broker.inspect.due_counting import count_due
from miniqueue.broker.inspect.history import STEP_SECONDS, History, Point
from miniqueue.broker.inspect.known_ages import KnownAges
from miniqueue.broker.inspect.rates import RateMeter
from miniqueue.broker.model.topic import Group, Topic, total
from miniqueue.broker.model.views import stats_of
from miniqueue.core.message.parts import SEPARATOR, has_suffix, remove_from
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX
from miniqueue.errors import MiniqueueError

#: Number of topics that are surveyed in one turn, and of topics that are only looked up.
TOPICS_IN_TURN: Final = 50
NAMES_IN_TURN: Final = 1_000
#: Maximum number of groups of a topic that are observed; of more, only the slowest is.
MAX_GROUPS: Final = 100
#: Maximum number of groups whose age is read from the store, since they grew, and of groups whose size is remembered.
MAX_AGES: Final = 100
MAX_DEPTHS: Final = 10_000
#: The interval of the rates of a row.
SPAN_SECONDS: Final = 10
#: The kinds of findings that are the state of a topic.
STATES: Final = frozenset({Kind.DAMAGED, Kind.BEHIND, Kind.NO_CONSUMERS, Kind.DEAD, Kind.PAUSED})
_TICKS: Final = BEHIND_SECONDS // STEP_SECONDS


class TopicRow(NamedTuple):
    """A topic at one moment, in messages; rates are per second.

    Attributes:
      ready: number of ready messages of the slowest group; so is `delayed`. `leased` is the sum over all groups.
      depth: number of messages that the slowest group has not acknowledged.
      dead: number of messages in its dead-letter topic; None if other topics use the same dead-letter topic.
      has_letters: whether it is the dead-letter topic of another topic.
      paused: the paused side: `in`, `out`, `both`, or empty.
    """

    name: bytes
    topic_id: int
    ready: int
    leased: int
    delayed: int
    dead: int | None
    published: float
    acknowledged: float
    returned: float
    consumers: int
    groups: int
    paused: str
    is_damaged: bool
    has_letters: bool
    depth: int

    @property
    def is_idle(self) -> bool:
        """Whether the topic has no messages, no consumers, and no traffic."""
        return not any(self[2:9]) and not self.consumers


class Totals(NamedTuple):
    """Sums over all topics. Messages in dead-letter topics count as dead, and not as ready, leased, or delayed.

    Parts of spread topics do not count as topics.
    """

    topics: int = 0
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    consumers: int = 0
    stored_bytes: int = 0
    published: float = 0.0
    acknowledged: float = 0.0
    returned: float = 0.0


#: When each finding became true, by its key, in ms since 1970.
Since = Mapping[tuple[str, bytes, bytes], int]


class Surveyed(NamedTuple):
    """The result of a survey.

    Attributes:
      rows: the topics, by name.
      totals: the sums.
      findings: what needs attention, the worst first, each with the time when it became true.
      worst: the worst finding of each topic, of the kinds that are states of topics.
      since: when each finding became true, by key.
      ages: when the oldest message of a topic was published, in ms since 1970, by name; see
        `KnownAges`. Without topics that hold dead letters.
      points: the points for the history, by id of the topic; of topics with messages, or in which something happened.
      parts: the parts of spread topics that are here, by name; they are not among the rows, but in the sums.
      part_findings: what needs attention there, the worst first.
    """

    rows: Mapping[bytes, TopicRow]
    totals: Totals
    findings: Sequence[Finding]
    worst: Mapping[bytes, Finding]
    since: Since
    ages: Mapping[bytes, int]
    points: Mapping[int, Point]
    parts: Mapping[bytes, TopicRow]
    part_findings: Sequence[Finding]

    def row_of(self, name: bytes) -> TopicRow | None:
        """Return the row of a topic, or of a part of a spread topic; None if there is none yet."""
        return self.rows.get(name) or self.parts.get(name)


class Survey:
    """Makes surveys.

    Args:
      engine: has the topics and the store.
      rates: measures the topics.
      history: has the earlier points of the topics.
    """

    def __init__(self, engine: Engine, rates: RateMeter, history: History) -> None:
        self._engine = engine
        self._topics = engine.topics.by_name
        self._rates = rates
        self._history = history
        self._depths: dict[tuple[int, int], list[tuple[int, int]]] = {}  # tick and size of groups in active topics
        self._ages = KnownAges()

    async def make(self, tick: int, since: Since, more: Sequence[Finding] = ()) -> Surveyed:
        """Return how all topics are now.

        Args:
          tick: the number of the current tick of the history.
          since: when each finding of the last survey became true.
          more: findings that concern the broker.
        """
        self._ages.begin_pass()
        return await _Pass(self._engine, self._rates, self._history, self._growth(tick), since, self._ages).run(more)

    async def remember_groups(self, tick: int) -> None:
        """Remember the sizes of groups in active topics, to see in a minute whether they have grown."""
        depths: dict[tuple[int, int], list[tuple[int, int]]] = {}
        active = list(filter(_is_active, self._topics.values()))
        async with aclosing(self._engine.share.in_turns(active, TOPICS_IN_TURN)) as topics:
            async for topic in topics:
                for group in _groups_of(topic) if len(depths) < MAX_DEPTHS else ():
                    key = _key(group)
                    depths[key] = [*self._depths.get(key, [])[-_TICKS:], (tick, _waiting_of(group))]
        self._depths = depths

    def _growth(self, tick: int) -> Callable[[Group], int | None]:
        """Return a function that returns by how much a group has grown in a minute; None if that is unknown."""

        def growth(group: Group) -> int | None:
            before = [depth for at, depth in self._depths.get(_key(group), ()) if at <= tick - _TICKS]
            return _waiting_of(group) - before[-1] if before else None

        return growth

    @property
    def size_bytes(self) -> int:
        """Estimated memory of the remembered sizes of groups, and ages of topics."""
        return 600 * len(self._depths) + self._ages.size_bytes


def _is_active(topic: Topic) -> bool:
    """Whether something happened in a topic in the last minute."""
    return topic.pulse is not None and topic.pulse.activity is not None


def _key(group: Group) -> tuple[int, int]:
    return group.topic.id or 0, group.id or 0


def _waiting_of(group: Group) -> int:
    """Return the number of messages of a group that are ready or leased."""
    return group.depth - sum(cursor.waiting_delayed_count for cursor in group.cursors)


def _groups_of(topic: Topic) -> list[Group]:
    """Return the groups of a topic that are observed; none if the topic is at rest, and so has no messages."""
    if topic.id is None or topic.at_rest is not None or topic.fault is not None:
        return []
    groups = topic.existing_groups
    last = topic.last_group
    return groups if len(groups) <= MAX_GROUPS or last is None else [last]


class _Pass:
    """One survey."""

    def __init__(
        self,
        engine: Engine,
        rates: RateMeter,
        history: History,
        growth: Callable[[Group], int | None],
        since: Since,
        ages: KnownAges,
    ) -> None:
        self._engine = engine
        self._known_ages = ages
        self._ages: dict[bytes, int] = {}
        self._topics = engine.topics.by_name
        self._rates = rates
        self._history = history
        self._growth = growth
        self._before = since
        self._now_ms = engine.clock.now_ms()
        self._letters: dict[bytes, int] = {}  # number of topics whose dead letters a topic holds
        self._rows: dict[bytes, TopicRow] = {}
        self._parts: dict[bytes, TopicRow] = {}
        self._points: dict[int, Point] = {}
        self._findings: list[Finding] = []
        self._worst: dict[bytes, Finding] = {}
        self._since: dict[tuple[str, bytes, bytes], int] = {}
        self._totals = _Sums()
        self._age_count = 0

    async def run(self, more: Sequence[Finding]) -> Surveyed:
        """Make the survey."""
        for each in more:
            self._add_finding(each)
        names = sorted(self._topics)
        async with aclosing(self._engine.share.in_turns(_cut(names, NAMES_IN_TURN), 1)) as turns:
            async for some in turns:
                self._find_letters(some)
        async with aclosing(self._engine.share.in_turns(_cut(names, TOPICS_IN_TURN), 1)) as turns:
            async for some in turns:
                for topic in self._existing(some):
                    await self._look_at(topic)
        findings, of_parts = in_order(self._findings), list[Finding]()
        if self._parts:
            of_parts = [each for each in findings if each.topic in self._parts]
            findings = [each for each in findings if each.topic not in self._parts]
        totals = self._totals.result()
        return Surveyed(
            self._rows, totals, findings, self._worst, self._since, self._ages, self._points, self._parts, of_parts
        )

    def _existing(self, names: Sequence[bytes]) -> Iterator[Topic]:
        """Yield the topics with these names, except those that were deleted meanwhile; of spread topics, the parts."""
        for name in names:
            topic = self._topics.get(name)
            if topic is not None and topic.id is not None and not self._engine.topics.is_copy(name):
                yield topic

    def _find_letters(self, names: Sequence[bytes]) -> None:
        """Find the dead-letter topics among these topics, and those that these topics name in their settings."""
        for topic in self._existing(names):
            if has_suffix(topic.name, DEAD_LETTER_SUFFIX):
                self._find_origin(topic.name)
            if topic.settings.dead_letter_topic is not None:
                letters = topic.settings.dead_letter_topic.encode()
                if letters in self._topics:
                    self._letters[letters] = self._letters.get(letters, 0) + 1

    def _find_origin(self, name: bytes) -> None:
        """Count the topic whose dead letters are in the topic with its name and a suffix."""
        origin = self._topics.get(remove_from(name, DEAD_LETTER_SUFFIX))
        if origin is not None and origin.id is not None and origin.settings.dead_letter_topic is None:
            self._letters[name] = self._letters.get(name, 0) + 1

    async def _look_at(self, topic: Topic) -> None:
        if topic.at_rest is None and (topic.sole is None or topic.sole[1].delayed_count):
            await count_due(self._engine, topic)
        topic_id = topic.id
        if topic_id is None:
            return
        row, size_bytes = self._row(topic, topic_id)
        (self._parts if SEPARATOR in topic.name else self._rows)[topic.name] = row
        self._totals.add(row, topic.stored_bytes)
        if row.depth or _is_active(topic):
            self._points[topic_id] = self._point(topic, row)
        if row.depth and not row.has_letters:
            at_ms = await self._known_ages.of(self._engine, topic, topic_id)
            if at_ms is not None:
                self._ages[topic.name] = at_ms
        if not _is_fine(topic, row, size_bytes):
            for each in of_topic(await self._seen(topic, row, size_bytes), self._now_ms):
                self._add_finding(each)

    def _add_finding(self, finding: Finding) -> None:
        """Add a finding, with the time when it became true."""
        since_ms = self._before.get(finding.key)
        if since_ms is None:
            since_ms = self._now_ms if finding.since_ms is None else finding.since_ms
        self._since[finding.key] = since_ms
        dated = finding._replace(since_ms=since_ms)
        self._findings.append(dated)
        worst = self._worst.get(finding.topic)
        if finding.kind in STATES and (worst is None or dated < worst):
            self._worst[finding.topic] = dated

    def _row(self, topic: Topic, topic_id: int) -> tuple[TopicRow, int]:
        """Return the row of a topic, and the size of its messages."""
        published, _, acknowledged, returned = self._rates.per_second(topic, SPAN_SECONDS)
        counts = _counts_of(topic)
        row = TopicRow(
            topic.name,
            topic_id,
            *counts.of_messages,
            self._dead_of(topic) if self._letters else 0,
            published,
            acknowledged,
            returned,
            counts.consumers,
            counts.groups,
            _paused(topic),
            topic.fault is not None,
            topic.name in self._letters,
            counts.depth,
        )
        return row, counts.size_bytes

    def _dead_of(self, topic: Topic) -> int | None:
        name = topic.settings.dead_letters_of(topic.name)
        count = self._letters.get(name, 0)
        letters = self._topics.get(name)
        if not count or letters is None or letters.id is None or letters.at_rest is not None:
            return 0 if count <= 1 else None
        return letters.depth if count == 1 else None

    def _point(self, topic: Topic, row: TopicRow) -> Point:
        published, _, acknowledged, returned = self._rates.per_second(topic, STEP_SECONDS)
        missed = topic.sole[1].missed_count if topic.sole else sum(cursor.missed_count for cursor in topic.cursors)
        return Point(published, acknowledged, returned, row.ready, row.leased, row.delayed, 0, missed, row.depth)

    async def _seen(self, topic: Topic, row: TopicRow, size_bytes: int) -> TopicSeen:
        groups = [await self._group(group) for group in _groups_of(topic)] if row.depth else []
        dead, letters_id = self._dead(topic, row)
        return TopicSeen(
            row.name,
            "" if topic.fault is None else str(topic.fault),
            groups,
            dead=dead,
            dead_growth=0 if letters_id is None else self._history.growth_of(letters_id)[0],
            missed_growth=self._history.growth_of(row.topic_id)[1],
            limits=_limits_of(self._engine, topic, row.depth, size_bytes),
            is_paused_in=topic.is_paused_in,
            is_paused_out=topic.is_paused_out,
            has_letters=row.has_letters,
        )

    def _dead(self, topic: Topic, row: TopicRow) -> tuple[int, int | None]:
        """Return the number of dead letters to report for a topic, and the id of the topic that holds them.

        Those of several topics are reported for the topic that holds them.
        """
        if self._letters.get(row.name, 0) > 1:
            return row.depth, row.topic_id
        letters = self._topics.get(topic.settings.dead_letters_of(topic.name)) if row.dead else None
        return row.dead or 0, None if letters is None else letters.id

    async def _group(self, group: Group) -> GroupSeen:
        growth = self._growth(group)
        consumers, unread_seconds, is_paused = group.consumer_count, group.unread_seconds, group.is_paused
        ready = _waiting_of(group) - sum(cursor.leased_count for cursor in group.cursors)
        at_ms = None
        if growth is not None and growth > 0 and self._age_count < MAX_AGES:
            self._age_count += 1
            at_ms = await self._oldest_of(group)
        return GroupSeen(group.name, ready, growth, at_ms, consumers, unread_seconds, is_paused)

    async def _oldest_of(self, group: Group) -> int | None:
        topic = group.topic
        with suppress(MiniqueueError):  # it is reported elsewhere that the store, or the topic, cannot be read
            if len(topic.existing_groups) == 1:
                return await oldest_at_ms(self._engine, topic)
            if topic.id is not None:
                return await oldest_of(self._engine, topic.id, group.cursors)
        return None


def _paused(topic: Topic) -> str:
    if topic.is_paused_in:
        return "both" if topic.is_paused_out else "in"
    return "out" if topic.is_paused_out else ""


def _cut(names: Sequence[bytes], count: int) -> list[Sequence[bytes]]:
    """Cut names into parts of at most `count`."""
    return [names[start : start + count] for start in range(0, len(names), count)]


def _is_fine(topic: Topic, row: TopicRow, size_bytes: int) -> bool:
    """Whether cheap checks show that nothing in a topic needs attention, which is the usual case."""
    if row.paused or row.is_damaged or row.dead or (row.has_letters and row.depth):
        return False
    if not row.depth:
        return True
    if topic.sole is None or topic.sole[1].missed_count or _is_active(topic):
        return False
    if row.depth >= LIMIT_PART * topic.max_messages or size_bytes >= LIMIT_PART * topic.max_bytes:
        return False
    groups = topic.groups.values()
    return not any(group.is_paused or group.unread_seconds >= UNREAD_SECONDS for group in groups)


class _Counts(NamedTuple):
    """Counts of a topic, for its row; `of_messages` are the ready, leased, and delayed ones."""

    of_messages: tuple[int, int, int]
    depth: int
    size_bytes: int
    consumers: int
    groups: int


def _counts_of(topic: Topic) -> _Counts:
    """Return the counts of a topic; a topic at rest stays so."""
    rest = topic.at_rest
    if rest is None and topic.sole is not None:
        partition, cursor = topic.sole
        delays = partition.delays.committed
        if not (cursor.delayed_count or delays.message_count):  # the usual case, of which there may be thousands
            depth, leased = cursor.depth, cursor.leased_count
            consumers = sum(group.consumer_count for group in topic.groups.values())
            return _Counts((depth - leased, leased, 0), depth, cursor.tail_bytes - cursor.gone_bytes, consumers, 1)
    stats = stats_of(topic)
    depth, consumers = stats.ready + stats.leased + stats.delayed, stats.consumers
    if rest is None:
        groups, leased = len(topic.existing_groups), total("leased_count", topic.cursors)
    else:
        groups, leased = rest.partition_count // max(1, rest.lane_count), 0
    return _Counts((stats.ready, leased, stats.delayed), depth, stats.size_bytes, consumers, groups)


class _Sums:
    """Adds up rows."""

    def __init__(self) -> None:
        self._counts, self._rates = [0] * 7, [0.0] * 3

    def add(self, row: TopicRow, stored_bytes: int) -> None:
        """Add a row."""
        counts, rates = self._counts, self._rates
        counts[0] += SEPARATOR not in row.name
        if row.has_letters:
            counts[4] += row.depth
        else:
            counts[1] += row.ready
            counts[2] += row.leased
            counts[3] += row.delayed
        counts[5] += row.consumers
        counts[6] += stored_bytes
        if row.published or row.acknowledged or row.returned:
            rates[:] = map(add, rates, (row.published, row.acknowledged, row.returned))

    def result(self) -> Totals:
        """Return the sums."""
        return Totals(*self._counts, *(round(rate, 3) for rate in self._rates))


def _limits_of(engine: Engine, topic: Topic, depth: int, size_bytes: int) -> list[LimitUse]:
    """Return the limits of a topic; none if its settings say that messages are evicted when it is full."""
    if not topic.is_limited or engine.limits.policy_of(topic) is not LimitPolicy.REFUSE:
        return []
    most, most_bytes = (None if most == sys.maxsize else most for most in (topic.max_messages, topic.max_bytes))
    return [LimitUse("messages", depth, most), LimitUse("bytes", size_bytes, most_bytes, is_bytes=True)]
