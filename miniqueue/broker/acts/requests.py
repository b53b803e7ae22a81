"""The acts on many messages that clients ask for: by a filter, as a purge, or as a redrive."""

from collections.abc import Mapping

from miniqueue.broker.acts.orders import MessageAct, Order, parse_order
from miniqueue.broker.acts.task import Task, selection_of
from miniqueue.broker.cleanup.purge import check_purged
from miniqueue.broker.inspect.peeked import State, parse_state
from miniqueue.core.options.amounts import parse_limit, parse_rate
from miniqueue.core.options.filter import Filter, parse_filter


def parse_task(
    act: MessageAct, topic: bytes, options: Mapping[str, bytes], now_ms: int, header: tuple[bytes, bytes] | None = None
) -> Task:
    """Return the act on many messages that a client asks for; other names in `options` are ignored.

    `header` is that of `parse_filter`. Raises InvalidOptionError, InvalidDelayError, InvalidAttributesError, or
    RequestError.
    """
    state = parse_state(options["state"]) if "state" in options else None
    return Task(
        topic,
        parse_order(act, options, now_ms),
        selection_of(act, state, parse_filter(options, header), now_ms),
        options.get("group"),
        parse_limit(options["limit"]) if "limit" in options else None,
        parse_rate(options["rate"]) if "rate" in options else None,
    )


def purge_task(
    topic: bytes, state: State | None, older_seconds: float | None, group: bytes | None, now_ms: int
) -> Task:
    """Return the task that removes what a purge removes; raises InvalidOptionError."""
    check_purged(state)
    chosen = Filter(older_seconds=older_seconds)
    return Task(topic, Order(MessageAct.DELETE), selection_of(MessageAct.DELETE, state, chosen, now_ms), group)


def redrive_task(topic: bytes, limit: int | None, per_second: float | None, target: bytes | None, now_ms: int) -> Task:
    """Return the task that moves what a redrive moves."""
    selection = selection_of(MessageAct.REDRIVE, None, Filter(), now_ms)
    return Task(topic, Order(MessageAct.REDRIVE, target=target), selection, None, limit, per_second)
