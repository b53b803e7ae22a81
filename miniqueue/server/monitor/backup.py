"""`GET /backup`: the content of the store at one moment, as a stream of pairs (`wire.pair_stream`).

    snapshot ─▶ page ─▶ page ─▶ … ─▶ end          a thread of the store reads each page when the previous one is sent

Commits continue meanwhile. If a page cannot be read, the client does not read a page for a minute, or the user is
revoked, the stream stops without its end marker, which the client detects. A snapshot keeps deleted data on the disk,
so few backups can run at a time.

With `?follower=<name>`, the headers state the position of the snapshot, after which `GET /changes` continues.

On loopback, only requests whose Host header is a loopback name are answered: see `asgi.browser_pages`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.errors import LimitReachedError, MiniqueueError
from miniqueue.server.asgi.browser_pages import NOT_FOR_OTHER_HOSTS, is_for_loopback
from miniqueue.server.asgi.replies import error_reply, start_message
from miniqueue.server.asgi.request import texts_of, until_gone
from miniqueue.server.monitor.changes import position_headers
from miniqueue.server.monitor.followers import Followers
from miniqueue.server.security.authentication import Authenticator
from miniqueue.wire.pair_stream import MAGIC, Pair, encode_end, encode_pairs

log = structlog.get_logger()

#: Maximum size of one page, which is in memory as a whole.
PAGE_ITEMS = 1024
PAGE_BYTES = 1 << 20
#: Reads a page of a snapshot.
Scan: TypeAlias = Callable[..., Awaitable[list[Pair]]]

#: How long a client may take to read a page: a slow network takes a few seconds.
MAX_PAGE_SECONDS = 60.0
#: Maximum number of backups at a time: each has a page in memory, and a snapshot.
MAX_BACKUPS = 4

_AFTER_ALL_KEYS = b"\xff" * 1024


class BackupReply:
    """An endpoint that sends the whole store.

    Args:
      broker: the broker of the store.
      followers: learns of copies that will follow.
      sign_in: reports whether the user still exists; None if there are no users.
      is_exposed: whether other machines can reach the port, so that `Host` can be any name.
    """

    def __init__(
        self, broker: Broker, followers: Followers, sign_in: Authenticator | None = None, *, is_exposed: bool = False
    ) -> None:
        self._broker = broker
        self._followers = followers
        self._sign_in = sign_in
        self._is_exposed = is_exposed
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if not self._is_exposed and not is_for_loopback(scope["headers"]):
            await NOT_FOR_OTHER_HOSTS(scope, receive, send)
            return
        if self._count >= MAX_BACKUPS:
            error = LimitReachedError(f"{MAX_BACKUPS} backups are running already; try again later")
            await error_reply(error)(scope, receive, send)
            return
        self._count += 1
        try:
            await self._reply(scope, receive, send)
        finally:
            self._count -= 1

    async def _reply(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            follower = texts_of(scope, ("follower",)).get("follower")
            if follower is not None:
                self._followers.admit(follower)
            snapshot = await self._broker.snapshot(is_followed=follower is not None)
            if follower is not None:
                self._followers.begin(follower)
        except MiniqueueError as exc:
            await error_reply(exc)(scope, receive, send)
            return
        headers = [(b"content-type", b"application/octet-stream")]
        if snapshot.position is not None:
            headers += position_headers(*snapshot.position)
        listening, is_sent = asyncio.ensure_future(until_gone(receive)), False
        try:
            await send(start_message(200, headers))
            is_sent = await _send_all(
                snapshot.scan, send, is_wanted=lambda: not listening.done() and self._is_user_current(scope)
            )
        except MiniqueueError as exc:
            log.error("a backup was aborted", error=str(exc))
        except TimeoutError:
            log.error("a backup was aborted", error=f"the client has not read for {MAX_PAGE_SECONDS:.0f} s")
        finally:
            listening.cancel()
            if follower is not None and not is_sent:
                self._followers.forget(follower)
            await snapshot.close()

    def _is_user_current(self, scope: Scope) -> bool:
        return self._sign_in is None or self._sign_in.is_current(scope["user"])


async def _send_all(scan: Scan, send: Send, is_wanted: Callable[[], bool]) -> bool:
    """Send everything, or what is sent until it is not wanted; return whether it was everything."""
    await _send_part(send, MAGIC)
    count, start = 0, b""
    while pairs := await scan(start, _AFTER_ALL_KEYS, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
        if not is_wanted():
            return False
        await _send_part(send, encode_pairs(pairs))
        count += len(pairs)
        start = pairs[-1][0] + b"\x00"
    await _send_part(send, encode_end(count), is_last=True)
    return True


async def _send_part(send: Send, body: bytes, *, is_last: bool = False) -> None:
    async with asyncio.timeout(MAX_PAGE_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": not is_last})
