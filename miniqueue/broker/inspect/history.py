"""The history of the last hours, as points in memory: of the broker as a whole, and of topics that are in use.

    tick         …  57   58   59   60   61          a tick is `STEP_SECONDS`
    broker       …  [p]  [p]       [p]  [p]         59 is missing, since the process was suspended: the line has a gap
    a topic      …  [p]            [q]              only changes are kept: the point of 58 is that of 57

The broker also has a point for every `COARSE_TICKS` ticks: their average rates, and the last counts. Nothing is stored,
so a line begins with the process. Points are small and their number is limited: `MAX_TOPICS` topics have a line, and if
more change, the one that changed the longest time ago loses its line.

Reads no clock: the caller passes the number of the tick.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

#: The time between two points, and the maximum number of points of a topic and of the broker.
STEP_SECONDS: Final = 20
TOPIC_POINTS: Final = 46
BROKER_POINTS: Final = 180
#: The ticks of a coarse point, five minutes, and the number of coarse points.
COARSE_TICKS: Final = 15
COARSE_POINTS: Final = 288
#: Maximum number of topics with a line, and the estimated memory of a line and of a point.
MAX_TOPICS: Final = 2_000
LINE_BYTES: Final = 700
POINT_BYTES: Final = 300


#: The first fields of a point are rates.
_RATES: Final = 3


class Point(NamedTuple):
    """Messages per second since the previous point, and numbers of messages at one moment.

    Attributes:
      leased: sum over all groups; the other counts are those of the slowest group.
      missed: number of messages that were removed before a group had read them, since the topic was created.
      depth: number of messages that the slowest group has not acknowledged.
    """

    published: float = 0.0
    acknowledged: float = 0.0
    returned: float = 0.0
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    missed: int = 0
    depth: int = 0

    @property
    def is_active(self) -> bool:
        """Whether something happened since the previous point."""
        return any(self[:_RATES])


class Line(NamedTuple):
    """A line of points.

    Attributes:
      step_seconds: the time between two points.
      last_tick: the tick of the last point.
      points: the points, one for each step; None if unknown.
    """

    step_seconds: int
    last_tick: int
    points: list[Point | None]


class History:
    """The points of the broker and of its topics, by the ids of the topics."""

    def __init__(self) -> None:
        self._fine: deque[tuple[int, Point]] = deque(maxlen=BROKER_POINTS)
        self._coarse: deque[tuple[int, Point]] = deque(maxlen=COARSE_POINTS)
        self._topics: dict[int, deque[tuple[int, Point]]] = {}  # changes; the topic that changed last is the last
        self._unknown: dict[int, int] = {}  # topics without a line while they had messages: the last such tick

    @property
    def size_bytes(self) -> int:
        """Estimated memory of all points."""
        count = sum(map(len, self._topics.values())) + len(self._fine) + len(self._coarse)
        return LINE_BYTES * len(self._topics) + POINT_BYTES * count

    def begin(self, tick: int, broker: Point, topics: Container[int]) -> None:
        """Begin a tick; ticks must increase.

        Args:
          tick: the number of the tick.
          broker: the point of the broker.
          topics: the topics that have messages, or in which something happened: `add` adds their points.
        """
        self._fine.append((tick, broker))
        if tick % COARSE_TICKS == COARSE_TICKS - 1:
            self._coarse.append((tick // COARSE_TICKS, self._averaged(tick)))
        for topic_id in [topic_id for topic_id in self._topics if topic_id not in topics]:
            self._note_quiet(tick, topic_id)
        self._unknown = {each: last for each, last in self._unknown.items() if last > tick - TOPIC_POINTS}

    def add(self, tick: int, points: Iterable[tuple[int, Point]]) -> None:
        """Add the points of some topics, by their ids, to a tick that has begun."""
        for topic_id, point in points:
            self._note_topic(tick, topic_id, point)

    def _averaged(self, tick: int) -> Point:
        """Return the point for the coarse tick that ends with a tick."""
        points = [point for at, point in self._fine if at > tick - COARSE_TICKS]
        published, acknowledged, returned = (
            round(sum(rates) / len(points), 3) for rates in zip(*(point[:_RATES] for point in points), strict=True)
        )
        return points[-1]._replace(published=published, acknowledged=acknowledged, returned=returned)

    def _note_topic(self, tick: int, topic_id: int, point: Point) -> None:
        points = self._topics.get(topic_id)
        if points is None:
            if len(self._topics) >= MAX_TOPICS and not self._make_room(tick, point):
                self._unknown[topic_id] = tick
                return
            points = self._topics[topic_id] = deque(maxlen=TOPIC_POINTS + 1)
        elif points[-1][1] == point:
            return
        else:
            self._topics[topic_id] = self._topics.pop(topic_id)
        points.append((tick, point))

    def _make_room(self, tick: int, point: Point) -> bool:
        """Drop the line that changed the longest time ago, unless nothing happened in the topic that needs a line."""
        if not point.is_active:
            return False
        oldest = next(iter(self._topics))
        del self._topics[oldest]
        self._unknown[oldest] = tick
        return True

    def _note_quiet(self, tick: int, topic_id: int) -> None:
        """Add that a topic is empty and quiet; drop its line if it has been so for the whole of it."""
        points = self._topics[topic_id]
        at, last = points[-1]
        quiet = Point(missed=last.missed)
        if last != quiet:
            points.append((tick, quiet))
        elif at <= tick - TOPIC_POINTS:
            del self._topics[topic_id]

    def of_broker(self) -> Line:
        """Return the points of the last hour."""
        return Line(STEP_SECONDS, *_spread(self._fine, BROKER_POINTS))

    def of_broker_by_day(self) -> Line:
        """Return the points of the last day; `last_tick` counts coarse ticks."""
        return Line(STEP_SECONDS * COARSE_TICKS, *_spread(self._coarse, COARSE_POINTS))

    def of_topic(self, topic_id: int) -> Line:
        """Return the points of a topic; all of them are unknown if it lost its line."""
        ticks = self._recent_ticks(TOPIC_POINTS)
        if not ticks:
            return Line(STEP_SECONDS, 0, [])
        known = dict(zip(ticks, self._filled(topic_id, ticks), strict=True))
        return Line(STEP_SECONDS, ticks[-1], [known.get(tick) for tick in range(ticks[0], ticks[-1] + 1)])

    def ready_of(self, topic_id: int) -> list[int | None]:
        """Return the ready messages of a topic at each of the last points; nothing if it has no line."""
        if topic_id not in self._topics:
            return []
        return [None if point is None else point.ready for point in self.of_topic(topic_id).points]

    def growth_of(self, topic_id: int) -> tuple[int, int]:
        """Return by how many messages the depth of a topic, and what it missed, grew since the beginning of its line.

        Returns 0 for what is unknown.
        """
        ticks = self._recent_ticks(TOPIC_POINTS)
        points = list(self._topics.get(topic_id, ()))
        if not ticks or not points:
            return 0, 0
        first, last = next(self._filled(topic_id, ticks)), points[-1][1]
        before = [point.missed for at, point in points if at <= ticks[0]]
        depth = 0 if first is None else last.depth - first.depth
        return depth, last.missed - (before[-1] if before else points[0][1].missed)

    def _recent_ticks(self, count: int) -> list[int]:
        """Return the ticks that have points, of the last `count` ones."""
        if not self._fine:
            return []
        first = self._fine[-1][0] - count
        latest = islice(reversed(self._fine), count)
        return [tick for tick, _ in latest if tick > first][::-1]

    def _filled(self, topic_id: int, ticks: Iterable[int]) -> Iterator[Point | None]:
        """Yield the point of a topic at each of these ticks: that of the last change, or nothing before the first."""
        point, unknown_until = Point(), self._unknown.get(topic_id, -1)
        changes = iter(self._topics.get(topic_id, ()))
        change = next(changes, None)
        for tick in ticks:
            while change is not None and change[0] <= tick:
                point = change[1]
                change = next(changes, None)
            yield None if tick <= unknown_until else point


def _spread(points: deque[tuple[int, Point]], count: int) -> tuple[int, list[Point | None]]:
    """Return the last tick, and the points of the ticks up to it, at most `count`; None for those that are missing."""
    if not points:
        return 0, []
    last = points[-1][0]
    known = {tick: point for tick, point in points if tick > last - count}
    return last, [known.get(tick) for tick in range(min(known), last + 1)]
