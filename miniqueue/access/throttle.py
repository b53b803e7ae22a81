"""A limit on failed attempts to authenticate, by key: an address or a user.

    20 failures within a minute  ──▶  blocked for a minute  ──▶  unblocked, without failures

A failure can name its attempt, which then counts once while failures count: a program that repeats a wrong secret
guesses nothing. The number of keys is bounded, the oldest are forgotten first, and so is the number of attempts of a
key. The caller passes the clock.
"""

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

#: Maximum number of keys, so that many addresses do not exhaust memory.
MAX_KEYS = 10_000


class _Failures(NamedTuple):
    """The failures of one key: their number, the time until which they count, and their attempts."""

    failure_count: int = 0
    ends_at: float = 0.0
    attempts: frozenset[bytes] = frozenset()


class Throttle:
    """Counts failures by key.

    Args:
      max_failures: the number of failures within `seconds` that blocks a key.
      seconds: how long failures count, and how long a key is blocked.
      monotonic: the clock, in seconds.
      max_keys: maximum number of keys.
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
        """Return whether a key has too many failures."""
        return self._current(key).failure_count >= self._max_failures

    def has_failed(self, key: str, attempt: bytes) -> bool:
        """Return whether a failure of this attempt is counted."""
        return attempt in self._current(key).attempts

    def failed(self, key: str, attempt: bytes = b"") -> None:
        """Count a failure, unless one of the same attempt is counted; b"" names no attempt."""
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
        """Forget all attempts, as a wrong secret may be valid now; the numbers of failures stay."""
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
    """Return the key of an address: an IPv6 client has 2**64 addresses, which count as one."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped else f"{parsed.exploded[:19]}::/64"
