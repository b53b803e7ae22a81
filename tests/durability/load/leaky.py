"""A broker with planted leaks, for the check that a soak would find them: for every RESP connection.

It is started like the real one, `python leaky.py`, in a directory with its store in `data`.
"""

import asyncio
import os
import sys
from itertools import count
from pathlib import Path

from miniqueue.cli import main
from miniqueue.server.resp.connection import RespConnection

LEAKED_BYTES = 500_000
LEAKED_EACH = 5


def plant() -> None:
    """Make every RESP connection leave memory, tasks, descriptors and files behind."""
    kept: list[object] = []
    numbers = count()
    original = RespConnection.connection_made

    def connection_made(self: RespConnection, transport: asyncio.BaseTransport) -> None:
        original(self, transport)
        kept.append(b"x" * LEAKED_BYTES)
        for _ in range(LEAKED_EACH):
            kept.append(asyncio.get_running_loop().create_task(asyncio.Event().wait()))
            os.open(os.devnull, os.O_RDONLY)
            Path("data", f"leak-{next(numbers)}").touch()

    RespConnection.connection_made = connection_made  # type: ignore[method-assign] # on purpose


if __name__ == "__main__":
    plant()
    sys.exit(main())
