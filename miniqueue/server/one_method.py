"""A route that knows one HTTP method; for the queue's own listener and for monitoring."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.server.replies import not_allowed


class OneMethod:
    """Lets one method through to an endpoint, and answers 405 to all others."""

    def __init__(self, method: str, endpoint: ASGIApp) -> None:
        self._endpoints: Mapping[str, ASGIApp] = MappingProxyType({method: endpoint})
        self._refusal = not_allowed(method)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._endpoints.get(scope["method"], self._refusal)(scope, receive, send)
