"""The names of channels that clients of Redis subscribe to by themselves: they are no topics, and carry no messages.

    __Booksleeve_MasterChanged      StackExchange.Redis, as it connects
    __keyspace@0__:*                clients that ask for events of keys
    +switch-master                  clients that look for a Sentinel

Knows names only.
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
    """Tell whether a channel is one of Redis' own."""
    return name.startswith(_PREFIXES) or name in _SENTINEL_EVENTS


def is_redis_pattern(pattern: bytes) -> bool:
    """Tell whether a pattern is for such channels, judged by what stands in front of the first special character."""
    head = _SPECIAL.split(pattern, maxsplit=1)[0]
    is_beginning = len(head) >= _MIN_HEAD_BYTES and any(prefix.startswith(head) for prefix in _PREFIXES)
    return is_redis_channel(head) or is_beginning
