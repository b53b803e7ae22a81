"""A limit in bytes over many caches: who was used longest ago gives way first."""

from collections import OrderedDict
from typing import Protocol


class Evictable(Protocol):
    """A cache that can be asked for its size and told to shrink."""

    @property
    def size_bytes(self) -> int:
        """Bytes of memory."""
        ...

    def evict(self) -> None:
        """Give memory back."""
        ...


class Budget:
    """Keeps the sum of the sizes of the caches it has seen near `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._sizes: OrderedDict[Evictable, int] = OrderedDict()  # least recently used first

    def touch(self, cache: Evictable) -> None:
        """Note that `cache` was used and may have another size now; make others give way if need be."""
        self.used_bytes -= self._sizes.pop(cache, 0)
        if size_bytes := cache.size_bytes:
            self._sizes[cache] = size_bytes
            self.used_bytes += size_bytes
        while self.used_bytes > self.max_bytes and len(self._sizes) > 1:
            oldest, size_bytes = self._sizes.popitem(last=False)
            self.used_bytes -= size_bytes
            oldest.evict()
