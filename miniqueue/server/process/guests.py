"""Closing connections of strangers when exposed monitoring is full, so that probes and scrapes can still connect.

    full ─ an unauthenticated connection? ─ yes ─▶ it is closed, and the new one is accepted
                                          └ no ──▶ the new one is rejected

The connection to close is chosen from the network that has most of them: first one without a request in progress, then
the one whose last request is the oldest. A probe is the newest connection, and one of few from its network. If the
limit is that of one address, the closed connection is from that address, too.

Knows connections and requests; knows no sockets.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miniqueue.access.throttle import network_of
from miniqueue.access.users import User
from miniqueue.broker.model.limits import Limit

#: Address and port of a client.
Peer: TypeAlias = tuple[str, int]


class Connection(Protocol):
    """A connection that can be closed."""

    def cut_off(self) -> None:
        """Close the connection, and stop counting it."""


@dataclass(slots=True)
class _Guest:
    network: str
    connection: Connection
    request_count: int = 0
    """Number of requests in progress."""
    user: User | None = None
    """The user of the last request that was permitted."""


class Guests:
    """The connections to exposed monitoring.

    Args:
      is_current: returns whether a user still exists, unchanged.
    """

    def __init__(self, is_current: Callable[[User], bool]) -> None:
        self._is_current = is_current
        #: In the order of their last requests, the oldest first.
        self._guests: dict[Peer, _Guest] = {}

    def opened(self, peer: Peer, connection: Connection) -> None:
        """Add a connection."""
        self._guests[peer] = _Guest(network_of(peer[0]), connection)

    def closed(self, peer: Peer) -> None:
        """Remove a connection."""
        self._guests.pop(peer, None)

    def make_room(self, address: str, limit: Limit) -> Peer | None:
        """Close an unauthenticated connection, so that one from `address` does not exceed `limit`.

        Returns the client of the closed connection; None if there is none to close.
        """
        from_network = network_of(address) if limit is Limit.CONNECTIONS_PER_ADDRESS else None
        counts = Counter(guest.network for guest in self._guests.values())
        strangers = (
            peer
            for peer, guest in self._guests.items()
            if from_network in (None, guest.network) and not self._is_authenticated(guest)
        )

        def rank(peer: Peer) -> tuple[int, bool]:
            guest = self._guests[peer]
            return -counts[guest.network], guest.request_count > 0

        peer = min(strangers, key=rank, default=None)  # the first of equal rank, which is the oldest
        if peer is not None:
            self._guests.pop(peer).connection.cut_off()
        return peer

    def _is_authenticated(self, guest: _Guest) -> bool:
        return guest.user is not None and self._is_current(guest.user)

    def recorded(self, app: ASGIApp) -> ASGIApp:
        """Return `app`, wrapped to record the requests and the user of each connection."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            peer: Peer | None = scope.get("client")
            if peer is None or peer not in self._guests:
                await app(scope, receive, send)
                return
            guest = self._guests[peer] = self._guests.pop(peer)

            async def send_and_record(message: Message) -> None:
                guest.user = scope.get("user", guest.user)  # set by AuthMiddleware before the reply begins
                await send(message)

            guest.request_count += 1
            try:
                await app(scope, receive, send_and_record)
            finally:
                guest.request_count -= 1

        return answer
