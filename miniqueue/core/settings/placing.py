"""Which shard has a topic: shards are numbered, and each has a contiguous range of slots.

{eu}.orders ─▶ the slot of `eu` ─▶ the shard with that slot
orders.dlq  ─▶ where `orders` is, so that a message becomes a dead letter, and returns, in one commit
part 3 of a spread topic ─▶ the third shard after that of the topic; so its parts are in different shards, if there are
as many
"""

from typing import Final, NamedTuple

from miniqueue.core.message.parts import parse_part
from miniqueue.core.message.slots import SLOT_COUNT, slot_of
from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX

MAX_SHARDS: Final = 64


def origin_of(topic: bytes) -> bytes:
    """Return the name of the topic that dead letters, and theirs, come from; of any other topic its own."""
    while topic.endswith(DEAD_LETTER_SUFFIX):
        topic = topic[: -len(DEAD_LETTER_SUFFIX)]
    return topic


class Placing(NamedTuple):
    """The place of one shard among all.

    Attributes:
      number: the number of this shard, from 0 on.
      shard_count: how many shards there are.
    """

    number: int = 0
    shard_count: int = 1

    def shard_of(self, topic: bytes) -> int:
        """Return the number of the shard with a topic."""
        part = parse_part(topic)
        if part is not None:
            return self.shard_of_part(*part)
        return slot_of(origin_of(topic)) * self.shard_count // SLOT_COUNT

    def shard_of_part(self, topic: bytes, number: int) -> int:
        """Return the number of the shard with a part of a spread topic."""
        return (self.shard_of(topic) + number) % self.shard_count

    def has(self, topic: bytes) -> bool:
        """Return whether this shard has a topic."""
        return self.shard_count == 1 or self.shard_of(topic) == self.number

    def next_number(self, number: int) -> int:
        """Return the first number from `number` on that no other shard gives: `owner_of_number` returns this one."""
        return number + (self.number - number) % self.shard_count

    def owner_of_number(self, number: int) -> int:
        """Return the shard that has given a number, such as the id of a task."""
        return number % self.shard_count

    def slots_of(self, number: int) -> range:
        """Return the slots of a shard."""
        return range(-(-number * SLOT_COUNT // self.shard_count), -(-(number + 1) * SLOT_COUNT // self.shard_count))


WHOLE: Final = Placing()
