"""How often somebody may be wrong before others are spared their guesses.

    20 failures within a minute  ──▶  blocked for a minute  ──▶  as if nothing had been

A failure may be of an attempt, which is then counted once for as long as failures count: a program that repeats what
was wrong guesses nothing. Keeps a bounded number of keys, of which the oldest go first, and no more attempts of each
than block it. Tells no time: the clock comes in.
"""

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

MAX_KEYS = 10_000


class _Failures(NamedTuple):
    """Those of one key: how many, until when they count, and the attempts among them."""

    failure_count: int = 0
    ends_at: float = 0.0
    attempts: frozenset[bytes] = frozenset()


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
        self._failures: dict[str, _Failures] = {}

    def is_blocked(self, key: str) -> bool:
        """Tell whether there have been too many failures."""
        return self._current(key).failure_count >= self._max_failures

    def has_failed(self, key: str, attempt: bytes) -> bool:
        """Tell whether a failure of this attempt counts."""
        return attempt in self._current(key).attempts

    def failed(self, key: str, attempt: bytes = b"") -> None:
        """Count a failure, unless one of the same attempt counts already; b"" is no attempt."""
        failures = self._current(key)
        if attempt in failures.attempts:
            return
        count = failures.failure_count + 1
        is_first_or_last = count in (1, self._max_failures)
        ends_at = self._monotonic() + self._seconds if is_first_or_last else failures.ends_at
        attempts = failures.attempts
        if attempt and count <= self._max_failures:
            attempts |= {attempt}
        self._failures[key] = _Failures(count, ends_at, attempts)
        if len(self._failures) > self._max_keys:
            del self._failures[next(iter(self._failures))]

    def forget_attempts(self) -> None:
        """Take every attempt for a new one, for what was wrong may be right now; what was counted stays."""
        for key, failures in self._failures.items():
            self._failures[key] = failures._replace(attempts=frozenset())

    def _current(self, key: str) -> _Failures:
        failures = self._failures.get(key)
        if failures is None:
            return _NONE
        if failures.ends_at <= self._monotonic():
            del self._failures[key]
            return _NONE
        return failures


_NONE = _Failures()


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
