"""`miniqueue bench`: measures a broker: publish, consume, and the time to deliver a message."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from miniqueue.commands.measuring.samples import Samples
from miniqueue.commands.measuring.steps import MAX_DELIVERED, Bench, Load
from miniqueue.commands.shell import flags
from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.progress import progress
from miniqueue.commands.shell.texts import shown_bytes
from miniqueue.commands.shell.values import COUNT, POSITIVE_DURATION, whole_number
from miniqueue_client import Client

_TOPIC: Final = "miniqueue-bench-"


def _shown_number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _shown_ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _shown_bytes(value: float | None) -> str:
    return "–" if value is None else f"{shown_bytes(value)}/s"


_COLUMNS: Final = (
    Column("step", "step"),
    Column("messages", "messages", _shown_number, is_number=True),
    Column("seconds", "seconds", _shown_ms, is_number=True),
    Column("messages/s", "messages_per_second", _shown_number, is_number=True),
    Column("payload", "bytes_per_second", _shown_bytes, is_number=True),
    Column("p50 ms", "p50_ms", _shown_ms, is_number=True),
    Column("p95 ms", "p95_ms", _shown_ms, is_number=True),
    Column("p99 ms", "p99_ms", _shown_ms, is_number=True),
    Column("max ms", "max_ms", _shown_ms, is_number=True),
)


@flags.command(epilog="Example: miniqueue bench --connections 4 --pipeline 100 --size 1000")
@flags.flag("--count", type=COUNT, default=10_000, show_default=True, help="Messages of each step.")
@flags.flag("--seconds", type=POSITIVE_DURATION, default=10.0, help="Maximum time of each step.  [default: 10s]")
@flags.flag("--size", type=whole_number(0, 1 << 30), default=100, show_default=True, help="Bytes of a payload.")
@flags.flag("--connections", type=whole_number(1, 100), default=1, show_default=True, help="Number of connections.")
@flags.flag("--pipeline", type=whole_number(1, 1000), default=1, show_default=True, help="Messages of a round trip.")
@with_output
@connected
def command(client: BrokerClient, output: Output, **choices: Any) -> None:  # noqa: ANN401 - values of flags
    """Measure how fast the broker is for a client on this machine.

    Publishes messages, consumes them, then publishes some, at most 1,000, one at a time to a consumer that waits. The
    messages are in a topic of their own, which is deleted at the end, also by Ctrl-C. A client in Python is slower than
    the broker: use more connections, a pipeline, and more than one process to find its limits.
    """
    load = Load(
        _TOPIC + secrets.token_hex(4),
        choices["count"],
        choices["seconds"],
        b"x" * choices["size"],
        choices["connections"],
        choices["pipeline"],
    )
    with Client.of(replace(client.address, retries=0, deduplicates=False)) as plain, _topic(client, load.topic):
        output.rows(_COLUMNS, [samples.row() for samples in _measured(plain, load)])


@contextmanager
def _topic(client: BrokerClient, topic: str) -> Iterator[None]:
    client.create_topic(topic)
    try:
        yield
    finally:
        client.delete_topic(topic)


def _measured(client: Client, load: Load) -> list[Samples]:
    count = load.message_count
    with progress("measuring", 2 * count + min(count, MAX_DELIVERED)) as advance:
        bench = Bench(client, load, time.perf_counter, advance)
        published = bench.publish()
        consumed = bench.consume(published.message_count)
        client.purge(load.topic)  # what was not consumed in time would be delivered first
        return [published, consumed, bench.deliver()]
