"""A limit in bytes on the total size of many caches: the least recently used cache is evicted first."""

from collections import OrderedDict
from typing import Protocol


class Evictable(Protocol):
    """A cache that reports its size and can be evicted."""

    @property
    def size_bytes(self) -> int:
        """Memory that the cache uses, in bytes."""
        ...

    def evict(self) -> None:
        """Free memory."""
        ...


class Budget:
    """Keeps the total size of the caches that were passed to `touch` near `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._sizes: OrderedDict[Evictable, int] = OrderedDict()  # least recently used first

    def resize(self, max_bytes: int) -> None:
        """Change the maximum; evict caches if the total is too large, even the last one."""
        self.max_bytes = max_bytes
        self._evict(0)

    def touch(self, cache: Evictable) -> None:
        """Record that `cache` was used and may have another size now; evict other caches if the total is too large."""
        self.used_bytes -= self._sizes.pop(cache, 0)
        if size_bytes := cache.size_bytes:
            self._sizes[cache] = size_bytes
            self.used_bytes += size_bytes
        if self.used_bytes > self.max_bytes:
            self._evict(1)

    def _evict(self, least_count: int) -> None:
        """Evict caches until the total is small enough, or this many are left."""
        while self.used_bytes > self.max_bytes and len(self._sizes) > least_count:
            oldest, size_bytes = self._sizes.popitem(last=False)
            self.used_bytes -= size_bytes
            oldest.evict()
