"""Groups of a topic, as GROUP tells of them: values, and nothing that can be done with them."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Group:
    """An independent reader of a topic.

    Attributes:
      name: of the group.
      lag: messages that it has not acknowledged.
      ready: of these, those that could be handed out now.
      leased: those that consumers hold.
      delayed: those that wait for their time.
      acknowledged: since it was made, as the next three.
      dropped: for want of room, by a purge, or because they had expired.
      moved: to dead letters.
      missed: because they were given back before it came to them.
      consumers: of the group.
      waiting: consumers who wait for messages.
      position: the id of the first message of the log that it has not settled, of each partition.
    """

    name: str
    lag: int = 0
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    acknowledged: int = 0
    dropped: int = 0
    moved: int = 0
    missed: int = 0
    consumers: int = 0
    waiting: int = 0
    position: tuple[str, ...] = ()


class Seek(NamedTuple):
    """What it means for a group to go on from elsewhere.

    Attributes:
      before: how many messages it had to get.
      after: how many it has to get now, or would have.
    """

    before: int
    after: int
