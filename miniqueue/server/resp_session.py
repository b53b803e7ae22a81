"""What a RESP connection remembers about its client."""

from dataclasses import dataclass

from miniqueue.broker.acting import ACTING
from miniqueue.wire.resp_replies import RESP2


@dataclass(slots=True, eq=False)
class Session:
    """A client, as CLIENT LIST shows it; spelled shortly where it is noted what it does."""

    id: int
    peer: tuple[str, int] | None = None
    protocol: int = RESP2
    name: bytes = b""
    user: bytes = b"default"
    library: bytes = b""
    library_version: bytes = b""
    _spelled: tuple[bytes, bytes] | None = None  # for which user, and how

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
        ACTING.set(self)

    def __bytes__(self) -> bytes:
        """Spell who it is: protocol, address, number and user."""
        if self._spelled is None or self._spelled[0] is not self.user:
            user = b"" if self.user in (b"", b"default") else b" user " + self.user
            self._spelled = self.user, b"resp %b client %d%b" % (self.address.encode(), self.id, user)
        return self._spelled[1]

    def forget(self) -> None:
        """Be as at the start, for RESET."""
        self.protocol = RESP2
        self.name = b""
