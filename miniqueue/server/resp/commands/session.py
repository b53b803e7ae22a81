"""What a RESP connection knows about its client: address, user, and what the client said about itself."""

from dataclasses import dataclass, field

from miniqueue.broker.runtime.accounts import MemoryAccount
from miniqueue.wire.resp_replies import RESP2


class Actor:
    """A client as one user, for traces, encoded only when it is stored; and the account that pays for what it does."""

    __slots__ = ("_client", "_encoded", "account")

    def __init__(
        self, address: str = "", number: int = 0, user: bytes = b"", account: MemoryAccount | None = None
    ) -> None:
        self._client = address, number, user
        self.account = account
        self._encoded = b""

    @property
    def user(self) -> str:
        """The name of the user; empty if the client has not authenticated."""
        return self._client[2].decode()

    def __bytes__(self) -> bytes:
        """Encode protocol, address, number and user."""
        if not self._encoded:
            address, number, user = self._client
            suffix = b" user " + user if user else b""
            self._encoded = b"resp %b client %d%b" % (address.encode(), number, suffix)
        return self._encoded


@dataclass(slots=True, eq=False)
class Session:
    """A client, as CLIENT LIST shows it.

    Attributes:
      local: the address of the broker to which the client is connected.
      user: the name that CLIENT LIST shows; `default` until the client authenticates.
      connected_at_ms: when the client connected, in milliseconds since 1970.
      received: topic, group, and member of its last RECEIVE; None if there was none, or one of several topics after it.
      knows_nodes: whether the client has been shown the slots of the nodes, and so goes where it is sent.
      actor: this client as that user; the connection makes it the current actor whenever it carries out commands.
    """

    id: int
    peer: tuple[str, int] | None = None
    local: tuple[str, int] = ("", 0)
    protocol: int = RESP2
    name: bytes = b""
    user: bytes = b"default"
    library: bytes = b""
    library_version: bytes = b""
    connected_at_ms: int = 0
    received: tuple[bytes, bytes, bytes] | None = None
    knows_nodes: bool = False
    actor: Actor = field(default_factory=Actor)

    @property
    def host(self) -> str:
        """The address of the client, without the port."""
        return self.peer[0] if self.peer else "?"

    @property
    def address(self) -> str:
        """The address of the client, as host:port."""
        host, port = (self.peer or ("?", 0))[:2]
        return f"{host}:{port}"

    def connect(
        self, peer: tuple[str, int] | None, account: MemoryAccount | None = None, connected_at_ms: int = 0
    ) -> None:
        """Set the address and the account of the client: the connection is made."""
        self.peer = peer
        self.connected_at_ms = connected_at_ms
        self.actor = Actor(self.address, self.id, account=account)

    def become(self, user: bytes) -> None:
        """Act as another user from now on; what was done before stays with the previous user."""
        self.user = user
        account = self.actor.account
        self.actor = Actor(self.address, self.id, user, account)
        if account is not None and user:
            account.become(user.decode())
        elif account is not None:
            account.forget(self.host)

    def forget(self) -> None:
        """Return to the state at the start of the connection, for RESET."""
        self.protocol = RESP2
        self.name = b""
        self.received = None
        self.knows_nodes = False
