"""The disk watch: checks the free disk space periodically, and has publishes refused while the disk is full.

The store decides how much space is enough (`Store.room`); `admission` decides what is refused meanwhile.
"""

import asyncio

import structlog

from miniqueue.broker.commit.journal import Journal
from miniqueue.errors import MiniqueueError

log = structlog.get_logger()

#: Interval between checks. A check costs about 50 µs; in one interval a fast disk can write about 50 MB.
LOOK_SECONDS = 0.2


async def watch_space(journal: Journal, error: str = "") -> None:
    """Check the disk of a journal, forever; `error` is the error that the last check has logged."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        error = await look_at_space(journal, error)


async def look_at_space(journal: Journal, last_error: str = "") -> str:
    """Check the disk once; return the error if that fails, else `last_error`; do not log `last_error` again.

    If the store fails or is replaced during the check, the result is ignored.
    """
    store, admission = journal.store, journal.admission
    was_full = admission.is_full
    if not admission.is_open:
        return last_error
    try:
        room = await store.room(is_full=was_full)
    except MiniqueueError as exc:
        if str(exc) != last_error:
            log.warning("the space on the disk cannot be told, or not be reserved", error=str(exc))
        return str(exc)
    if (store, was_full) == (journal.store, admission.is_full):
        admission.free_bytes = room.free_bytes
        admission.set_full(not room.is_enough, room.free_bytes)
    return last_error
