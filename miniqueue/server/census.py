"""Who is connected: as many as may be, in all and from one address.

Counts connections by the network that they come from: an IPv4 address, or the /64 of an IPv6 address. A network on
loopback is this machine, which may be all clients behind a proxy, so it may have ten times as many. Knows no sockets.
"""

from collections import Counter
from ipaddress import ip_address

from miniqueue.access.throttle import network_of
from miniqueue.broker.limits import Limit, LimitCounts

LOOPBACK_FACTOR = 10


class Census:
    """Counts connections, and says when there are too many.

    Args:
      max_connections: in all; 0 for no limit.
      max_per_address: from one network; 0 for no limit.
      counts: where a refusal is counted.
    """

    def __init__(self, max_connections: int, max_per_address: int, counts: LimitCounts) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._counts = counts
        self._connections: Counter[str] = Counter()
        self._total = 0

    def limit_for(self, address: str) -> Limit | None:
        """Return the limit that one more connection from `address` would break, which is counted; or None."""
        limit = self._broken_by(address, network_of(address))
        if limit is not None:
            self._counts.reached(limit)
        return limit

    def _broken_by(self, address: str, network: str) -> Limit | None:
        if self._max_connections and self._total >= self._max_connections:
            return Limit.CONNECTIONS
        most = self._max_per_address * (LOOPBACK_FACTOR if address == "::1" or _is_loopback(network) else 1)
        if most and self._connections[network] >= most:
            return Limit.CONNECTIONS_PER_ADDRESS
        return None

    def opened(self, address: str) -> None:
        """Count a connection."""
        self._connections[network_of(address)] += 1
        self._total += 1

    def closed(self, address: str) -> None:
        """Count it no more."""
        network = network_of(address)
        self._connections[network] -= 1
        if not self._connections[network]:
            del self._connections[network]
        self._total -= 1


def _is_loopback(network: str) -> bool:
    try:
        return ip_address(network).is_loopback
    except ValueError:  # a /64 of IPv6
        return False
