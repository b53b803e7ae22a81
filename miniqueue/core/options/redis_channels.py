"""Channels that Redis clients subscribe to on their own: they are not topics, and have no messages.

    __Booksleeve_MasterChanged      StackExchange.Redis, when it connects
    __keyspace@0__:*                clients that subscribe to events of keys
    +switch-master                  clients that search for a Sentinel

The names and prefixes are those that Redis and StackExchange.Redis reserve.
"""

import re

_PREFIXES = (b"__Booksleeve", b"__keyspace@", b"__keyevent@", b"__sentinel__:")
_SENTINEL_EVENTS = frozenset(
    {
        *(b"+switch-master", b"+reset-master", b"+slave", b"+sentinel", b"-dup-sentinel", b"+sdown", b"-sdown"),
        *(b"+odown", b"-odown", b"+reboot", b"+convert-to-slave", b"+slave-reconf-done", b"+tilt", b"-tilt"),
    }
)
_MIN_HEAD_BYTES = len(b"__key")
_SPECIAL = re.compile(rb"[*?\\[]")


def is_redis_channel(name: bytes) -> bool:
    """Return whether a channel is one of Redis itself."""
    return name.startswith(_PREFIXES) or name in _SENTINEL_EVENTS


def is_redis_pattern(pattern: bytes) -> bool:
    """Return whether a pattern is for channels of Redis, by its part before the first special character."""
    head = _SPECIAL.split(pattern, maxsplit=1)[0]
    is_beginning = len(head) >= _MIN_HEAD_BYTES and any(prefix.startswith(head) for prefix in _PREFIXES)
    return is_redis_channel(head) or is_beginning
