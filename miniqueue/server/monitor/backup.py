"""`GET /backup`: the content of the store at one moment, as a stream of pairs (`wire.pair_stream`).

    snapshot ─▶ page ─▶ page ─▶ … ─▶ end          a thread of the store reads each page when the previous one is sent

Commits continue meanwhile. If a page cannot be read, the client does not read a page for a minute, or the user is
revoked, the stream stops without its end marker, which the client detects. A snapshot keeps deleted data on the disk,
so few backups can run at a time.

With `?cut=1`, the snapshot is one of those of all shards: the client asks each shard, with a body whose end it
withholds. Messages between shards wait (`broker.outbox.pause`) from before the snapshot until the body ends, which is
when all shards have begun to reply.

With `?follower=<name>`, the headers state the position of the snapshot, after which `GET /changes` continues.

On loopback, only requests whose Host header is a loopback name are answered: see `asgi.browser_pages`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TypeAlias

import structlog
from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.errors import LimitReachedError, MiniqueueError
from miniqueue.server.asgi.browser_pages import NOT_FOR_OTHER_HOSTS, is_for_loopback
from miniqueue.server.asgi.replies import error_reply, start_message
from miniqueue.server.asgi.request import listening, texts_of
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
            with ExitStack() as pause:
                await self._reply(scope, receive, send, pause)
        finally:
            self._count -= 1

    async def _reply(self, scope: Scope, receive: Receive, send: Send, pause: ExitStack) -> None:
        try:
            query = texts_of(scope, ("follower", "cut"))
            follower = query.get("follower")
            if follower is not None:
                self._followers.admit(follower)
            if "cut" in query:
                pause.enter_context(self._broker.pause_of_transfers())
            snapshot = await self._broker.snapshot(is_followed=follower is not None)
            if follower is not None:
                self._followers.begin(follower)
        except MiniqueueError as exc:
            await error_reply(exc)(scope, receive, send)
            return
        headers = [(b"content-type", b"application/octet-stream")]
        if snapshot.position is not None:
            headers += position_headers(*snapshot.position)
        is_sent = False
        try:
            await send(start_message(200, headers))
            await _send_part(send, MAGIC)
            if "cut" in query and not await _has_end(receive):
                return
            pause.close()
            async with listening(receive) as is_there:
                is_sent = await _send_all(
                    snapshot.scan, send, is_wanted=lambda: is_there() and self._is_user_current(scope)
                )
        except MiniqueueError as exc:
            log.error("a backup was aborted", error=str(exc))
        except TimeoutError:
            log.error("a backup was aborted", error=f"the client has done nothing for {MAX_PAGE_SECONDS:.0f} s")
        finally:
            if follower is not None and not is_sent:
                self._followers.forget(follower)
            await snapshot.close()

    def _is_user_current(self, scope: Scope) -> bool:
        return self._sign_in is None or self._sign_in.is_current(scope["user"])


async def _send_all(scan: Scan, send: Send, is_wanted: Callable[[], bool]) -> bool:
    """Send everything, or what is sent until it is not wanted; return whether it was everything."""
    count, start = 0, b""
    while pairs := await scan(start, _AFTER_ALL_KEYS, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES):
        if not is_wanted():
            return False
        await _send_part(send, encode_pairs(pairs))
        count += len(pairs)
        start = pairs[-1][0] + b"\x00"
    await _send_part(send, encode_end(count), is_last=True)
    return True


async def _has_end(receive: Receive) -> bool:
    """Wait for the end of the body of a request; return False if the client has gone."""
    async with asyncio.timeout(MAX_PAGE_SECONDS):
        while (message := await receive()).get("more_body", False):
            pass
    return bool(message["type"] == "http.request")


async def _send_part(send: Send, body: bytes, *, is_last: bool = False) -> None:
    async with asyncio.timeout(MAX_PAGE_SECONDS):
        await send({"type": "http.response.body", "body": body, "more_body": not is_last})
