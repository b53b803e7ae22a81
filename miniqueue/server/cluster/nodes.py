"""The nodes of a broker: processes, each the owner of a range of slots. One process owns all of them."""

from hashlib import sha1
from typing import Final, NamedTuple

from miniqueue.core.message.slots import SLOT_COUNT

ALL_SLOTS: Final = range(SLOT_COUNT)


class Node(NamedTuple):
    """A process to which clients connect.

    Attributes:
      host: the address that clients use.
      port: the port for RESP.
      slots: the slots that it owns.
    """

    host: str
    port: int
    slots: range = ALL_SLOTS

    @property
    def id(self) -> str:
        """The id that Redis clients expect of a node, 40 hexadecimal digits; derived from its address."""
        return sha1(f"{self.host}:{self.port}".encode(), usedforsecurity=False).hexdigest()
