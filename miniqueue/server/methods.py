"""A path and the HTTP methods that it knows; for the queue's own listener and for monitoring."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.server.replies import not_allowed


class Methods:
    """Lets each method through to its endpoint, and answers 405 to all others.

    Args:
      endpoints: by method.
    """

    def __init__(self, endpoints: Mapping[str, ASGIApp]) -> None:
        self._endpoints: Mapping[str, ASGIApp] = MappingProxyType(dict(endpoints))
        self._refusal = not_allowed(", ".join(sorted(endpoints)))

    def of(self, method: str) -> ASGIApp:
        """Return what answers a method."""
        return self._endpoints.get(method, self._refusal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self.of(scope["method"])(scope, receive, send)
