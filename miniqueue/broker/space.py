"""Looks at the disk now and then, and has publishes refused while it is full.

What is enough, the store decides (`Store.room`); what is refused meanwhile, `admission` does.
"""

import asyncio

import structlog

from miniqueue.broker.journal import Journal
from miniqueue.errors import MiniqueueError

log = structlog.get_logger()

#: A look costs some 50 µs; between two of them a fast disk takes about 50 MB.
LOOK_SECONDS = 0.2


class SpaceWatch:
    """Watches the disk under a journal.

    Attributes:
      free_bytes: what was free at the last look; None where there is no disk.
    """

    def __init__(self, journal: Journal) -> None:
        self.free_bytes: int | None = None
        self._journal = journal
        self._said = ""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look once. What is seen of a store that fails meanwhile counts for nothing."""
        store, admission = self._journal.store, self._journal.admission
        was_full = admission.is_full
        if not admission.is_open:
            return
        try:
            room = await store.room(is_full=was_full)
        except MiniqueueError as exc:
            self._say(str(exc))
            return
        if (store, was_full) == (self._journal.store, admission.is_full):
            self.free_bytes = room.free_bytes
            admission.set_full(not room.is_enough, room.free_bytes)

    def _say(self, error: str) -> None:
        if error != self._said:
            log.warning("the space on the disk cannot be told, or not be reserved", error=error)
        self._said = error
