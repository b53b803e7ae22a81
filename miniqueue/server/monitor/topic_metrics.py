"""The metrics of each topic in the text format of Prometheus, rendered a few topics at a time.

There can be very many topics. Their metrics are rendered here instead of by the client library, which would block the
event loop for a second with 10,000 topics; here, other tasks run between a few topics and the next. To add a metric,
add its row and run `python -m tests.meta.tables`.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing, suppress
from typing import NamedTuple

from miniqueue.broker import Broker
from miniqueue.broker.inspect.inspect import Figures
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import figures_of
from miniqueue.errors import MiniqueueError
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


class TopicMetrics:
    """Renders the metrics of the topics of one broker, including topics that only have waiting consumers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def render(self) -> bytes:
        """Return the current metrics; those of each topic are from the moment when it is rendered."""
        lines = [[_head(family)] for family in FAMILIES]
        group_lines, lag_lines = [[_head(family)] for family in GROUP_FAMILIES], [_head(PARTITION_FAMILY)]
        async with aclosing(self._broker.inspect.everything()) as topics:
            async for topic in topics:
                label = f'topic="{_escaped(topic.name.decode())}"'
                with suppress(MiniqueueError):  # a topic that cannot be read; another metric counts those
                    figures = await self._broker.inspect.figures(topic)
                    for family, family_lines in zip(FAMILIES, lines, strict=True):
                        family_lines.append("".join(_lines(family, label, figures)).encode())
                groups = topic.existing_groups if topic.has_named_groups or topic.partition_count > 1 else []
                for number, group in enumerate(groups, 1):
                    if number % GROUPS_IN_TURN == 0:
                        await asyncio.sleep(0)
                    if group.id is None:
                        continue  # it was deleted meanwhile
                    group_label = f'group="{_escaped(group.name.decode())}",{label}'
                    figures_of_group = figures_of(group)
                    shown = figures_of_group._asdict() | {"lag_max": max(figures_of_group.lags.values(), default=0)}
                    for family, family_lines in zip(GROUP_FAMILIES, group_lines, strict=True):
                        family_lines.append("".join(_lines(family, group_label, shown)).encode())
                lag_lines += _partition_lags(topic, label, MAX_PARTITION_LAGS + 1 - len(lag_lines))
        return b"".join([b"".join(family_lines) for family_lines in [*lines, *group_lines, lag_lines]])


def _head(family: Family) -> bytes:
    return f"# HELP miniqueue_{family.name} {family.help}\n# TYPE miniqueue_{family.name} {family.kind}\n".encode()


def _partition_lags(topic: Topic, label: str, max_count: int) -> list[bytes]:
    """Return the lags of the partitions of a topic; none if it has only one, or too many."""
    groups = topic.existing_groups
    if not 1 < len(topic.partitions) <= MAX_PARTITIONS_SHOWN or len(topic.partitions) * len(groups) > max_count:
        return []
    return [
        "".join(_lines(PARTITION_FAMILY, _label(group, cursor.partition, label), {"lag": cursor.depth})).encode()
        for group in groups
        for cursor in group.cursors
    ]


def _label(group: Group, partition: int, label: str) -> str:
    return f'group="{_escaped(group.name.decode())}",partition="{partition_word(partition)}",{label}'


def _lines(family: Family, label: str, figures: Figures) -> Iterator[str]:
    for own_label, value in family.samples(figures):
        yield f"miniqueue_{family.name}{{{own_label}{label}}} {value!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
