"""What waits in the outbox of a shard, or of all: how many messages, since when, and why; for INFO and STATS.

    outbox_messages: 17        outbox_oldest_seconds: 3.5        outbox_reason: found: the topic is full …

A broker without shards has none of these fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from miniqueue.broker import Broker

OUTBOX_FIELDS: Final = ("outbox_messages", "outbox_oldest_seconds", "outbox_reason")


def outbox_fields(broker: Broker) -> dict[str, int | float | str]:
    """Return the fields; none without shards."""
    outbox = broker.outbox
    if outbox is None:
        return {}
    return dict(zip(OUTBOX_FIELDS, (len(outbox), round(outbox.oldest_seconds, 3), outbox.reason), strict=True))


def fields_of_all(shards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of all shards together: the sum, the longest time, and the reason where it is longest.

    Numbers can be texts, as in replies.
    """
    count, oldest, reason = OUTBOX_FIELDS
    by_age = sorted(shards, key=lambda each: -float(each[oldest]))
    return {
        count: sum(int(each[count]) for each in shards),
        oldest: float(by_age[0][oldest]),
        reason: next(filter(None, (each[reason] for each in by_age)), ""),
    }
