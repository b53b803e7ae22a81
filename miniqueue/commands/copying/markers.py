"""The marker of a copy: where it continues in each partition, as a message of the target.

    topic    miniqueue.copies
    key      sha256 of the address of the source, the topic, and the name of the copy; also the unique key
    due      in the year 9999: a delayed message is never delivered, and replacing it leaves no hole in a log
    payload  {"source":"redis://a:6379","topic":"orders","copy":"copy","next":{"0":100,"0.high":3}}

Each transaction of a copy replaces the marker. Its dedup id is that of the batch: a transaction that arrives a second
time, even from a process that was killed, is a duplicate as a whole.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from miniqueue.errors import ServerError
from miniqueue_client.calls import chosen
from miniqueue_client.calls.call import Call
from miniqueue_client.calls.values import Found, Message

#: The topic of the target that contains the markers of all copies.
MARKER_TOPIC: Final = "miniqueue.copies"
NEVER_DUE: Final = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CopyName:
    """What is copied from where; two copies with one name continue each other.

    Attributes:
      source: the address of the source, without a secret.
      topic: the topic.
      name: the name of the copy.
    """

    source: str
    topic: str
    name: str

    @property
    def key(self) -> str:
        """The key of the marker."""
        return hashlib.sha256(json.dumps([self.source, self.topic, self.name]).encode()).hexdigest()


def payload_of(name: CopyName, positions: Mapping[str, int]) -> str:
    """Return the payload of a marker.

    Args:
      name: the name of the copy.
      positions: the offset of the next message, by partition.
    """
    members = {"source": name.source, "topic": name.topic, "copy": name.name, "next": dict(positions)}
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


def search(name: CopyName, after: str | None) -> Call[Found]:
    """Return the call that searches for a marker, from a position on."""
    selection = chosen.Selection(state="delayed", key=name.key)
    return chosen.search(MARKER_TOPIC, selection, count=1, scan=100_000, after=after)


def positions_of(marker: Message) -> dict[str, int]:
    """Return the positions in a marker; raises ServerError."""
    try:
        return {str(partition): int(offset) for partition, offset in json.loads(marker.payload)["next"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ServerError(f"message {marker.id} of {MARKER_TOPIC} is no marker of a copy") from exc
