"""The owner's end of tunnels: serves the requests that other processes, and this one, pass on.

    REQUEST ─▶ scope, with the user whom the door has authenticated ─▶ the application ─▶ START, BODY … LAST
       BODY … LAST ─▶ `receive`          GONE, or the end of the tunnel ─▶ `http.disconnect`

Only processes of this broker can connect, so that the owner believes the door who the user is; what the user may do is
checked here, as for a client of this process.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Scope

from miniqueue.access.users import User
from miniqueue.broker.runtime.accounts import Memory, MemoryAccount, Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import MemoryLimitError, described
from miniqueue.server.asgi.replies import EMPTY_REPLY, error_reply
from miniqueue.server.asgi.request import ACCOUNT_KEY, OFFER_KEY, SIGNED_IN_KEY
from miniqueue.server.shards.http.frames import Frames, Kind, TunnelEndedError, encode_frame
from miniqueue.server.shards.http.scopes import decode_scope, encode_start

#: The memory of a request in progress, with the frames that wait, about.
REQUEST_BYTES: Final = 40 << 10
#: From this size on, what has arrived of a body is charged until the reply begins.
CHARGED_BYTES: Final = 64 << 10

log = structlog.get_logger()


class Serving:
    """Serves the tunnels of this process.

    Args:
      apps: the applications, by port.
      memory: the accounts of the memory that clients use.
      named: returns the user with a name; None if there is none any more.
    """

    def __init__(
        self, apps: Mapping[str, ASGIApp], memory: Memory, named: Callable[[str], User | None] = lambda _: None
    ) -> None:
        self._apps = apps
        self._memory = memory
        self._named = named
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()
        self._is_draining = False

    def __call__(self) -> asyncio.Protocol:
        """Make the protocol object of a tunnel, which is connected already."""
        return _Served(self._begin)

    def drain(self) -> set["asyncio.Task[None]"]:
        """End each tunnel after its request; return the tasks that serve one now."""
        self._is_draining = True
        return set(self._busy)

    def _begin(self, tunnel: Frames) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(tunnel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, tunnel: Frames) -> None:
        task = asyncio.current_task()
        assert task is not None  # it is one
        try:
            while True:
                kind, content = await tunnel.read()
                if kind is not Kind.REQUEST:
                    return
                self._busy.add(task)
                try:
                    await self._answer(tunnel, content)
                finally:
                    self._busy.discard(task)
                if self._is_draining:
                    return
        except TunnelEndedError:
            pass
        finally:
            tunnel.close()

    async def _answer(self, tunnel: Frames, content: bytes) -> None:
        """Serve one request; then its tunnel can be used again, unless the door ends it."""
        CURRENT_ACTOR.set(b"")  # not the client of the request before
        passed = decode_scope(content)
        account = self._memory.connect((passed.scope["client"] or ("?",))[0])
        account.be_link()
        request = _Request(tunnel, account)
        scope: Scope = {**passed.scope, "state": {ACCOUNT_KEY: account}, "extensions": {EMPTY_REPLY: {}}}
        if passed.user is not None and (user := self._named(passed.user)) is not None:
            scope[SIGNED_IN_KEY] = user
            account.become(user.name)
        account.add(Purpose.REQUESTS, REQUEST_BYTES)
        if passed.is_offered:
            scope[OFFER_KEY] = request.offer
        try:
            await self._apps[passed.port](scope, request.receive, request.send)
        except Exception as exc:  # the request has failed, and no other: servers do the same
            log.exception("a request of another shard has failed", error=described(exc))
        finally:
            account.close()
        if not request.is_answered:
            tunnel.write(encode_frame(Kind.FAILED))
        await request.finish()


class _Request:
    """One request: its body, and its reply."""

    def __init__(self, tunnel: Frames, account: MemoryAccount) -> None:
        self._tunnel = tunnel
        self._account = account
        self._start = b""
        self._has_begun = False
        self._charged_bytes = 0
        self._received_bytes = 0
        self._is_refused = False
        self.is_received = False
        self.is_answered = False

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client, its door, or this tunnel has gone."""
        if self._is_refused:
            return {"type": "http.disconnect"}
        try:
            kind, content = await self._tunnel.read()
        except TunnelEndedError:
            kind, content = Kind.GONE, b""
        if kind not in (Kind.BODY, Kind.LAST):
            self.is_received = True
            self._tunnel.close()  # nothing follows it
            return {"type": "http.disconnect"}
        self.is_received = kind is Kind.LAST
        self._received_bytes += len(content)
        if not self._has_begun and self._received_bytes > CHARGED_BYTES and not self._may_keep():
            return await self._refuse()
        return {"type": "http.request", "body": content, "more_body": kind is Kind.BODY}

    async def offer(self) -> bool:
        """Offer the messages of a reply to the door; return whether it takes them."""
        self._tunnel.write(encode_frame(Kind.OFFER))
        while True:
            try:
                kind, _ = await self._tunnel.read()
            except TunnelEndedError:
                return False
            if kind is Kind.TAKE:
                return True
            if kind is Kind.GONE:
                self._tunnel.close()
                return False
            self.is_received = self.is_received or kind is Kind.LAST

    async def finish(self) -> None:
        """Discard the rest of the body; if it is long, the door, which has its reply, ends the tunnel.

        A tunnel that ended here with unread frames could take the reply with it.
        """
        while not self.is_received:
            kind, _ = await self._tunnel.read()
            self.is_received = kind is not Kind.BODY
            if kind is Kind.GONE:
                self._tunnel.close()

    def _may_keep(self) -> bool:
        change = self._received_bytes - self._charged_bytes
        self._charged_bytes += change
        self._account.add(Purpose.INPUT, change)
        return not self._account.process.over_count or self._account.first_over() is None

    async def _refuse(self) -> Message:
        """Answer instead of the application, to which the client appears disconnected."""
        over = self._account.first_over()
        assert over is not None  # it was the reason
        error = MemoryLimitError(over.name, over.limit_bytes, over.setting)
        await error_reply(error)({"type": "http"}, self.receive, self.send)
        self._is_refused = True
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the reply; status and headers are sent with the first part of the body."""
        if self._is_refused:
            return
        if message["type"] == EMPTY_REPLY:
            self._begin()
            self.is_answered = True
            self._tunnel.write(encode_frame(Kind.EMPTY, encode_start(message)))
        elif message["type"] == "http.response.start":
            self._begin()
            self._start = encode_frame(Kind.START, encode_start(message))
        elif message["type"] == "http.response.body":
            start, self._start = self._start, b""
            is_last = not message.get("more_body", False)
            self.is_answered = self.is_answered or is_last
            with suppress(TunnelEndedError):  # the next `receive` reports it
                await self._tunnel.write_body(message.get("body", b""), is_last=is_last, before=start)

    def _begin(self) -> None:
        """Give back what was charged for the body: from now on the application reads and answers in turn."""
        self._has_begun = True
        if self._charged_bytes:
            self._account.add(Purpose.INPUT, -self._charged_bytes)
            self._charged_bytes = 0


class _Served(Frames):
    """The owner's end of one tunnel."""

    def __init__(self, begin: Callable[[Frames], None]) -> None:
        super().__init__()
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve it."""
        super().connection_made(transport)
        self._begin(self)
