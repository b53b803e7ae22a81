"""The metrics of the broker as a whole, for Prometheus: a row for each, read when a client scrapes them.

The metrics of topics are in `topic_metrics`, and those of RESP connections in `resp.refusals`. Nothing is counted here:
each row names where its value comes from. To add a metric, add its row and run `python -m tests.meta.tables`.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from miniqueue import __version__
from miniqueue.broker import Broker
from miniqueue.broker.model.limits import Limit
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.core.message.parts import whole_of
from miniqueue.server.asgi.refusals import Reason, Refusals
from miniqueue.server.monitor.followers import FOLLOWER_ROWS
from miniqueue.server.process.accepting import AcceptingLoop
from miniqueue.server.process.loop_lag import LoopLag
from miniqueue.server.process.metric_rows import MetricRow

BROKER_ROWS: tuple[MetricRow[Broker], ...] = (
    MetricRow("topics", "gauge", "Topics that exist.", lambda broker: broker.topic_count),
    MetricRow(
        "schedules",
        "gauge",
        "Schedules that are set.",
        lambda broker: broker.scheduler.count,
        note="See [schedules](#schedules).",
    ),
    MetricRow(
        "damaged_topics",
        "gauge",
        "Topics that cannot be read.",
        lambda broker: len({whole_of(name) for name in broker.faults()}),
    ),
    MetricRow(
        "accepts_messages",
        "gauge",
        "Whether messages are accepted: 1, or 0 while they are rejected.",
        lambda broker: float(broker.refusal is None),
    ),
    MetricRow(
        "limits_reached_total",
        "counter",
        "How often a limit was reached.",
        lambda broker: {limit.value: broker.limit_counts.counts.get(limit, 0) for limit in Limit},
        ("limit",),
        note="Since the start; see [limits](security.md#limits).",
    ),
    MetricRow(
        "memory_bytes",
        "gauge",
        "Memory that clients make the broker use.",
        lambda broker: {purpose.value: broker.memory.amounts().get(purpose, 0) for purpose in Purpose},
        ("purpose",),
        note="By [purpose](security.md#memory); `process_resident_memory_bytes` is the memory of the whole process.",
    ),
    MetricRow(
        "max_memory_bytes",
        "gauge",
        "The limit of the sum of miniqueue_memory_bytes.",
        lambda broker: broker.memory.max_bytes,
        note="`-max-memory`, or its default.",
    ),
    MetricRow(
        "disk_free_bytes",
        "gauge",
        "Free bytes on the disk of the store.",
        lambda broker: broker.free_bytes,
        note="As of the last check; not present with `-storage memory`.",
    ),
    MetricRow(
        "outbox_messages",
        "gauge",
        "Messages on their way to topics of other shards.",
        lambda broker: None if broker.outbox is None else len(broker.outbox),
        note="Only [with shards](shards.md#between-shards).",
    ),
    MetricRow(
        "outbox_oldest_seconds",
        "gauge",
        "How long the oldest of them has waited.",
        lambda broker: None if broker.outbox is None else broker.outbox.oldest_seconds,
        note="0 if there is none; it grows while a topic refuses messages, or its shard does not answer.",
    ),
    MetricRow(
        "build_info",
        "info",
        "Version of the running program.",
        lambda _: {__version__: 1},
        ("version",),
        note="Always 1.",
    ),
)
CERTIFICATE_ROWS: tuple[MetricRow[Callable[[], datetime]], ...] = (
    MetricRow(
        "certificate_expiration_timestamp_seconds",
        "gauge",
        "When the certificate of new TLS connections expires, in Unix time.",
        lambda expires_at: expires_at().timestamp(),
        note="See [renewed certificates](security.md#renewed-certificates).",
    ),
)
LOOP_ROWS: tuple[MetricRow[None], ...] = (
    MetricRow("tasks", "gauge", "Tasks of the event loop.", lambda _: _task_count(), note="Those that are not done."),
    MetricRow(
        "refused_connections_total",
        "counter",
        "Connections rejected for lack of file descriptors.",
        lambda _: _refused_count(),
        note="Since the start.",
    ),
)
LAG_ROWS: tuple[MetricRow[LoopLag], ...] = (
    MetricRow(
        "loop_lag_seconds",
        "gauge",
        "How late timers of the event loop fired in the last minute.",
        lambda lag: lag.quantiles_seconds(),
        ("quantile",),
        note="The quantile 1 is the maximum. Everything else waits as long; see [limits](security.md#limits).",
    ),
)
HTTP_REFUSAL_ROWS: tuple[MetricRow[Refusals], ...] = (
    MetricRow(
        "http_refusals_total",
        "counter",
        "Rejected HTTP requests, streams, and connections.",
        lambda refusals: {reason.value: refusals.counts.get(reason, 0) for reason in Reason},
        ("reason",),
        note="Since the start, by [reason](#http-limits).",
    ),
)
ROWS = (*BROKER_ROWS, *CERTIFICATE_ROWS, *LOOP_ROWS, *LAG_ROWS, *HTTP_REFUSAL_ROWS, *FOLLOWER_ROWS)


def _loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _task_count() -> int | None:
    loop = _loop()
    return None if loop is None else len(asyncio.all_tasks(loop))


def _refused_count() -> int | None:
    loop = _loop()
    return loop.refused_count if isinstance(loop, AcceptingLoop) else None
