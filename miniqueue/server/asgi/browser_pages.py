"""Protection against web pages that use the browser of a person who can reach the broker.

A page cannot reach the broker itself, but can make a visitor's browser send requests:

    Origin of another site       a page that posts to the queue: browsers name the origin in all requests that change
                                 data
    Host that is not loopback    a page whose own host name resolves to this machine ("DNS rebinding"), so that the
                                 browser lets it read the replies

Browsers set both headers, and pages cannot change them. Other clients send no Origin, and use a name of the machine
that they mean. A page from the same address as the queue, such as through a proxy, is allowed.

Source: https://fetch.spec.whatwg.org/#origin-header
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.server.asgi.early_errors import ForeignHostError, ForeignOriginError
from miniqueue.server.asgi.replies import error_reply

NOT_FOR_OTHER_SITES = error_reply(ForeignOriginError())
NOT_FOR_OTHER_HOSTS = error_reply(ForeignHostError())

_LOOPBACK_NAMES = {"127.0.0.1", "::1", "localhost"}


def is_from_another_site(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a page of another site sent this request."""
    fields = dict(headers)  # one call: every request comes here, and a loop over the headers cost a tenth of a publish
    origin = fields.get(b"origin")
    if not origin or fields.get(b"sec-fetch-site") == b"same-origin":
        return False
    host = fields.get(b"host")
    return not host or origin.partition(b"://")[2] != host


def is_for_loopback(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the only Host header of a request is a loopback name of this machine."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    try:
        return [urlsplit(f"//{host}").hostname in _LOOPBACK_NAMES for host in hosts] == [True]
    except ValueError:
        return False


class ForLoopback:
    """An endpoint that answers only requests whose Host header is a loopback name."""

    def __init__(self, endpoint: ASGIApp) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        endpoint = self._endpoint if is_for_loopback(scope["headers"]) else NOT_FOR_OTHER_HOSTS
        await endpoint(scope, receive, send)
