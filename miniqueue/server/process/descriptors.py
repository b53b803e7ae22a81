"""The number of file descriptors, and how many of them connections can use.

    0 … store, listeners, log │ connections …                    │ reserve: store, monitoring │ limit
                              └──────────────────────────────────┴────────────────────────────┘

The kernel assigns the lowest free number, so the number of a new connection shows how many descriptors are in use: a
connection in the reserve is rejected, and nothing has to be counted. Without a reserve, connections would take the
descriptors that LevelDB requires for its next file, and the store would fail.

Knows the limit of this process; knows neither sockets nor the store.
"""

import resource
from contextlib import suppress

#: Size of the reserve: LevelDB uses about ten, and a few more while it compacts and when it is reopened.
RESERVED = 64
#: Maximum for the raised limit, even if the hard limit is higher: in containers, it is often a thousand million.
MAX_RAISED = 1 << 20
#: Granian's connections may use one in this many of the descriptors for connections; it does not report their numbers.
_GRANIAN_SHARE = 4


def raise_limit() -> int:
    """Raise the soft limit to the hard limit, at most to `MAX_RAISED`; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_RAISED if hard == resource.RLIM_INFINITY else min(hard, MAX_RAISED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a sandbox can forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """Return the current limit, which another process can change at any time."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_RAISED if soft == resource.RLIM_INFINITY else soft


def reserve(total: int) -> int:
    """Return the number of descriptors, of `total`, that are reserved."""
    return min(RESERVED, total // 2)


def granian_connections(total: int) -> int:
    """Return the maximum number of Granian's connections."""
    return max(1, (total - reserve(total)) // _GRANIAN_SHARE)
