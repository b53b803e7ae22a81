"""Transfers: messages on their way to a topic of another shard, and which of them have arrived there.

    source shard                                          target shard
    outbox: 17 18 19 ─ parcel: 17, 19; 18 is held ──────▶ received up to 19, except 18
            18       ◀ 17 and 19 are durable ────────────

A source numbers its transfers, and a number is never used again. It may send them again, and leave out those that their
topic has refused, so a parcel says which numbers before its last are held back.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from miniqueue.core.cursor.recording import Kind

#: The total size of the transfers in a parcel, in bytes, after which no more are added; and their number.
MAX_PARCEL_BYTES = 1 << 20
MAX_PARCEL_COUNT = 256
#: Why messages move, by the numbers that are stored.
KINDS: Final = {kind.value: kind for kind in (Kind.DEAD_LETTERED, Kind.REDRIVEN, Kind.BACKED)}


class Transfer(NamedTuple):
    """A message that has left its topic, and is to be added to a topic of another shard.

    Attributes:
      topic: the topic to add it to.
      kind: why it moves: DEAD_LETTERED, REDRIVEN, or BACKED if it goes back to the dead-letter topic, because its group
        does not exist.
      is_home: whether a dead letter that is redriven goes to the topic it came from, so is for one group only.
      owner: the owner of the topic if it is created for the message; empty for none.
      created_at_ms: when it left its topic, in ms since 1970.
      lane: the number of its lane in partition 0, which determines the priority.
      position: the topic and the partition that it has left, as traces store them.
      seq: its sequence number there.
      payload: the payload.
      attributes: the encoded attributes; those of a dead letter that is redriven still have its origin.
    """

    topic: bytes
    kind: Kind
    is_home: bool
    owner: str
    created_at_ms: int
    lane: int
    position: bytes
    seq: int
    payload: bytes
    attributes: bytes


class Parcel(NamedTuple):
    """Transfers that are sent at once.

    Attributes:
      held: numbers before the last of `transfers` that the source keeps, and does not send now; ascending.
      transfers: the number of each, ascending, and the transfer as it is stored.
    """

    held: list[int]
    transfers: list[tuple[int, bytes]]


class Received(NamedTuple):
    """Which transfers of a source have arrived: all up to `last_number`, except those that are `missing`."""

    last_number: int = 0
    missing: frozenset[int] = frozenset()

    def has(self, number: int) -> bool:
        """Return whether a transfer has arrived."""
        return number <= self.last_number and number not in self.missing

    def after(self, accepted: Collection[int], others: Collection[int]) -> "Received":
        """Return what has arrived once transfers of a parcel were accepted.

        `others` are the other numbers that the source still had when it sent the parcel, up to the last of the parcel.
        """
        if not accepted:
            return self
        last_number = max(self.last_number, *accepted)
        new = {number for number in others if self.last_number < number < last_number}
        # What the source no longer has up to the last number of the parcel will never come.
        end = max(*accepted, *others) if others else max(accepted)
        still_missing = {number for number in self.missing if number > end or number in others}
        return Received(last_number, frozenset((new | still_missing).difference(accepted)))
