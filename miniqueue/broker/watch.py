"""Watches what happens in topics, second by second; the paths that do the work hardly notice.

    commits ─▶ journal.touched ─┐
                                ├─▶ look, once a second: counters of these topics ─▶ Activity of each
    hand-outs ─▶ Pulse ─────────┘        └ lets the next `SAMPLES` hand-outs of each be timed ─▶ Latencies

The counters are those that the cursors keep anyway. A topic in which nothing happens costs nothing, and what was
remembered of it goes after a minute.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from miniqueue.broker.clock import Clock
from miniqueue.broker.group import RECEIPT_BITS
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core.activity import TICKS, Activity
from miniqueue.core.latency import Latencies
from miniqueue.core.lease import ChunkLease, Lease

#: Hand-outs of a topic that are timed in a second.
SAMPLES = 32
#: Topics that are looked at in one turn of the loop.
TOPICS_IN_TURN = 200
#: Over how many seconds rates are told.
SPANS = (1, 10, 60)
QUANTILES = (0.5, 0.99)


class Counters(NamedTuple):
    """What happened in a topic, counted since some time or other: only differences mean something."""

    publish: int
    deliver: int
    ack: int
    return_: int

    def since(self, earlier: "Counters") -> list[int]:
        """Return how much of each came since then; nothing where the topic began anew."""
        return [max(0, now - then) for now, then in zip(self, earlier, strict=True)]


#: By kind and number of seconds: `publish_rate_1s`.
Rates = Mapping[str, float]


class Pulse:
    """What is remembered of one topic.

    Attributes:
      wanted: how many more hand-outs are to be timed in this second.
      oldest: when the oldest message was published, with what was settled when somebody looked.
    """

    __slots__ = ("_watch", "activity", "latencies", "oldest", "seen", "topic", "wanted")

    def __init__(self, watch: "Watch", topic: Topic) -> None:
        self._watch = watch
        self.topic = topic
        self.wanted = SAMPLES
        self.seen = counters_of(topic)
        self.oldest: tuple[tuple[object, ...], int | None] | None = None
        self.activity: Activity | None = None
        self.latencies: Latencies | None = None

    def handed_out(self, lease: Lease) -> None:
        """Time the hand-out of messages that never came back: from their commit to now."""
        self.wanted -= 1
        if isinstance(lease, ChunkLease):
            self._watch.time(self, lease.progress.chunk.committed_at_ms)


class Watch:
    """Knows how fast topics are.

    Args:
      journal: says which topics changed.
      clock: tells how long messages have waited.
    """

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._tick = 0
        self._times_seconds: deque[float] = deque(maxlen=TICKS + 1)
        self._awake: dict[Topic, None] = {}

    def see(self, topics: Iterable[Topic]) -> None:
        """Watch topics from now on; those that are watched already go on."""
        for topic in topics:
            if topic.pulse is None:
                topic.pulse = Pulse(self, topic)

    def time(self, pulse: Pulse, committed_at_ms: int) -> None:
        """Note that messages are handed out now."""
        self._awake[pulse.topic] = None
        if pulse.latencies is None:
            pulse.latencies = Latencies()
        pulse.latencies.note(self._tick, self._clock.now_ms() - committed_at_ms)

    async def run(self) -> None:
        """Look once a second, for ever."""
        loop = asyncio.get_running_loop()
        self._times_seconds.append(loop.time())
        while True:
            await asyncio.sleep(1)
            await self.look(loop.time())

    async def look(self, now_seconds: float) -> None:
        """Note what has happened since the last look; some topics in each turn of the loop."""
        self._tick += 1
        self._times_seconds.append(now_seconds)
        touched, self._journal.touched = self._journal.touched, set()
        self._awake.update(dict.fromkeys(touched))
        for number, topic in enumerate(list(self._awake), start=1):
            self._note(topic)
            if number % TOPICS_IN_TURN == 0:
                await asyncio.sleep(0)

    def _note(self, topic: Topic) -> None:
        pulse = topic.pulse
        if pulse is None or topic.id is None:
            topic.pulse = None
            del self._awake[topic]
            return
        pulse.wanted = SAMPLES
        counters = counters_of(topic)
        if counters != pulse.seen:
            if pulse.activity is None:
                pulse.activity = Activity(len(counters))
            pulse.activity.note(self._tick, counters.since(pulse.seen))
            pulse.seen = counters
        elif pulse.activity is None or pulse.activity.is_quiet(self._tick):
            pulse.activity = pulse.latencies = None
            del self._awake[topic]

    def rates(self, topic: Topic) -> Rates:
        """Return messages a second: published, handed out, acknowledged and returned, over each of `SPANS`."""
        rates: dict[str, float] = {}
        activity = None if topic.pulse is None else topic.pulse.activity
        for span in SPANS:
            sums = [0] * len(Counters._fields) if activity is None else activity.sums(self._tick, span)
            seconds = self._seconds(span)
            for kind, count in zip(Counters._fields, sums, strict=True):
                rates[f"{kind.rstrip('_')}_rate_{span}s"] = round(count / seconds, 3)
        return rates

    def latencies_seconds(self, topic: Topic) -> list[float] | None:
        """Return how long messages waited in the last minute, one time for each of `QUANTILES`; None when none came."""
        latencies = None if topic.pulse is None else topic.pulse.latencies
        found = None if latencies is None else latencies.quantiles_ms(self._tick, QUANTILES)
        return None if found is None else [latency_ms / 1000 for latency_ms in found]

    def _seconds(self, ticks: int) -> float:
        """Return how long the last ticks took; there may not have been so many yet."""
        times = self._times_seconds
        if len(times) < 2:
            return 1.0
        return max(times[-1] - times[max(-1 - ticks, -len(times))], 1e-3)


def counters_of(topic: Topic) -> Counters:
    """Return the counters of a topic as they are now; what was dropped had a receipt, too."""
    cursors = topic.cursors
    return Counters(
        publish=sum(cursor.tail_seq for cursor in cursors),
        deliver=sum(
            cursor.next_receipt % (1 << RECEIPT_BITS) - 1 - cursor.dropped_count + cursor.moved_count
            for cursor in cursors
        ),
        ack=sum(cursor.acked_count for cursor in cursors),
        return_=sum(cursor.state.serial for cursor in cursors),
    )
