"""Replies of the dashboard: the headers that browsers obey, and no sign-in dialog of the browser.

Every reply has a content security policy that permits files of this port and nothing else, whatever its content: even
if a name or a payload were taken for a page, it could run nothing.
"""

from collections.abc import Iterable
from typing import Final

from starlette.types import Message, Send

from miniqueue.server.asgi.replies import EMPTY_REPLY

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
).encode()
_HEADERS: Final = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
_NOSNIFF: Final = b"x-content-type-options", b"nosniff"
_NO_STORE: Final = b"cache-control", b"no-store"


def secured(send: Send) -> Send:
    """Return a `send` that adds the headers to every reply, and removes those for the browser's sign-in dialog."""

    async def send_secured(message: Message) -> None:
        if message["type"] in ("http.response.start", EMPTY_REPLY):
            message = {**message, "headers": [*_with(message.get("headers", ()))]}
        await send(message)

    return send_secured


def _with(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in headers if name != b"www-authenticate"]
    names = {name for name, _ in kept}
    kept += [each for each in (_NOSNIFF, _NO_STORE) if each[0] not in names]
    return [*kept, *_HEADERS]
