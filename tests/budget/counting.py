"""Counts the bytecode instructions that miniqueue executes, and whoever else is asked for.

They are the same on every machine, whatever else it does.
C code is not counted, so the figure tells how much Python there is on a path, not how long it takes.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import miniqueue
import miniqueue_client

_PACKAGES = tuple(str(Path(package.__file__).parent) for package in (miniqueue, miniqueue_client))


class Counter:
    """The number of instructions seen so far in files below some folders.

    Attributes:
      count: the number of instructions.
      trace: counts them; for `sys.settrace`.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.count = 0

        # Called for each instruction: a method would be bound each time.
        def count(_frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "opcode":
                self.count += 1
            return count

        def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
            if not frame.f_code.co_filename.startswith(folders):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return count

        self.trace = trace


@contextmanager
def counting(*folders: str) -> Iterator[Counter]:
    """Count miniqueue, and `folders`, while the block runs; coverage, which uses the same hook, sees nothing of it."""
    counter, others = Counter((*_PACKAGES, *folders)), sys.gettrace()
    sys.settrace(counter.trace)
    try:
        yield counter
    finally:
        sys.settrace(others)
