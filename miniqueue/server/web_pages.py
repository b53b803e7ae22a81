"""What a web page makes the browser of somebody ask, who can reach the broker where the page cannot.

    Origin of another site       a page that posts to the queue: browsers name it in all requests that change something
    Host that is not loopback    a page whose own name has been led here ("DNS rebinding"), to read as its own site

Browsers set both and pages cannot. Other clients send no Origin, and ask under a name of the machine that they mean. A
page that comes from the same address as the queue, such as through a proxy, is no stranger.

Source: https://fetch.spec.whatwg.org/#origin-header
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.server.early_errors import ForeignHostError, ForeignOriginError
from miniqueue.server.replies import error_reply

NOT_FOR_PAGES = error_reply(ForeignOriginError())
NOT_FROM_ELSEWHERE = error_reply(ForeignHostError())

_LOOPBACK_NAMES = {"127.0.0.1", "::1", "localhost"}


def is_from_another_site(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a page of another site makes this request."""
    fields = dict(headers)  # one call; every request comes here, and a loop over its fields took a tenth of a publish
    origin = fields.get(b"origin")
    if not origin or fields.get(b"sec-fetch-site") == b"same-origin":
        return False
    host = fields.get(b"host")
    return not host or origin.partition(b"://")[2] != host


def is_for_loopback(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a request is made under a name of this machine, which is the only one that it has for itself."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    try:
        return [urlsplit(f"//{host}").hostname in _LOOPBACK_NAMES for host in hosts] == [True]
    except ValueError:
        return False


class ForLoopback:
    """An endpoint that answers only what is asked under a name of this machine."""

    def __init__(self, endpoint: ASGIApp) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        endpoint = self._endpoint if is_for_loopback(scope["headers"]) else NOT_FROM_ELSEWHERE
        await endpoint(scope, receive, send)
