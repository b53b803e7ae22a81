"""Connected clients, as lists of them show them."""

from typing import NamedTuple


class Reading(NamedTuple):
    """What a connection reads.

    Attributes:
      topic: the topic, with its `group`, and the `member` of the group, empty if there is none.
    """

    topic: bytes
    group: bytes
    member: bytes = b""


class ConnectedClient(NamedTuple):
    """A client that stays connected; None for what it does not have.

    Attributes:
      id: the id of the connection.
      protocol: the protocol that it speaks, such as `resp`.
      address: its host and port.
      connected_at_ms: when it connected, in milliseconds since 1970.
      name: the name that it gave itself.
      user: the user that it has authenticated as.
      library: the name of its client library, as it said.
      mode: what the connection does: `commands`, `transaction`, `waits`, `listens`, or `stream`.
      reading: what it reads with its stream, or read with its last request for messages of one topic.
      leased: number of messages that it holds, with its stream and by GET.
    """

    id: str
    protocol: str
    address: str
    connected_at_ms: int = 0
    name: str | None = None
    user: str | None = None
    library: str | None = None
    mode: str | None = None
    reading: Reading | None = None
    leased: int = 0
