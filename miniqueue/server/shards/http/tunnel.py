"""The door's end of tunnels: passes requests on to their owners, over connections that are used again.

    request ─▶ an idle tunnel to the owner, or a new one ─▶ REQUEST, BODY … LAST ─▶ START, BODY … LAST ─▶ idle again
                      the client disconnects: GONE, and the tunnel ends with the reply
                      the owner ends, or does not answer any more: before its reply an error, later a reply without end

A reply without end is an error for the client: its server resets the stream, or closes the connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from starlette.types import Message, Receive, Scope, Send

from miniqueue.errors import InternalError, LimitReachedError, MiniqueueError
from miniqueue.errors.requests import OutcomeUnknownError, ShardAwayError
from miniqueue.server.asgi.replies import EMPTY_REPLY, start_message
from miniqueue.server.shards.http.frames import Frames, Kind, TunnelEndedError, encode_frame
from miniqueue.server.shards.http.scopes import decode_start, encode_scope

#: Maximum number of idle tunnels to one owner; each costs two descriptors.
MAX_IDLE: Final = 32
AWAY: Final = "the shard with the topic has ended, or does not answer; {}"

#: Connects a tunnel to a shard, which is made with what it sends first; raises OSError.
Connect = Callable[[int, Callable[[bytes], Frames]], Awaitable[Frames]]


class Passing(NamedTuple):
    """How a request is passed on.

    Attributes:
      port: the port for which it is passed on; see `scopes`.
      user: the name of the user whom the door has authenticated; None if there is none.
      take: called when the owner offers messages; returns whether they are taken. None: nothing is offered.
    """

    port: str
    user: str | None = None
    take: Callable[[], bool] | None = None


class Tunnels:
    """The tunnels of one process, in use and idle.

    Args:
      connect: connects a tunnel to a shard.
      check: raises ShardAwayError if a shard is known not to answer.
      max_count: maximum number of tunnels in use, each of which has a descriptor here and one there.
    """

    def __init__(self, connect: Connect, check: Callable[[int], None] = lambda _: None, max_count: int = 1_000) -> None:
        self._max_count = max_count
        self._connect = connect
        self.check = check
        self._used: dict[Frames, int] = {}
        self._idle: dict[int, list[Frames]] = {}

    @property
    def count(self) -> int:
        """Number of tunnels, in use and idle."""
        return len(self._used) + sum(map(len, self._idle.values()))

    async def take(self, shard: int) -> Frames:
        """Return a tunnel to a shard; raises ShardAwayError, LimitReachedError."""
        self.check(shard)
        if len(self._used) >= self._max_count:
            raise LimitReachedError(f"{self._max_count} requests of other shards are in progress; try again later")
        idle = self._idle.get(shard)
        while idle:
            tunnel = idle.pop()
            if not tunnel.is_lost:
                self._used[tunnel] = shard
                return tunnel
        try:
            tunnel = await self._connect(shard, lambda opening: Frames(opening, self._forget))
        except OSError as exc:
            raise ShardAwayError(AWAY.format("try again")) from exc
        self._used[tunnel] = shard
        return tunnel

    def give_back(self, tunnel: Frames, *, is_reusable: bool) -> None:
        """Keep a tunnel for the next request, or end it."""
        shard = self._used.pop(tunnel, None)
        idle = [] if shard is None else self._idle.setdefault(shard, [])
        if is_reusable and shard is not None and not tunnel.is_lost and len(idle) < MAX_IDLE:
            idle.append(tunnel)
        else:
            tunnel.close()

    def fail(self, shard: int) -> None:
        """End all tunnels to a shard, which does not answer: requests in progress fail now."""
        for tunnel in [each for each, at in self._used.items() if at == shard]:
            tunnel.abort()
        for tunnel in list(self._idle.pop(shard, ())):
            tunnel.abort()

    def close(self) -> None:
        """End the idle tunnels."""
        idle, self._idle = self._idle, {}
        for tunnels in idle.values():
            for tunnel in tunnels:
                tunnel.close()

    def _forget(self, tunnel: Frames) -> None:
        self._used.pop(tunnel, None)
        for idle in self._idle.values():
            if tunnel in idle:
                idle.remove(tunnel)


class _Upload:
    """Passes the body of a request on, then watches for its client."""

    def __init__(self, tunnel: Frames, receive: Receive) -> None:
        self._tunnel = tunnel
        self._receive = receive
        self.is_whole = False
        self.is_gone = False
        self.is_over = False  # the tunnel may have another request; Granian ends a `receive` that is cancelled later

    async def run(self) -> None:
        """Pass on until the client or the tunnel is gone."""
        while True:
            message = await self._receive()
            if self.is_over:
                return
            if message["type"] == "http.disconnect":
                self.is_gone = True
                self._tunnel.write(encode_frame(Kind.GONE))
                return
            if self.is_whole:  # Granian reports the end of a body twice
                continue
            is_last = not message.get("more_body", False)
            try:
                await self._tunnel.write_body(message.get("body", b""), is_last=is_last)
            except TunnelEndedError:
                return
            self.is_whole = is_last


async def pass_on(tunnels: Tunnels, shard: int, scope: Scope, receive: Receive, send: Send, passing: Passing) -> None:
    """Pass a request on to a shard, and its reply back.

    Raises, unless the reply has begun:
      LimitReachedError: too many requests have been passed on, and are not answered.
      ShardAwayError: the shard does not answer; nothing has happened, or what happened has no effect.
      OutcomeUnknownError: the shard has ended during the request.
      InternalError: the shard has failed to answer.
    """
    tunnel = await tunnels.take(shard)
    upload = _Upload(tunnel, receive)
    reply = _Download(tunnel, scope, send, passing.take)
    request = encode_scope(scope, passing.port, passing.user, is_offered=passing.take is not None)
    tunnel.write(encode_frame(Kind.REQUEST, request))
    uploading = asyncio.get_running_loop().create_task(upload.run())
    try:
        await reply.run()
    except TunnelEndedError as exc:
        if not (reply.has_begun or upload.is_gone):
            raise lost_error(scope) from exc
    finally:
        upload.is_over = True
        uploading.cancel()
        tunnels.give_back(tunnel, is_reusable=reply.is_whole and upload.is_whole and not upload.is_gone)
    if not reply.has_begun and not upload.is_gone:
        raise InternalError("the shard with the topic has failed to answer")


def lost_error(scope: Scope) -> MiniqueueError:
    """Return the error for a request whose owner has ended before the reply."""
    path: str = scope["path"]
    if scope["method"] == "GET" or path.endswith("/receive") or path.startswith("/subscribe/"):
        return ShardAwayError(AWAY.format("try again"))
    return OutcomeUnknownError(AWAY.format("whether the request was carried out is unknown"))


class _Download:
    """Passes the reply to a request back."""

    def __init__(self, tunnel: Frames, scope: Scope, send: Send, take: Callable[[], bool] | None) -> None:
        self._tunnel = tunnel
        self._send = send
        self._take = take
        self._takes_empty = EMPTY_REPLY in (scope.get("extensions") or ())
        self.has_begun = False
        self.is_whole = False

    async def run(self) -> None:
        """Pass back until the reply is whole, or the owner has failed; raises TunnelEndedError."""
        while not self.is_whole:
            kind, content = await self._tunnel.read()
            if kind is Kind.START:
                self.has_begun = True
                await self._send(start_message(*decode_start(content)))
            elif kind is Kind.EMPTY:
                self.has_begun = self.is_whole = True
                await self._send_empty(start_message(*decode_start(content)))
            elif kind in (Kind.BODY, Kind.LAST):
                self.is_whole = kind is Kind.LAST
                await self._send({"type": "http.response.body", "body": content, "more_body": not self.is_whole})
            elif kind is Kind.OFFER and self._take is not None and self._take():
                self._tunnel.write(encode_frame(Kind.TAKE))
            else:
                return

    async def _send_empty(self, start: Message) -> None:
        if self._takes_empty:
            await self._send({**start, "type": EMPTY_REPLY})
            return
        await self._send(start)
        await self._send({"type": "http.response.body", "body": b""})
