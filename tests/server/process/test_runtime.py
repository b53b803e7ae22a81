"""How the interpreter and the C library are set: seen from what they then do."""

import ctypes
import gc
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from miniqueue.server.process import runtime


class EndedError(Exception):
    pass


@pytest.fixture
def own_garbage_collection():
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.collect()
    gc.freeze()  # again, as tests/conftest.py does


def test_the_garbage_collector_passes_over_what_was_there_at_the_start(own_garbage_collection):
    loaded = [[] for _ in range(100)]
    runtime.freeze_live_objects()
    assert gc.get_freeze_count() > len(loaded)
    assert gc.get_threshold() == runtime.GARBAGE_THRESHOLDS


def test_nothing_is_collected_until_all_that_a_start_makes_is_there(own_garbage_collection):
    with runtime.without_garbage_collection():
        assert not gc.isenabled()
        runtime.freeze_live_objects()
        assert gc.isenabled()
    assert gc.isenabled()


def test_garbage_is_collected_again_when_a_start_fails():
    with pytest.raises(ZeroDivisionError), runtime.without_garbage_collection():
        raise ZeroDivisionError
    assert gc.isenabled()


def pages_asked_for(setting: str) -> int:
    """Pages of memory that a process takes while it makes and drops eight buffers of 1 MiB, 50 times."""
    program = f"""
from resource import RUSAGE_SELF, getrusage
from miniqueue.server.process import runtime
{setting}
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(50):
    kept = [bytes(range(256)) * (1 << 12) for _ in range(8)]
    del kept
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is set")
def test_memory_that_was_freed_is_used_again():
    assert pages_asked_for("runtime.prepare()") * 10 < pages_asked_for("")


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    interval = sys.getswitchinterval()
    runtime.prepare()
    sys.setswitchinterval(interval)


def test_freed_memory_of_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    runtime.return_freed_memory()


async def test_memory_is_returned_regularly(monkeypatch):
    returned, waits = [], []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise EndedError

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace(malloc_trim=returned.append))
    with pytest.raises(EndedError):
        await runtime.return_memory_regularly([runtime.return_freed_memory], sleep=sleep)
    assert returned == [0, 0]
    assert waits == [runtime.TRIM_SECONDS] * 3


async def test_nothing_is_called_in_a_thread_if_it_is_not_needed():
    called: list[bool] = []
    needed = iter([False, True, False])

    async def sleep(_seconds: float) -> None:
        """Return at once."""

    def is_needed() -> bool:
        try:
            return next(needed)
        except StopIteration:
            raise EndedError from None

    with pytest.raises(EndedError):
        await runtime.return_memory_regularly([lambda: called.append(True)], is_needed=is_needed, sleep=sleep)
    assert called == [True]
