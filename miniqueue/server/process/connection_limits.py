"""Limits on the number of connections, in total and per network.

A network is an IPv4 address, or the /64 of an IPv6 address. A loopback address belongs to this machine, and may be a
proxy that all clients use, so it may have ten times as many connections. Knows no sockets.
"""

from collections import Counter
from ipaddress import ip_address

from miniqueue.access.throttle import network_of
from miniqueue.broker.model.limits import Limit, LimitCounts

#: How many times the limit of one network loopback may have.
LOOPBACK_FACTOR = 10


class ConnectionLimits:
    """Counts connections, and reports which limit the next one would exceed.

    Args:
      max_connections: maximum number of connections; 0 means unlimited.
      max_per_address: maximum number from one network; 0 means unlimited.
      counts: counts how often a limit is reached.
    """

    def __init__(self, max_connections: int, max_per_address: int, counts: LimitCounts) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._counts = counts
        self._connections: Counter[str] = Counter()
        self._total = 0

    def limit_for(self, address: str) -> Limit | None:
        """Return the limit that one more connection from `address` would exceed, and count that; or return None."""
        limit = self._exceeded_by(address, network_of(address))
        if limit is not None:
            self._counts.reached(limit)
        return limit

    def _exceeded_by(self, address: str, network: str) -> Limit | None:
        if self._max_connections and self._total >= self._max_connections:
            return Limit.CONNECTIONS
        maximum = self._max_per_address * (LOOPBACK_FACTOR if address == "::1" or _is_loopback(network) else 1)
        if maximum and self._connections[network] >= maximum:
            return Limit.CONNECTIONS_PER_ADDRESS
        return None

    def opened(self, address: str) -> None:
        """Count a new connection."""
        self._connections[network_of(address)] += 1
        self._total += 1

    def closed(self, address: str) -> None:
        """Stop counting a connection."""
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
