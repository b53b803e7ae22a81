"""The pause of transfers while a backup of all shards begins: none leaves this shard, and none is added here.

    shard 0   ├─ pause ─ snapshot ──────────────┤
    shard 1       ├─ pause ─ snapshot ──────────┤       each snapshot is made while all that were made before wait

So no message is missing in the snapshots, and none is there twice. A message that leaves its topic after the snapshot
of its shard is sent after the pause, so it is not in the snapshot of the other shard. One that was deleted from the
outbox before the snapshot has arrived before, so it is in the snapshot of the other shard, which adds nothing between
its own and the end of the pause. Any other is in the outbox of the one, and the other knows whether it has arrived.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pause:
    """Whether transfers wait, and for how many backups.

    Args:
      on_end: called when they wait for none any more.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._count = 0
        self._ended = asyncio.Event()

    @property
    def is_on(self) -> bool:
        """Whether transfers wait."""
        return self._count > 0

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Make transfers wait while the block runs."""
        self._count += 1
        self._ended.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._ended.set()
                self._on_end()

    async def wait(self) -> None:
        """Return when transfers need not wait; what follows in the same iteration of the event loop is not in one."""
        while self.is_on:
            await self._ended.wait()
