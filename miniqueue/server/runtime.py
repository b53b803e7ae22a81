"""How the interpreter and the C library are set for a server: whose turn it is, what is collected, what is kept.

Knows CPython and glibc; knows nothing of the broker. Each setting stands here with what it brought.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: How long a thread that works in Python keeps the others waiting. The store's threads must get their turn soon: beside
#: a loop busy with callbacks of 0.1 ms a commit took 0.36 ms, at an interval of 0.1 ms it took seconds (`worker`).
SWITCH_INTERVAL_SECONDS: Final = 0.00002
#: After 5,000 objects more than went, look at the newest; after 100,000 also at those left by that; after 2 million at
#: all. Later would be less work, but a connection of Hypercorn leaves 70 KB behind that nothing else frees.
GARBAGE_THRESHOLDS: Final = (5_000, 20, 20)
#: How much memory that was freed is kept for the next commit, at the end of each arena: glibc has several, for threads.
#: Also the size up to which it is kept at all; glibc takes no larger one.
KEPT_BYTES: Final = 32 << 20

# Names of mallopt(3) in malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def prepare() -> None:
    """Set what holds from the first moment on."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    _keep_freed_memory()


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage until `spare_what_lives`, or the end of this block.

    A start loads 350 modules and drops next to nothing of them, but the collector visits all of it over and over: 40 of
    530 ms of processor time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def spare_what_lives() -> None:
    """Keep the garbage collector away from what is there now, and let it look at the rest less often.

    It stops everything for as long as it takes to visit all objects. With 10,000 topics that nobody reads it took up to
    0.33 s, and a third of the processor's time: p99.9 of a publish 0.2 s and 27,000/s, with this 12 ms and 34,000/s.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


def _keep_freed_memory() -> None:
    """Let glibc keep what a commit has freed: otherwise it goes back to the system, to be asked for page by page again.

    A commit of 1.5 MB in messages of 1 KiB takes several buffers of that size. With this the loop needs 1.5 us for each
    of these messages, 2.9 without. Where the C library is another one, nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)
