"""`GET /changes`: the writes of the store after a position, for `miniqueue backup -follow`.

    GET /changes?follower=<name>&change=<number>&digest=<hex>
    200  Miniqueue-Change, Miniqueue-Digest: the position after them; Miniqueue-Last-Change; Miniqueue-Rest-Bytes
         body: the writes, a part of a log of LevelDB, 1 MiB at most, or one that is larger; none if nothing was
         written for a second. Miniqueue-Offset: where it begins in a block; Miniqueue-Checksum: its CRC-32
    410  NOPOSITION: they are not kept, or the position is in another history
    400  a later request of the copy has replaced this one: writes are read for one reply to a copy at a time

Each request states what its copy contains, so nothing is remembered between two requests, and a copy that is slow or
gone costs nothing. The writes are read from LevelDB's logs (`storage.leveldb.history`), and sent as they are there:
commits do not wait for them, and nothing is made for each.

On loopback, only requests whose Host header is a loopback name are answered: see `asgi.browser_pages`.
"""

import asyncio
from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.errors import MiniqueueError, RequestError
from miniqueue.server.asgi.replies import Reply, error_reply
from miniqueue.server.asgi.request import texts_of
from miniqueue.server.monitor.followers import Followers, Request

#: Maximum size of a reply, unless one write is larger.
REPLY_BYTES = 1 << 20
#: How long a request waits for a write.
WAIT_SECONDS = 1.0
#: How often it looks meanwhile: a commit that had to wake it would be slower.
LOOK_SECONDS = 0.02


class ChangesReply:
    """An endpoint that sends the writes after a position.

    Args:
      broker: the broker of the store.
      followers: learns the positions of the copies.
    """

    def __init__(self, broker: Broker, followers: Followers) -> None:
        self._broker = broker
        self._followers = followers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            reply = await self._reply(texts_of(scope, ("follower", "change", "digest")))
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)

    async def _reply(self, query: Mapping[str, str]) -> Reply:
        name, (change, digest) = query.get("follower", ""), _position(query)
        request = self._followers.asked(name, change)
        waited_seconds = await self._wait_for_write_after(change, request)
        async with request.follower.reading:
            request.check()
            with self._broker.memory.reserve(REPLY_BYTES):
                writes = await self._broker.writes_after(change, digest, REPLY_BYTES)
            request.check()
        self._followers.answered(name, writes.last_change, len(writes.content) + writes.rest_bytes)
        headers = [
            *position_headers(writes.position.change, writes.position.digest),
            (b"miniqueue-last-change", b"%d" % writes.last_change),
            (b"miniqueue-rest-bytes", b"%d" % writes.rest_bytes),
            (b"miniqueue-offset", b"%d" % writes.offset),
            (b"miniqueue-checksum", b"%d" % writes.checksum),
            (b"miniqueue-waited-seconds", b"%.3f" % waited_seconds),
        ]
        return Reply(200, writes.content, b"application/octet-stream", headers)

    async def _wait_for_write_after(self, change: int, request: Request) -> float:
        """Wait until there is a write after `change`, or for `WAIT_SECONDS`; return how long."""
        waited_seconds = 0.0
        while self._broker.last_change == change and waited_seconds < WAIT_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            request.check()
            waited_seconds += LOOK_SECONDS
        return waited_seconds


def position_headers(change: int, digest: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply that state a position."""
    return [(b"miniqueue-change", b"%d" % change), (b"miniqueue-digest", digest.hex().encode())]


def _position(query: Mapping[str, str]) -> tuple[int, bytes]:
    change, digest = query.get("change", ""), query.get("digest", "")
    try:
        if not (change.isascii() and change.isdigit() and len(change) < 20):
            raise ValueError
        return int(change), bytes.fromhex(digest)
    except ValueError:
        raise RequestError("invalid parameters change and digest; must be a number and hexadecimal digits") from None
