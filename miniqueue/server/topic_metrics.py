"""The metrics of each topic in Prometheus' text format, made some topics at a time.

There may be very many topics. Their metrics are spelled here, and not by the client library, which would keep the event
loop for a second where there are 10,000: between some topics and the next, others have their turn.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from miniqueue.broker import Broker
from miniqueue.broker.group import Group
from miniqueue.broker.group_figures import figures_of
from miniqueue.broker.looking import Figures
from miniqueue.broker.topic import Topic
from miniqueue.errors import MiniqueueError
from miniqueue.server.groups_shown import partition_word

STATES = ("ready", "leased", "delayed")
KINDS = ("publish", "deliver", "ack", "return")
QUANTILES = {"0.5": "latency_p50_seconds", "0.99": "latency_p99_seconds"}


class _Family(NamedTuple):
    """A metric; `rows` are the further labels of each of its values, with the figure that is the value."""

    name: str
    kind: str
    help: str
    rows: tuple[tuple[str, str], ...]


def _of(figure: str) -> tuple[tuple[str, str], ...]:
    return (("", figure),)


FAMILIES = (
    _Family("messages_published_total", "counter", "Messages published.", _of("published")),
    _Family("messages_acknowledged_total", "counter", "Messages acknowledged.", _of("acknowledged")),
    _Family("messages_dropped_total", "counter", "Messages dropped.", _of("dropped")),
    _Family("messages_moved_total", "counter", "Messages moved elsewhere.", _of("moved")),
    _Family("messages_expired_total", "counter", "Messages that expired.", _of("expired")),
    _Family("duplicates_total", "counter", "Publishes that were duplicates.", _of("duplicates")),
    _Family("dedup_ids", "gauge", "Dedup ids that are remembered.", _of("dedup_ids")),
    _Family("waiting_requests", "gauge", "Requests that wait for a reply.", _of("requests")),
    _Family("messages_missed_total", "counter", "Messages that groups were too late for.", _of("missed")),
    _Family("messages", "gauge", "Messages in a topic.", tuple((f'state="{state}",', state) for state in STATES)),
    _Family("topic_bytes", "gauge", "Bytes of a topic's messages.", _of("size_bytes")),
    _Family("retained_messages", "gauge", "Messages in the logs of a topic that retains.", _of("retained")),
    _Family("retained_bytes", "gauge", "Bytes of these messages.", _of("retained_bytes")),
    _Family("consumers", "gauge", "Consumers of a topic.", _of("consumers")),
    _Family("leases", "gauge", "Leases of a topic's messages.", _of("leases")),
    _Family("oldest_message_seconds", "gauge", "Age of the oldest message.", _of("oldest_seconds")),
    _Family(
        "messages_per_second",
        "gauge",
        "Messages a second over the last 10 seconds.",
        tuple((f'kind="{kind}",', f"{kind}_rate_10s") for kind in KINDS),
    ),
    _Family(
        "delivery_latency_seconds",
        "gauge",
        "Time from commit to hand-out over the last minute.",
        tuple((f'quantile="{quantile}",', figure) for quantile, figure in QUANTILES.items()),
    ),
    _Family(
        "topic_paused",
        "gauge",
        "Whether a topic is paused.",
        tuple((f'side="{side}",', f"paused_{side}") for side in ("in", "out")),
    ),
)
#: Of each group, in topics that others than the default group read, or that have several partitions.
GROUP_FAMILIES = (
    _Family("group_lag", "gauge", "Messages that a group has not acknowledged.", _of("lag")),
    _Family("group_lag_max", "gauge", "The same of the partition where that is most.", _of("lag_max")),
    _Family("group_leased", "gauge", "Messages that a group's consumers hold.", _of("leased")),
    _Family("group_acknowledged_total", "counter", "Messages that a group has acknowledged.", _of("acknowledged")),
    _Family("group_consumers", "gauge", "Consumers of a group.", _of("consumers")),
)
#: Of each partition, and lane, in groups of topics that have several, but not very many.
PARTITION_FAMILY = _Family("group_partition_lag", "gauge", "Messages of a partition not acknowledged.", _of("lag"))
MAX_PARTITIONS_SHOWN = 64
#: So many of these at a time; each costs some 100 bytes of what is scraped.
MAX_PARTITION_LAGS = 10_000


class TopicMetrics:
    """Spells the metrics of the topics of one broker; those of topics that are waited for, too.

    miniqueue_messages_published_total{topic}       messages
    miniqueue_messages_acknowledged_total{topic}    messages
    miniqueue_messages_dropped_total{topic}         messages, to make room in a topic that was full, or by a purge
    miniqueue_messages_moved_total{topic}           messages, to another topic as dead letters, or back
    miniqueue_messages_expired_total{topic}         messages since the start; each was dropped or moved
    miniqueue_duplicates_total{topic}               publishes that were told an earlier id, since the start
    miniqueue_dedup_ids{topic}                      dedup ids that are remembered
    miniqueue_waiting_requests{topic}               requests that wait for a reply
    miniqueue_messages_missed_total{topic}          messages, that groups were too late for
    miniqueue_retained_messages{topic}              messages in the logs of a topic that retains
    miniqueue_retained_bytes{topic}                 bytes of these messages
    miniqueue_messages{topic,state}                 messages; state: ready, leased or delayed
    miniqueue_topic_bytes{topic}                    bytes of their payloads
    miniqueue_consumers{topic}                      consumers, waiting or with a message
    miniqueue_leases{topic}                         leases
    miniqueue_oldest_message_seconds{topic}         seconds; none where there is no message
    miniqueue_messages_per_second{topic,kind}       messages a second; kind: publish, deliver, ack or return
    miniqueue_delivery_latency_seconds{topic,quantile}  seconds; none where nothing was handed out
    miniqueue_topic_paused{topic,side}              1, or 0; side: in or out
    miniqueue_group_lag{topic,group}                messages; these where there are named groups, or partitions
    miniqueue_group_lag_max{topic,group}            messages, of the partition where they are most
    miniqueue_group_leased{topic,group}             messages
    miniqueue_group_acknowledged_total{topic,group} messages, of the group's position as it is now
    miniqueue_group_consumers{topic,group}          consumers
    miniqueue_group_partition_lag{topic,group,partition}  messages; where there are 2 to 64 partitions, 10,000 values
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def render(self) -> bytes:
        """Return the metrics as they are now, each topic as of its turn."""
        lines = [[_head(family)] for family in FAMILIES]
        group_lines, lag_lines = [[_head(family)] for family in GROUP_FAMILIES], [_head(PARTITION_FAMILY)]
        async for topic in self._broker.looker.everything():
            label = f'topic="{_escaped(topic.name.decode())}"'
            with suppress(MiniqueueError):  # it cannot be read; other metrics say so
                figures = await self._broker.looker.figures(topic)
                for family, of_family in zip(FAMILIES, lines, strict=True):
                    of_family.append("".join(_lines(family, label, figures)).encode())
            for group in topic.existing_groups if topic.has_named_groups or topic.partition_count > 1 else ():
                group_label = f'group="{_escaped(group.name.decode())}",{label}'
                figures_of_group = figures_of(group)
                shown = figures_of_group._asdict() | {"lag_max": max(figures_of_group.lags.values(), default=0)}
                for family, of_family in zip(GROUP_FAMILIES, group_lines, strict=True):
                    of_family.append("".join(_lines(family, group_label, shown)).encode())
            lag_lines += _partition_lags(topic, label, MAX_PARTITION_LAGS + 1 - len(lag_lines))
        return b"".join([b"".join(of_family) for of_family in [*lines, *group_lines, lag_lines]])


def _head(family: _Family) -> bytes:
    return f"# HELP miniqueue_{family.name} {family.help}\n# TYPE miniqueue_{family.name} {family.kind}\n".encode()


def _partition_lags(topic: Topic, label: str, max_count: int) -> list[bytes]:
    """Return the lags of the partitions of a topic, or none where there are too many, or one."""
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


def _lines(family: _Family, label: str, figures: Figures) -> Iterator[str]:
    for further, figure in family.rows:
        value = figures[figure]
        if value is not None:
            yield f"miniqueue_{family.name}{{{further}{label}}} {float(value)!r}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
