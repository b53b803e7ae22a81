"""Limits how much of LevelDB's tables is in RAM because this process has mapped and read them.

LevelDB maps its tables, at most 64 at a time, each as large as a write buffer. What is read stays in the process's RSS
until LevelDB drops the table or the system needs the memory: while a store of 2.5 GB was backed up, RSS grew to 2 GB.
No option of LevelDB limits that, so scans ask the system to take the pages back, and the broker does regularly, as
compactions read tables, too. Pages are read from the disk if they are needed again; the limit leaves room for what
consumers read ahead.

`MADV_PAGEOUT` never changes what memory contains. LevelDB may unmap a table meanwhile, and something else may get its
addresses, so `MADV_DONTNEED`, which would be cheaper, could destroy that. Before Linux 5.4 there is no such limit.
"""

import ctypes
import os
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

#: Maximum size of files in RAM that this process has mapped; the interpreter and its libraries are 24 MiB of it.
MAX_MAPPED_BYTES: Final = 64 << 20
#: The same while nothing is read: the broker returns the rest regularly, as it does with freed memory.
MAX_RESTING_BYTES: Final = 32 << 20
#: How often the broker checks the limit, besides scans. A check takes 15 us. With one check a second, compactions
#: exceeded the limit by 60 MiB while a million delayed messages were published; now, on a busy machine, by 16.
CHECK_SECONDS: Final = 0.02
#: Size of one request to the system: the event loop can need a lock that is held meanwhile, for 1 ms with this size.
_PIECE_BYTES: Final = 4 << 20
_MADV_PAGEOUT: Final = 21  # in sys/mman.h
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TABLE_SUFFIXES: Final = (b".ldb\n", b".sst\n")


def limit_mapped_tables(max_bytes: int = MAX_MAPPED_BYTES) -> None:
    """Release the pages of all tables if this process has more than `max_bytes` of files in RAM."""
    if is_limit_exceeded(max_bytes):
        for start, size_bytes in list(_tables()):
            _release(start, size_bytes)


def is_limit_exceeded(max_bytes: int = MAX_MAPPED_BYTES) -> bool:
    """Whether this process has more than `max_bytes` of files in RAM."""
    try:
        return _mapped_bytes() > max_bytes
    except OSError:  # another system than Linux, or no /proc in this sandbox
        return False


def release_tables() -> None:
    """Release the pages of tables, some of which were read long ago."""
    limit_mapped_tables(MAX_RESTING_BYTES)


def _mapped_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[2]) * _PAGE_BYTES


def _tables() -> Iterator[tuple[int, int]]:
    """Yield the address and the size of each table that is mapped."""
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            if line.endswith(_TABLE_SUFFIXES):
                start, _, stop = line.split(maxsplit=1)[0].partition(b"-")
                yield int(start, 16), int(stop, 16) - int(start, 16)


def _release(start: int, size_bytes: int) -> None:
    for offset in range(0, size_bytes, _PIECE_BYTES):
        address, piece_bytes = start + offset, min(_PIECE_BYTES, size_bytes - offset)
        _libc().madvise(ctypes.c_void_p(address), ctypes.c_size_t(piece_bytes), _MADV_PAGEOUT)


@cache
def _libc() -> Any:  # noqa: ANN401 - ctypes has no types of the functions of a library
    return ctypes.CDLL(None)
