"""Measures what happens in topics, second by second, at hardly any cost for publishes and deliveries.

    commits ─▶ journal.touched ─┐
                                ├─▶ look, once a second: counters of these topics ─▶ Activity of each
    deliveries ─▶ TopicRates ───┘        └ has the next `SAMPLES` deliveries of each topic timed ─▶ Latencies

The counters are those that the cursors keep anyway. A topic in which nothing happens costs nothing, and its
measurements are dropped after a minute.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from functools import partial
from itertools import repeat
from operator import and_, attrgetter

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.rates import Counters, GroupRate, TopicRates
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.core.cursor.receipts import RECEIPT_BITS
from miniqueue.core.statistics import TICKS, Activity, Latencies

#: Number of deliveries per topic and second whose latency is measured.
SAMPLES = 32
#: Number of topics and groups that are inspected in one iteration of the event loop.
TOPICS_IN_TURN = 200
#: Maximum number of groups of a topic that are measured; in a topic with more, none is.
MAX_GROUPS = 100
#: Intervals over which rates are reported, in seconds.
SPANS = (1, 10, 60)
#: Quantiles of the latencies that are reported.
QUANTILES = (0.5, 0.99)

_RECEIPT_MASK = (1 << RECEIPT_BITS) - 1
_next_receipt, _tail_seq, _serial = attrgetter("next_receipt"), attrgetter("tail_seq"), attrgetter("serial")
_dropped_count, _moved_count = attrgetter("dropped_count"), attrgetter("moved_count")
_acked_count = attrgetter("acked_count")
_NO_RATES = (0.0,) * len(Counters._fields)

#: Messages per second by kind and interval, for example `publish_rate_1s`.
Rates = Mapping[str, float]


class RateMeter:
    """Measures the rates and latencies of topics."""

    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._clock = engine.clock
        self._tick = 0
        self._times_seconds: deque[float] = deque(maxlen=TICKS + 1)
        self._awake: dict[Topic, None] = {}

    def changed(self, topic: Topic) -> None:
        """Measure a topic from now on; no effect if it is measured already."""
        if topic.pulse is None:
            topic.pulse = TopicRates(SAMPLES, counters_of(topic), partial(self._time, topic))

    def _time(self, topic: Topic, committed_at_ms: int) -> None:
        """Record the latency of a delivery that happens now."""
        self._awake[topic] = None
        pulse = topic.pulse
        assert pulse is not None  # its `TopicRates` calls this
        if pulse.latencies is None:
            pulse.latencies = Latencies()
        pulse.latencies.note(self._tick, self._clock.now_ms() - committed_at_ms)

    async def run(self) -> None:
        """Call `look` once a second, forever."""
        loop = asyncio.get_running_loop()
        self._times_seconds.append(loop.time())
        while True:
            await asyncio.sleep(1)
            await self.look(loop.time())

    async def look(self, now_seconds: float) -> None:
        """Record what has happened since the last call, for a few topics per iteration of the event loop."""
        self._tick += 1
        self._times_seconds.append(now_seconds)
        touched, self._journal.touched = self._journal.touched, set()
        self._awake.update(dict.fromkeys(touched))
        number = 0
        for topic in list(self._awake):
            number += 1 + self._note(topic)
            if number >= TOPICS_IN_TURN:
                number = 0
                await asyncio.sleep(0)

    def _note(self, topic: Topic) -> int:
        """Measure a topic; return the number of groups that were measured."""
        pulse = topic.pulse
        if pulse is None or topic.id is None:
            topic.pulse = None
            del self._awake[topic]
            return 0
        pulse.wanted = SAMPLES
        counters = counters_of(topic)
        if counters != pulse.seen:
            if pulse.activity is None:
                pulse.activity = Activity(len(counters))
            pulse.activity.note(self._tick, counters.since(pulse.seen))
            pulse.seen = counters
            return self._note_groups(topic, pulse)
        if pulse.activity is None or pulse.activity.is_quiet(self._tick):
            pulse.activity = pulse.latencies = None
            pulse.groups = {}
            del self._awake[topic]
        return 0

    def _note_groups(self, topic: Topic, pulse: TopicRates) -> int:
        """Measure the groups of a topic, unless there is only one, which has the rates of the topic."""
        before, pulse.groups = pulse.groups, {}
        groups = topic.existing_groups
        if not 1 < len(groups) <= MAX_GROUPS:
            return 0
        for group in groups:
            if group.id is not None:
                acked_count = sum(map(_acked_count, group.cursors))
                rate = pulse.groups[group.id] = before.get(group.id) or GroupRate(acked_count)
                if acked_count != rate.seen:
                    rate.activity.note(self._tick, [max(0, acked_count - rate.seen)])
                    rate.seen = acked_count
        return len(groups)

    def rates(self, topic: Topic) -> Rates:
        """Return messages per second: published, delivered, acknowledged, and returned, over each of `SPANS`."""
        rates: dict[str, float] = {}
        activity = None if topic.pulse is None else topic.pulse.activity
        for span in SPANS:
            sums = [0] * len(Counters._fields) if activity is None else activity.sums(self._tick, span)
            seconds = self._seconds(span)
            for kind, count in zip(Counters._fields, sums, strict=True):
                rates[f"{kind.rstrip('_')}_rate_{span}s"] = round(count / seconds, 3)
        return rates

    def per_second(self, topic: Topic, span: int) -> tuple[float, ...]:
        """Return the rates of each of the `Counters` over the last `span` seconds, in messages per second."""
        activity = None if topic.pulse is None else topic.pulse.activity
        if activity is None:
            return _NO_RATES
        seconds = self._seconds(span)
        return tuple(round(count / seconds, 3) for count in activity.sums(self._tick, span))

    def acked_per_second(self, group: Group, span: int) -> float | None:
        """Return how many messages a group acknowledged per second in the last `span` seconds; None: not measured."""
        topic, count = group.topic, len(group.topic.existing_groups)
        if count <= 1:
            return self.per_second(topic, span)[Counters._fields.index("ack")]
        if count > MAX_GROUPS:
            return None
        rate = None if topic.pulse is None else topic.pulse.groups.get(group.id or 0)
        return 0.0 if rate is None else round(rate.activity.sums(self._tick, span)[0] / self._seconds(span), 3)

    def latencies_seconds(self, topic: Topic) -> list[float] | None:
        """Return how long messages waited in the last minute, for each of `QUANTILES`; None without deliveries."""
        latencies = None if topic.pulse is None else topic.pulse.latencies
        quantiles_ms = None if latencies is None else latencies.quantiles_ms(self._tick, QUANTILES)
        return None if quantiles_ms is None else [latency_ms / 1000 for latency_ms in quantiles_ms]

    def _seconds(self, ticks: int) -> float:
        """Return how long the last `ticks` ticks took, or all ticks if there were fewer."""
        times = self._times_seconds
        if len(times) < 2:
            return 1.0
        return max(times[-1] - times[max(-1 - ticks, -len(times))], 1e-3)


def counters_of(topic: Topic) -> Counters:
    """Return the current counters of a topic; a dropped message also had a receipt, so it is subtracted.

    A publish counts once, however many groups read the topic.
    """
    cursors = topic.cursors
    last = topic.last_group if topic.has_named_groups else None
    # There can be thousands of cursors, so no line of Python runs for one of them.
    receipts = sum(map(and_, map(_next_receipt, cursors), repeat(_RECEIPT_MASK))) - len(cursors)
    return Counters(
        publish=sum(map(_tail_seq, cursors if last is None else last.cursors)),
        deliver=receipts - sum(map(_dropped_count, cursors)) + sum(map(_moved_count, cursors)),
        ack=sum(map(_acked_count, cursors)),
        return_=sum(map(_serial, cursors)),
    )
