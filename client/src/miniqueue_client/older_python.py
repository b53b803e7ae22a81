"""What Python 3.10 lacks of asyncio: `timeout`, and tasks that know whether they were cancelled."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = ["create_task", "is_cancelled", "timeout"]

if sys.version_info >= (3, 11):
    from asyncio import create_task, timeout

    def is_cancelled() -> bool:
        """Whether this task was cancelled, rather than something that it awaited; `create_task` must have begun it."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

else:
    from async_timeout import timeout

    class _CancellableTask(asyncio.Task[T]):
        is_to_end = False

        def cancel(self, msg: Any = None) -> bool:  # noqa: ANN401 - any message is allowed
            self.is_to_end = True
            return super().cancel(msg)

    def create_task(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a task, in which `is_cancelled` works."""
        return _CancellableTask(coro, loop=asyncio.get_running_loop())

    def is_cancelled() -> bool:
        """Whether this task was cancelled, rather than something that it awaited; `create_task` must have begun it."""
        task = asyncio.current_task()
        return isinstance(task, _CancellableTask) and task.is_to_end
