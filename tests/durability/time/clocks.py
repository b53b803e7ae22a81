"""A broker whose wall clock is set while it runs, by libfaketime (Debian package `faketime`).

Only the wall clock: the monotonic clock, and the times of files, stay those of the kernel.
"""

import os
from glob import glob
from pathlib import Path

import pytest

from tests.acceptance.process import environment

_LIBRARIES = glob("/usr/lib/*/faketime/libfaketimeMT.so.1")

needs_faketime = pytest.mark.skipif(not _LIBRARIES, reason="not installed: libfaketime")


class WallClock:
    """The wall clock of one process: the real one, set off by what was last asked for."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock"
        self.set(0)

    def set(self, offset_seconds: int) -> None:
        """Set the clock this far from the real time, at once."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset_seconds:+d}\n")
        os.replace(new, self._file)

    @property
    def environment(self) -> dict[str, str]:
        """What a process must be started with."""
        return environment(
            LD_PRELOAD=_LIBRARIES[0],
            FAKETIME_TIMESTAMP_FILE=str(self._file),
            FAKETIME_NO_CACHE="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1",
            FAKETIME_DONT_RESET="1",
            NO_FAKE_STAT="1",
        )
