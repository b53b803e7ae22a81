"""A broker that charges nothing and measures nothing, for the check that a soak would find it.

It is started like the real one, `python unaccounted.py`.
"""

import sys

from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.cli import main


def plant() -> None:
    """Make every charge have no effect."""

    def add(_self: MemoryAccount, _purpose: Purpose, _size_bytes: int) -> None:
        return

    MemoryAccount.add = add  # type: ignore[method-assign] # on purpose


if __name__ == "__main__":
    plant()
    sys.exit(main())
