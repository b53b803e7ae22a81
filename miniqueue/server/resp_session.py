"""What a RESP connection remembers about its client."""

from dataclasses import dataclass

from miniqueue.broker.acting import ACTING
from miniqueue.wire.resp_replies import RESP2


class Actor:
    """Who does something: a client as one user, spelled only when that is stored."""

    __slots__ = ("_client", "_spelled")

    def __init__(self, address: str, number: int, user: bytes) -> None:
        self._client = address, number, user
        self._spelled = b""

    def __bytes__(self) -> bytes:
        """Spell it: protocol, address, number and user."""
        if not self._spelled:
            address, number, user = self._client
            suffix = b" user " + user if user else b""
            self._spelled = b"resp %b client %d%b" % (address.encode(), number, suffix)
        return self._spelled


@dataclass(slots=True, eq=False)
class Session:
    """A client, as CLIENT LIST shows it."""

    id: int
    peer: tuple[str, int] | None = None
    protocol: int = RESP2
    name: bytes = b""
    user: bytes = b"default"
    library: bytes = b""
    library_version: bytes = b""
    _actor: Actor | None = None
    _signed_in: bytes = b""  # also as a user who is called `default`

    @property
    def host(self) -> str:
        """Where the client is, without the port."""
        return self.peer[0] if self.peer else "?"

    @property
    def address(self) -> str:
        """Where the client is, as host:port."""
        host, port = (self.peer or ("?", 0))[:2]
        return f"{host}:{port}"

    def describe(self, topic: bytes | None) -> bytes:
        """Return the line of CLIENT LIST."""
        return b"id=%d addr=%b name=%b user=%b db=0 resp=%d sub=%d lib-name=%b lib-ver=%b topic=%b" % (
            self.id,
            self.address.encode(),
            self.name,
            self.user,
            self.protocol,
            topic is not None,
            self.library,
            self.library_version,
            topic or b"",
        )

    def act(self) -> None:
        """Be who does what is done from now on, in this turn of the loop."""
        if self._actor is None:
            self._actor = Actor(self.address, self.id, self._signed_in)
        ACTING.set(self._actor)

    def become(self, user: bytes) -> None:
        """Act as another user from now on; what was done before is still that of the one before."""
        self.user = self._signed_in = user
        self._actor = None

    def forget(self) -> None:
        """Be as at the start, for RESET."""
        self.protocol = RESP2
        self.name = b""
