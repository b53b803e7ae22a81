"""Reads the log of a topic without a group: pages of each lane, merged by time; then what is new, as it comes.

    lane 0       a   c  │ e         a lane is a partition, or the messages of a priority in it
    lane 0.high    b    │   f       merged: a b c, then, as polls find them, e f

At most a page of each lane is in memory. Nothing is leased, and no group is moved.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from miniqueue.commands.shell.connecting import BrokerClient
from miniqueue_client import Message
from miniqueue_client.calls.values import offset_of

_PAGE_MESSAGES: Final = 500
_PAGE_BYTES: Final = 1 << 20


@dataclass(slots=True)
class Lane:
    """Where reading a lane is.

    Attributes:
      name: the name, such as `0.high`.
      next: the offset that is read next.
      end: the offset at which reading ends.
    """

    name: str
    next: int
    end: int


def lanes_from(client: BrokerClient, topic: str, start: datetime) -> list[Lane]:
    """Return the lanes of a topic from a time to their ends; raises ClientError."""
    bounds = client.partitions(topic)
    return [
        Lane(each.partition, client.read_from(topic, start, each.partition, count=0).next, each.end) for each in bounds
    ]


def lanes_of_last(client: BrokerClient, topic: str, count: int) -> list[Lane]:
    """Return the lanes of a topic, each from its last `count` messages on; raises ClientError."""
    return [Lane(each.partition, max(each.earliest, each.end - count), each.end) for each in client.partitions(topic)]


def end_at(client: BrokerClient, topic: str, lanes: Sequence[Lane], end: datetime) -> None:
    """Make reading end before the first message of each lane at or after a time."""
    for lane in lanes:
        lane.end = min(lane.end, client.read_from(topic, end, lane.name, count=0).next)


def messages_in(
    client: BrokerClient, topic: str, lanes: Sequence[Lane], on_missed: Callable[[int], None]
) -> Iterator[Message]:
    """Yield the messages of lanes up to their ends, by time; call `on_missed` with numbers of deleted messages."""
    pages = [_messages_of(client, topic, lane, on_missed) for lane in lanes]
    yield from heapq.merge(*pages, key=lambda message: message.published_at_ms)


def grow(client: BrokerClient, topic: str, lanes: list[Lane]) -> None:
    """Make reading end where the lanes end now; add lanes that are new, from their beginnings."""
    known = {lane.name: lane for lane in lanes}
    for bounds in client.partitions(topic):
        if bounds.partition in known:
            known[bounds.partition].end = bounds.end
        else:
            lanes.append(Lane(bounds.partition, bounds.earliest, bounds.end))


def _messages_of(client: BrokerClient, topic: str, lane: Lane, on_missed: Callable[[int], None]) -> Iterator[Message]:
    """Yield the messages of a lane; it advances after each, so that none is skipped if reading another lane fails."""
    while lane.next < lane.end:
        count = min(_PAGE_MESSAGES, lane.end - lane.next)
        page = client.read(topic, lane.name, lane.next, count=count, max_bytes=_PAGE_BYTES)
        if page.missed:
            on_missed(page.missed)
            lane.next += page.missed
        for message in page.messages:
            if (offset := offset_of(message)) >= lane.end:
                return
            yield message
            lane.next = offset + 1
        lane.next = page.next if page.messages else lane.end
