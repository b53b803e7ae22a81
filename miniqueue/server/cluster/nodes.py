"""The nodes of a broker: processes, each the owner of a range of slots, as a client sees them that is connected to one.

one process, or shards without ports of their own    one node with all slots, at the address of the client
shards with ports of their own                       a node for each shard: its host is the address of the client, or
                                                     the announced one; its port is the first one plus its number
"""

from collections.abc import Sequence
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


class Nodes(NamedTuple):
    """The nodes, and which of them this process is.

    Attributes:
      own: the number of this node.
      first_port: the port of node 0, which the ports of the others follow; 0: there is one node.
      slots: the slots of each node.
      announced_host: the host of all nodes; empty: the address to which the client is connected.
    """

    own: int = 0
    first_port: int = 0
    slots: Sequence[range] = (ALL_SLOTS,)
    announced_host: str = ""

    @property
    def mode(self) -> str:
        """The mode of the broker, as Redis calls it: clients of a `cluster` read which node has which slots."""
        return "cluster" if self.first_port else "standalone"

    def seen_at(self, local: tuple[str, int]) -> list[Node]:
        """Return the nodes for a client that is connected to a local address, a host and a port."""
        if not self.first_port:
            return [Node(*local)]
        host = self.announced_host or local[0]
        return [Node(host, self.first_port + number, slots) for number, slots in enumerate(self.slots)]


ONE_NODE: Final = Nodes()
