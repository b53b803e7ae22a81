"""An application that is imported at its first request, so that a startup does not wait for what may never be used.

    request ─ one of its paths? ─ no ─▶ the other application
                 └ yes ─ imported? ─ no ─▶ imported on a thread, and made, once ─▶ it answers

Imported on a thread, because an import can take longer than the event loop may be held.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module

from starlette.types import ASGIApp, Receive, Scope, Send


class LateApp:
    """Answers requests with one of two applications.

    Args:
      other: answers what the late application does not.
      is_for_late: returns whether the late application answers a path.
      module: the module to import before the late application is made.
      make: makes the late application; called once, on the event loop.
    """

    def __init__(
        self, other: ASGIApp, is_for_late: Callable[[str], bool], module: str, make: Callable[[], ASGIApp]
    ) -> None:
        self._other = other
        self._is_for_late = is_for_late
        self._module = module
        self._make = make
        self._late: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not self._is_for_late(scope["path"]):
            await self._other(scope, receive, send)
            return
        if self._late is None:
            await asyncio.get_running_loop().run_in_executor(None, import_module, self._module)
        if self._late is None:  # another request may have made it meanwhile
            self._late = self._make()
        await self._late(scope, receive, send)
