"""Regular checks whether files have changed that the broker reads at startup: certificates, users, a password.

Asks only for their status, every 30 s: a change notification would miss a file system of another machine, and a
symbolic link that is changed to another directory, as Kubernetes does with the files of a Secret.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import structlog

from miniqueue.errors import described

log = structlog.get_logger()

#: Interval of the checks; so a change is in effect within a minute.
CHECK_SECONDS = 30.0

#: Distinguishes a file from its predecessor, even one of the same size and time, and even if a symbolic link in its
#: path was changed. None if the file is not accessible.
Identity: TypeAlias = tuple[int, ...] | None


def identity(path: Path) -> Identity:
    """Return the identity of a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


async def watch(
    noun: str, check: Callable[[], object], sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Call `check` regularly, until cancelled and despite any error; log each problem once.

    Args:
      noun: what can change, for the log.
      check: looks for a change, and reads the files again.
      sleep: waits for a number of seconds.
    """
    problem = ""
    while True:
        await sleep(CHECK_SECONDS)
        try:
            check()
        except Exception as error:
            if described(error) != problem:
                log.exception(f"could not check for a changed {noun}; the previous one stays in use")
            problem = described(error)
        else:
            problem = ""
