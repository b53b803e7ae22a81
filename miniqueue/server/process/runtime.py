"""Settings of CPython and glibc for a server: thread switches, garbage collection, and kept memory.

Knows nothing of the broker. Each setting is documented with its measured effect.
"""

import asyncio
import ctypes
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

#: How long a thread that runs Python code makes other threads wait. The threads of the store must run soon: alongside a
#: loop busy with callbacks of 0.1 ms, a commit took 0.36 ms; with an interval of 0.1 ms, it took seconds (`worker`).
SWITCH_INTERVAL_SECONDS: Final = 0.00002
#: Collect the newest generation after 5,000 more allocations than deallocations, the next one after 100,000, and all
#: after 2 million. Higher values would cost less, but a connection of Hypercorn leaves 70 KB that nothing else frees.
GARBAGE_THRESHOLDS: Final = (5_000, 20, 20)
#: Size of freed memory that each arena of glibc (it has several, for threads) keeps at its end for the next commit.
#: Also the maximum size of allocations that are kept at all; glibc accepts no larger one.
KEPT_BYTES: Final = 32 << 20
#: How often freed memory goes back to the system nevertheless: after a backlog of 300 MB, the process kept 75 MB that
#: nothing used. Returning them took 9 ms, in a thread; the pages that are used again are soon faulted in again.
TRIM_SECONDS: Final = 15.0

# Names of mallopt(3) in malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def prepare() -> None:
    """Apply the settings that are required from the first moment on."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    _keep_freed_memory()


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection until `freeze_live_objects`, or the end of the block.

    A startup loads 350 modules, and almost none of their objects become garbage, but the collector would visit all of
    them repeatedly: 40 of 530 ms of CPU time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def freeze_live_objects() -> None:
    """Exempt all existing objects from garbage collection, and collect the others less often.

    A collection stops the process while it visits all objects. With 10,000 topics without consumers, it took up to
    0.33 s, and a third of the CPU time: p99.9 of a publish was 0.2 s at 27,000/s; with this, 12 ms at 34,000/s.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


def _keep_freed_memory() -> None:
    """Make glibc keep the memory that a commit frees, instead of returning it to the system and faulting it in again.

    A commit of 1.5 MB in messages of 1 KiB requires several buffers of that size. With this, the loop needs 1.5 us for
    each of these messages; without, 2.9 us. Other C libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)


def return_freed_memory() -> None:
    """Return freed memory to the system; do nothing with other C libraries than glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


async def return_memory_regularly(
    acts: Sequence[Callable[[], None]],
    seconds: float = TRIM_SECONDS,
    is_needed: Callable[[], bool] = lambda: True,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Call what returns memory to the system, in a thread, every so many seconds if it is needed then."""
    while True:
        await sleep(seconds)
        if is_needed():
            for act in acts:
                await asyncio.to_thread(act)
