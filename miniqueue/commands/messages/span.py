"""A span of what a topic retains, read by a group of its own: from a time to a time, acknowledged messages included.

    lane 0       ───────┤ from ─────────────── to ├────▶     the end of each lane is its first message at or after
    lane 0.high  ──┤ from ─────────────────── to ├─────▶     `to`; it is known before the first message is read

The group begins at `from`; it is deleted at the end, or ends by itself after an hour without a reader.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from miniqueue.commands.shell.connecting import BrokerClient
from miniqueue.errors import ClientError
from miniqueue_client import Message

#: How long a program may take for a message, while nothing is received for the group.
_IDLE_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Span:
    """A span that a group reads.

    Attributes:
      client: a client of the broker.
      topic: the topic.
      group: the name of the group.
      ends: the offset after the last message of the span, by lane.
    """

    client: BrokerClient
    topic: str
    group: str
    ends: Mapping[str, int]

    def contains(self, message: Message) -> bool:
        """Whether a message is in the span."""
        lane, offset = lane_and_offset(message.id)
        return offset < self.ends.get(lane, 0)

    def is_read(self) -> bool:
        """Whether the group has read all of the span."""
        [group] = [group for group in self.client.groups(self.topic) if group.name == self.group]
        positions = dict(map(lane_and_offset, group.position))
        return all(positions.get(lane, end) >= end for lane, end in self.ends.items())


@contextmanager
def span_of(client: BrokerClient, topic: str, start: datetime, end: datetime | None) -> Iterator[Span]:
    """Yield a span, whose group exists while the block runs; raises ClientError, also if there is no such topic.

    Args:
      client: a client of the broker.
      topic: the topic.
      start: the time of its first message.
      end: the time after its last message; None: now.
    """
    until = datetime.now(UTC) if end is None else end
    lanes = [bounds.partition for bounds in client.partitions(topic)]
    ends = {lane: client.read_from(topic, until, lane, count=0).next for lane in lanes}
    group = f"sub-{uuid4().hex}"
    client.create_group(topic, group, start=start, ephemeral=True, idle_seconds=_IDLE_SECONDS)
    try:
        yield Span(client, topic, group, ends)
    finally:
        with suppress(ClientError):  # then it ends by itself
            client.delete_group(topic, group)


def lane_and_offset(message_id: str) -> tuple[str, int]:
    """Return the two parts of an id."""
    lane, _, offset = message_id.rpartition("-")
    return lane, int(offset)
