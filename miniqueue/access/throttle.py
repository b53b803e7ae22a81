"""How often somebody may be wrong before others are spared their guesses.

    20 failures within a minute  ──▶  blocked for a minute  ──▶  as if nothing had been

Keeps a bounded number of keys, of which the oldest go first. Tells no time: the clock comes in.
"""

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

MAX_KEYS = 10_000


class Throttle:
    """Counts failures by key.

    Args:
      max_failures: as many within `seconds` block a key.
      seconds: how long failures count, and how long a key is blocked.
      monotonic: the clock, in seconds.
      max_keys: as many are remembered.
    """

    def __init__(
        self, max_failures: int, seconds: float, monotonic: Callable[[], float], max_keys: int = MAX_KEYS
    ) -> None:
        self._max_failures = max_failures
        self._seconds = seconds
        self._monotonic = monotonic
        self._max_keys = max_keys
        self._failures: dict[str, tuple[int, float]] = {}  # how many, and until when they count

    def is_blocked(self, key: str) -> bool:
        """Tell whether there have been too many failures."""
        return self._count(key) >= self._max_failures

    def failed(self, key: str) -> None:
        """Count a failure."""
        count = self._count(key) + 1
        is_first_or_last = count in (1, self._max_failures)
        ends_at = self._monotonic() + self._seconds if is_first_or_last else self._failures[key][1]
        self._failures[key] = (count, ends_at)
        if len(self._failures) > self._max_keys:
            del self._failures[next(iter(self._failures))]

    def _count(self, key: str) -> int:
        count, ends_at = self._failures.get(key, (0, 0.0))
        if count and ends_at <= self._monotonic():
            del self._failures[key]
            return 0
        return count


def network_of(address: str) -> str:
    """Return what attempts from an address are counted under: an IPv6 peer has 2**64 addresses, and is one peer."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped else f"{parsed.exploded[:19]}::/64"
