"""How a client publishes very many messages: a few words have all of them, and no object is made of each.

    sizes     3 0 0 0  0 0 0 0  5 0 0 0          of each message 4 bytes, little-endian
    payloads  onethree                           one behind the other

`PUBPACKED` of docs/protocol.md. For who has columns of messages, as Arrow has; others have `message_calls`.
"""

from typing import NamedTuple

from miniqueue.client import answers
from miniqueue.client.call import Call


class Packed(NamedTuple):
    """Messages as the command has them.

    Attributes:
      sizes: of each message, 4 bytes, little-endian.
      payloads: one behind the other.
      keys: sizes and keys likewise, of size 0 where there is none; empty when no message has any.
    """

    sizes: bytes
    payloads: bytes
    keys: tuple[bytes, bytes] | tuple[()] = ()

    @property
    def words(self) -> tuple[bytes, ...]:
        """All of it, as the command has it."""
        return (self.sizes, self.payloads, *self.keys)


def publish_packed(topic: str, packed: Packed, *, dedup_id: str | None = None) -> Call[None]:
    """Publish up to 9,999 messages in one commit, all or none; they are durable on return.

    Their ids are not told: who makes no objects of so many messages has no use for one of each id.

    Args:
      topic: made if there is none.
      packed: the messages, and perhaps their keys.
      dedup_id: of all of them together; as with `message_calls.publish`.
    """

    def once(dedup_id: str) -> Call[None]:
        return Call(("PUBPACKED", topic, dedup_id, *packed.words), answers.nothing)

    return once("")._replace(is_repeatable=False, with_id=once) if dedup_id is None else once(dedup_id)
