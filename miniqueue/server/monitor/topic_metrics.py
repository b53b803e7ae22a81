"""The metrics of each topic in the text format of Prometheus, rendered a few topics at a time.

There can be very many topics. Their metrics are rendered here instead of by the client library, which would block the
event loop for a second with 10,000 topics; here, other tasks run between a few topics and the next. To add a metric,
add its row and run `python -m tests.meta.tables`.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import NamedTuple

from miniqueue.broker import Broker
from miniqueue.broker.inspect.inspect import Figures
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import figures_of
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import MiniqueueError
from miniqueue.server.monitor.wholes import combined, in_wholes
from miniqueue.server.views.groups import partition_word

STATES = ("ready", "leased", "delayed")
KINDS = ("publish", "deliver", "ack", "return")
QUANTILES = {"0.5": "latency_p50_seconds", "0.99": "latency_p99_seconds"}


class Family(NamedTuple):
    """A metric of topics, of groups, or of partitions.

    Attributes:
      name: its name after `miniqueue_`.
      kind: its type: `gauge` or `counter`.
      help: what it is, in one sentence; the scrape contains it.
      figures: the figure that is its value, or the figure for each value of its own label.
      labels: the names of its labels; its own label is the last one.
      note: what docs/protocol.md adds to `help`, in Markdown.
    """

    name: str
    kind: str
    help: str
    figures: str | Mapping[str, str]
    labels: tuple[str, ...] = ("topic",)
    note: str = ""

    def samples(self, figures: Figures) -> Iterator[tuple[str, float]]:
        """Yield its own label, with a comma, and its value."""
        named = {"": self.figures} if isinstance(self.figures, str) else self.figures
        for label, figure in named.items():
            value = figures[figure]
            if value is not None:
                yield f'{self.labels[-1]}="{label}",' if label else "", float(value)


_EVER = "Since the topic was created, restarts included."
_SINCE_START = "Since the start of the broker."
_GROUP = ("topic", "group")

FAMILIES = (
    Family("messages_published_total", "counter", "Messages published.", "published", note=_EVER),
    Family("messages_acknowledged_total", "counter", "Messages acknowledged.", "acknowledged", note=_EVER),
    Family(
        "messages_dropped_total",
        "counter",
        "Messages dropped.",
        "dropped",
        note=f"For lack of room ([limits of topics](#topic-limits)), by a [purge](#purge), "
        f"or as dead letters that were rejected. {_EVER}",
    ),
    Family(
        "messages_moved_total",
        "counter",
        "Messages moved to another topic.",
        "moved",
        note=f"They became [dead letters](#dead-letters), or were dead letters. {_EVER}",
    ),
    Family(
        "messages_expired_total",
        "counter",
        "Messages that expired.",
        "expired",
        note=f"Each also counts as dropped or moved; see [expiry](#expiry). {_SINCE_START}",
    ),
    Family(
        "duplicates_total",
        "counter",
        "Publishes that were duplicates.",
        "duplicates",
        note=f"A batch counts once; see [duplicates](#duplicates). {_SINCE_START}",
    ),
    Family("dedup_ids", "gauge", "Remembered dedup ids.", "dedup_ids"),
    Family(
        "waiting_requests",
        "gauge",
        "Requests that wait for a reply.",
        "requests",
        note="See [requests](#requests-and-replies).",
    ),
    Family("messages_missed_total", "counter", "Messages removed before a group had read them.", "missed", note=_EVER),
    Family(
        "messages",
        "gauge",
        "Messages in a topic.",
        {state: state for state in STATES},
        ("topic", "state"),
        note="By state: `ready`, `leased` or `delayed`.",
    ),
    Family("topic_bytes", "gauge", "Bytes of a topic's messages.", "size_bytes", note="Those of their payloads."),
    Family(
        "retained_messages",
        "gauge",
        "Messages in the logs of a topic with retention.",
        "retained",
        note="Settled or not; 0 for a topic without [retention](#retention).",
    ),
    Family("retained_bytes", "gauge", "Bytes of the retained messages.", "retained_bytes"),
    Family("consumers", "gauge", "Consumers of a topic.", "consumers", note="Waiting, or with a leased message."),
    Family("leases", "gauge", "Leases of a topic's messages.", "leases", note="One lease can cover many messages."),
    Family(
        "lease_timeouts_total",
        "counter",
        "Messages whose lease timed out.",
        "lease_timeouts",
        note=f"Before they were settled; see [leases](#leases). {_SINCE_START}",
    ),
    Family(
        "oldest_message_seconds",
        "gauge",
        "Age of the oldest message.",
        "oldest_seconds",
        note="Among unacknowledged messages; not present without any.",
    ),
    Family(
        "messages_per_second",
        "gauge",
        "Messages a second over the last 10 seconds.",
        {kind: f"{kind}_rate_10s" for kind in KINDS},
        ("topic", "kind"),
        note="By kind: `publish`, `deliver`, `ack` or `return`.",
    ),
    Family(
        "delivery_latency_seconds",
        "gauge",
        "Time from commit to delivery over the last minute.",
        QUANTILES,
        ("topic", "quantile"),
        note="By quantile: `0.5` or `0.99`; not present without a delivery.",
    ),
    Family(
        "topic_paused",
        "gauge",
        "Whether a topic is paused.",
        {side: f"paused_{side}" for side in ("in", "out")},
        ("topic", "side"),
        note="1 or 0, by side: `in` or `out`; see [pause](#pause).",
    ),
)
#: Metrics of each group, for topics with a group besides the default one, or with several partitions.
GROUP_FAMILIES = (
    Family(
        "group_lag",
        "gauge",
        "Messages that a group has not acknowledged.",
        "lag",
        _GROUP,
        note="The metrics of [groups](#groups) are present for topics with a group other than `default`, "
        "or with several partitions.",
    ),
    Family(
        "group_lag_max",
        "gauge",
        "Highest lag of a partition of a group.",
        "lag_max",
        _GROUP,
        note="A lane of a partition counts as one.",
    ),
    Family(
        "group_paused",
        "gauge",
        "Whether deliveries to a group are paused.",
        "paused",
        _GROUP,
        note="1 or 0; see [pause](#pause).",
    ),
    Family("group_leased", "gauge", "Messages leased to a group's consumers.", "leased", _GROUP),
    Family(
        "group_acknowledged_total",
        "counter",
        "Messages that a group has acknowledged.",
        "acknowledged",
        _GROUP,
        note="A seek may reset it.",
    ),
    Family(
        "group_consumers",
        "gauge",
        "Consumers of a group.",
        "consumers",
        _GROUP,
        note="Waiting, or with a leased message.",
    ),
)
#: The metric of each partition and lane, for topics with several, but at most `MAX_PARTITIONS_SHOWN`.
PARTITION_FAMILY = Family(
    "group_partition_lag",
    "gauge",
    "Messages of a partition not acknowledged.",
    "lag",
    ("topic", "group", "partition"),
    note="By partition or lane, named as in ids; only for topics with 2 to 64 of them, and at most 10,000 values: "
    "topics that come later and would exceed that have none.",
)
MAX_PARTITIONS_SHOWN = 64
#: Maximum number of values of this metric; each is about 100 bytes of a scrape.
MAX_PARTITION_LAGS = 10_000
#: Groups of one topic whose metrics one event-loop iteration renders.
GROUPS_IN_TURN = 50


class _Observed(NamedTuple):
    """What is shown of a topic, or of a part of a spread topic.

    Attributes:
      figures: its statistics; None if it cannot be read.
      groups: those of its groups, by name.
      lags: the labels and the lag of each partition.
    """

    figures: Figures | None
    groups: Sequence[tuple[bytes, Figures]]
    lags: Sequence[tuple[str, Figures]]


class TopicMetrics:
    """Renders the metrics of the topics of one broker, including topics that only have waiting consumers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def render(self) -> bytes:
        """Return the current metrics; those of each topic are from the moment when it is rendered."""
        lines = [[_head(family)] for family in FAMILIES]
        group_lines, lag_lines = [[_head(family)] for family in GROUP_FAMILIES], [_head(PARTITION_FAMILY)]
        async with aclosing(in_wholes(self._observed())) as topics:
            async for name, parts in topics:
                label = f'topic="{_escaped(name)}"'
                if known := [part.figures for part in parts if part.figures is not None]:
                    figures = combined(known)
                    for family, family_lines in zip(FAMILIES, lines, strict=True):
                        family_lines.append("".join(_lines(family, label, figures)).encode())
                groups: dict[bytes, list[Figures]] = {}
                for group, shown in [each for part in parts for each in part.groups]:
                    groups.setdefault(group, []).append(shown)
                for group, of_parts in groups.items():
                    group_label, shown = f'group="{_escaped(group.decode())}",{label}', combined(of_parts)
                    for family, family_lines in zip(GROUP_FAMILIES, group_lines, strict=True):
                        family_lines.append("".join(_lines(family, group_label, shown)).encode())
                for lags in [part.lags for part in parts]:
                    if len(lag_lines) + len(lags) <= MAX_PARTITION_LAGS + 1:
                        lag_lines += ["".join(_lines(PARTITION_FAMILY, own + label, lag)).encode() for own, lag in lags]
        return b"".join([b"".join(family_lines) for family_lines in [*lines, *group_lines, lag_lines]])

    async def _observed(self) -> AsyncGenerator[tuple[bytes, _Observed], None]:
        """Yield each topic, or part of a spread topic, by name."""
        async with aclosing(self._broker.inspect.everything()) as topics:
            async for topic in topics:
                figures: Figures | None = None
                with suppress(MiniqueueError):  # a topic that cannot be read; another metric counts those
                    figures = await self._broker.inspect.figures(topic)
                part_count = self._broker.spread_of(whole_of(topic.name)) or 1
                groups = list[tuple[bytes, Figures]]()
                for number, group in enumerate(_groups_of(topic, part_count), 1):
                    if number % GROUPS_IN_TURN == 0:
                        await asyncio.sleep(0)
                    if group.id is not None:  # otherwise it was deleted meanwhile
                        groups.append((group.name, _figures_of(group)))
                yield topic.name, _Observed(figures, groups, _partition_lags(topic, part_count))


def _head(family: Family) -> bytes:
    return f"# HELP miniqueue_{family.name} {family.help}\n# TYPE miniqueue_{family.name} {family.kind}\n".encode()


def _groups_of(topic: Topic, part_count: int) -> Sequence[Group]:
    """Return the groups that have metrics of their own."""
    has_some = topic.has_named_groups or topic.partition_count * part_count > 1
    return topic.existing_groups if has_some else ()


def _figures_of(group: Group) -> Figures:
    figures = figures_of(group)
    return {
        "lag": figures.lag,
        "lag_max": max(figures.lags.values(), default=0),
        "paused": figures.paused,
        "leased": figures.leased,
        "acknowledged": figures.acknowledged,
        "consumers": figures.consumers,
    }


def _partition_lags(topic: Topic, part_count: int) -> list[tuple[str, Figures]]:
    """Return the labels and the lag of each partition of a topic; none if the topic has only one, or too many."""
    if not 1 < len(topic.partitions) * part_count <= MAX_PARTITIONS_SHOWN:
        return []
    return [
        (_label(group, cursor.partition), {"lag": cursor.depth})
        for group in topic.existing_groups
        for cursor in group.cursors
    ]


def _label(group: Group, partition: int) -> str:
    return f'group="{_escaped(group.name.decode())}",partition="{partition_word(partition)}",'


def _lines(family: Family, label: str, figures: Figures) -> Iterator[str]:
    for own_label, value in family.samples(figures):
        yield f"miniqueue_{family.name}{{{own_label}{label}}} {value!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
