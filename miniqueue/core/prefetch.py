"""How many messages a consumer may hold at a time, as clients write it on every protocol."""

from miniqueue.errors import InvalidPrefetchError

MAX_PREFETCH = 10_000

_MAX_DIGITS = 9  # more would be a number that takes long to read, and is over the limit anyway


def parse_prefetch(word: bytes) -> int:
    """Return the number that `word` says; raises InvalidPrefetchError unless it is from 1 to `MAX_PREFETCH`."""
    if not word.isdigit() or len(word) > _MAX_DIGITS:
        raise InvalidPrefetchError
    return check_prefetch(int(word))


def check_prefetch(prefetch: int, max_prefetch: int = MAX_PREFETCH) -> int:
    """Return `prefetch` if it can be one; raises InvalidPrefetchError otherwise."""
    if not 0 < prefetch <= max_prefetch:
        raise InvalidPrefetchError(max_prefetch)
    return prefetch
