"""`/ui/api/…`: the HTTP application of the queue, under the user of the session; acts are logged.

    /ui/api/topics/orders/messages?state=dead    ─▶  /topics/orders/messages?state=dead
    /ui/api?path=%2Ftopics%2F..                  ─▶  /topics/..          browsers would resolve this path

The application checks rights as for every other client. It has no streams here, neither of commands nor of events: they
would not end with the session. The page has `live` for that.
"""

from typing import Final
from urllib.parse import quote, unquote_to_bytes

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miniqueue.errors import RequestError
from miniqueue.server.asgi.early_errors import UnknownPathError
from miniqueue.server.asgi.replies import EMPTY_REPLY
from miniqueue.server.asgi.request import SIGNED_IN_KEY, query_of
from miniqueue.server.dashboard.gate import READING, Gate

log = structlog.get_logger()

_PREFIX: Final = b"/ui/api"
#: Characters that are not encoded in a path that a query contains.
_SAFE: Final = "/%!$&'()*+,;=:@-._~"


class QueueApi:
    """Passes requests to the application of the queue.

    Args:
      queue: the application.
      gate: returns the user of a request.
    """

    def __init__(self, queue: ASGIApp, gate: Gate) -> None:
        self._queue = queue
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises MiniqueueError for one that is not passed on."""
        raw_path, query = _target(scope)
        path = unquote_to_bytes(raw_path).decode("utf-8", "replace")
        if path.startswith("/subscribe/") or (path == "/events" and scope["method"] in READING):
            raise UnknownPathError
        user = await self._gate.user_of(scope)
        passed = {
            **scope,
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            SIGNED_IN_KEY: user,
        }
        await self._queue(passed, receive, send if scope["method"] in READING else _logged(passed, send))


def _target(scope: Scope) -> tuple[bytes, bytes]:
    """Return the path and the query for the application; raises RequestError."""
    raw_path: bytes = scope["raw_path"]
    if raw_path != _PREFIX:
        return raw_path.removeprefix(_PREFIX), scope["query_string"]
    target = query_of(scope, ("path",)).get("path", b"")
    if not target.startswith(b"/"):
        raise RequestError("invalid path; requires path=, the path and the query of a request to the API")
    path, _, query = target.partition(b"?")
    return quote(path, _SAFE).encode(), query


def _logged(scope: Scope, send: Send) -> Send:
    """Return a `send` that logs an act when it was done."""

    async def send_logged(message: Message) -> None:
        if message["type"] in ("http.response.start", EMPTY_REPLY) and message["status"] < 400:
            user, address = scope[SIGNED_IN_KEY], (scope.get("client") or "?")[0]
            log.info(
                "an act of the dashboard",
                user=None if user is None else user.name,
                client=address,
                act=scope["method"],
                path=scope["raw_path"].decode("latin-1"),
                query=scope["query_string"].decode("latin-1"),
                status=int(message["status"]),
            )
        await send(message)

    return send_logged
