"""Connected clients, as lists of them show them."""

from typing import NamedTuple


class ConnectedClient(NamedTuple):
    """A client that stays connected; None for what it does not have.

    Attributes:
      id: the id of the connection.
      protocol: the protocol that it speaks, such as `resp`.
      address: its host and port.
      name: the name that it gave itself.
      user: the user that it has authenticated as.
      library: the name of its client library, as it said.
      mode: what the connection does: `commands`, `waits`, or `stream`.
      topic: the topic that it reads, with `group` and `member`.
      leased: number of messages that the connection holds.
    """

    id: str
    protocol: str
    address: str
    name: str | None = None
    user: str | None = None
    library: str | None = None
    mode: str | None = None
    topic: bytes | None = None
    group: bytes | None = None
    member: bytes | None = None
    leased: int | None = None
