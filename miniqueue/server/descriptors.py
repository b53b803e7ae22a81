"""How many file descriptors there are, and how many of them connections may take.

    0 … store, listeners, log │ connections …                    │ reserve: store, monitoring │ limit
                              └──────────────────────────────────┴────────────────────────────┘

The kernel gives the lowest free number, so the number of a new connection tells how many descriptors are in use: one
that falls into the reserve is refused, and nothing has to be counted. Without a reserve, connections take the
descriptors with which LevelDB begins its next file, and then the store fails.

Knows the limit of this process; knows neither sockets nor the store.
"""

import resource
from contextlib import suppress

#: LevelDB holds about ten, and opens a few more while it compacts and when it is reopened.
RESERVED = 64
#: More than this is not asked for, even if it may be: a limit of a thousand million is usual in containers.
MAX_RAISED = 1 << 20
#: What Granian's connections may take of what connections may take at all; it does not tell us the numbers.
_GRANIAN_SHARE = 4


def raise_limit() -> int:
    """Raise the soft limit to the hard one, as far as that makes sense; return the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_RAISED if hard == resource.RLIM_INFINITY else min(hard, MAX_RAISED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """Return the limit as it is now; it may be changed from outside at any time."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_RAISED if soft == resource.RLIM_INFINITY else soft


def reserve(total: int) -> int:
    """Return how many of `total` descriptors are not for connections."""
    return min(RESERVED, total // 2)


def granian_connections(total: int) -> int:
    """Return how many connections Granian may hold at a time."""
    return max(1, (total - reserve(total)) // _GRANIAN_SHARE)
