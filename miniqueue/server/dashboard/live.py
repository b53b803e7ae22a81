"""`/ui/live?view=…`: a read model as it changes, and the counts of the sidebar, as server-sent events.

    viewers of equal rights and view ─┐
    viewers of equal rights and view ─┴▶ a channel ─ once a second ─▶ made once ─ changed? ─▶ the event, to each viewer

A viewer that does not read gets what is new when it reads again, and nothing in between: it holds one event of each
kind. If it accepts nothing for `SEND_SECONDS`, its stream ends. Without viewers, nothing is made.

    event: view      what the read model answers           event: error    it cannot be shown: {"code","error","status"}
    event: totals    the counts of the sidebar, at least every `TOTALS_SECONDS`
"""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import User
from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose, account_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import DrainingError, LimitReachedError, MiniqueueError, NotAuthenticatedError, RequestError
from miniqueue.server.asgi.replies import start_message, status_of
from miniqueue.server.asgi.request import query_of, until_gone
from miniqueue.server.dashboard.gate import Gate
from miniqueue.server.dashboard.models.model import Context, Make, Open
from miniqueue.server.dashboard.models.topics import MAX_COUNT

INTERVAL_SECONDS: Final = 1.0
#: The longest time without the counts, by which the page sees that the broker lives.
TOTALS_SECONDS: Final = 15.0
#: The time in which a viewer must accept an event.
SEND_SECONDS: Final = 10.0
MAX_VIEWERS: Final = 100
MAX_VIEWERS_OF_USER: Final = 20
#: Viewers to which an event is sent in one iteration of the event loop; each takes 0.2 ms.
VIEWERS_IN_TURN: Final = 10
#: Maximum length of a view: a long filter.
MAX_VIEW_BYTES: Final = 2_000
#: What is kept of a view besides what was made last, at most: its query, and the names on its page, which keep their
#: order even after their topics were deleted.
KEPT_BYTES: Final = MAX_VIEW_BYTES + 300 * MAX_COUNT
#: The read model of the counts.
TOTALS: Final = b"totals"
#: Sets how long a browser waits before it connects again.
_RETRY: Final = b"retry: 2000\n\n"
_START: Final = start_message(HTTPStatus.OK, [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")])

log = structlog.get_logger()


class Viewer:
    """A stream of one tab.

    Args:
      user: the user of the page; None if there are no users.
      is_present: returns whether the user is still signed in, unchanged.
      account: is charged for events that were not sent yet.
    """

    def __init__(self, user: User | None, is_present: Callable[[], bool], account: MemoryAccount) -> None:
        self.user = user
        self.is_present = is_present
        self._account = account
        self._pending: dict[str, bytes] = {}
        self._has_news = asyncio.Event()
        self._is_ended = False

    def offer(self, kind: str, event: bytes) -> None:
        """Send an event when the previous ones were sent; it replaces one of its kind that still waits."""
        before = self._pending.pop(kind, b"")
        self._pending[kind] = event
        self._account.add(Purpose.OUTPUT, len(event) - len(before))
        self._has_news.set()

    def end(self) -> None:
        """End the stream after the events that wait."""
        self._is_ended = True
        self._has_news.set()

    async def run(self, receive: Receive, send: Send) -> None:
        """Send events until the client, or `end`, ends the stream, or the client accepts none."""
        watching = asyncio.ensure_future(until_gone(receive))
        watching.add_done_callback(lambda _: self.end())
        try:
            await send(_START)
            await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
            while not (self._is_ended and not self._pending) and not watching.done():
                await self._has_news.wait()
                self._has_news.clear()
                if body := self._take():
                    async with asyncio.timeout(SEND_SECONDS):
                        await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            log.info("a viewer of the dashboard accepts nothing; its stream was ended", seconds=SEND_SECONDS)
        finally:
            watching.cancel()

    def close(self) -> None:
        """Give back what was not sent."""
        self._take()

    def _take(self) -> bytes:
        body = b"".join(self._pending.values())
        self._pending.clear()
        self._account.add(Purpose.OUTPUT, -len(body))
        return body


class _Channel:
    """A view that viewers with equal rights share.

    Args:
      view: its name and query; empty: only the counts.
      make: makes its content, unless it is empty.
      totals: makes the counts.
      account: is charged for what is kept, as long as there are viewers.
    """

    def __init__(self, view: bytes, make: Make | None, totals: Make, account: MemoryAccount) -> None:
        self.view = view
        self.viewers: dict[Viewer, None] = {}
        self._made = {"view": _Made(make), "totals": _Made(totals)}
        self._account = account
        self._charged_bytes = 0

    @property
    def is_made(self) -> bool:
        """Whether a new viewer was offered something."""
        return self._made["totals"].is_made

    async def refresh(self, now_ms: int, now: float) -> None:
        """Make everything again, and offer what has changed."""
        for kind, made in self._made.items():
            event = await made.again(kind, now_ms)
            self._charge()
            is_due = kind == "totals" and now - made.offered_at >= TOTALS_SECONDS
            if event is not None or is_due:
                made.offered_at = now
                await self._offer(kind, event or made.event(kind, now_ms))

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer; after the last one, nothing is charged, even if something is being made."""
        self.viewers.pop(viewer, None)
        viewer.close()
        self._charge()

    def _charge(self) -> None:
        kept_bytes = KEPT_BYTES + sum(made.size_bytes for made in self._made.values()) if self.viewers else 0
        self._account.add(Purpose.OUTPUT, kept_bytes - self._charged_bytes)
        self._charged_bytes = kept_bytes

    async def _offer(self, kind: str, event: bytes) -> None:
        """Offer an event to all viewers, to a few in one iteration of the event loop: sending it takes time."""
        for number, viewer in enumerate(list(self.viewers), 1):
            if viewer in self.viewers:
                viewer.offer(kind, event)
            if number % VIEWERS_IN_TURN == 0:
                await asyncio.sleep(0)

    def greet(self, viewer: Viewer, now_ms: int) -> None:
        """Offer a new viewer what was made last."""
        for kind, made in self._made.items():
            if made.is_made:
                viewer.offer(kind, made.event(kind, now_ms))


class _Made:
    """What was made last, without its time."""

    def __init__(self, make: Make | None) -> None:
        self._make = make
        self._content = b""
        self._error = b""
        self.offered_at = 0.0

    @property
    def is_made(self) -> bool:
        return bool(self._content or self._error)

    @property
    def size_bytes(self) -> int:
        return len(self._content) + len(self._error)

    async def again(self, kind: str, now_ms: int) -> bytes | None:
        """Make it again; return the event if it has changed."""
        if self._make is None:
            return None
        content = error = b""
        try:
            content = orjson.dumps(await self._make())
        except MiniqueueError as exc:
            error = orjson.dumps({"code": exc.code, "error": str(exc), "status": int(status_of(exc))})
        if (content, error) == (self._content, self._error):
            return None
        self._content, self._error = content, error
        return self.event(kind, now_ms)

    def event(self, kind: str, now_ms: int) -> bytes:
        """Return the event that shows it, as of now."""
        if self._error:
            return b"event: error\ndata: %b\n\n" % self._error
        return b'event: %b\ndata: {"nowMs":%d,%b\n\n' % (kind.encode(), now_ms, self._content[1:])


class Live:
    """All viewers, and the views that they show.

    Args:
      context: has the broker.
      open_model: opens the read models.
      gate: returns the users, and whether they are still signed in.
      monotonic: the clock, in seconds.
    """

    def __init__(
        self,
        context: Context,
        open_model: Open,
        gate: Gate,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._open = open_model
        self._gate = gate
        self._monotonic = monotonic
        self._channels: dict[tuple[object, bytes], _Channel] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._is_draining = False

    @property
    def viewer_count(self) -> int:
        """Number of streams."""
        return sum(len(channel.viewers) for channel in self._channels.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises MiniqueueError if the stream does not begin."""
        user = await self._gate.user_of(scope)
        view = query_of(scope, ("view",)).get("view", b"")
        if len(view) > MAX_VIEW_BYTES:
            raise RequestError(f"invalid view; must be at most {MAX_VIEW_BYTES} bytes")
        self._admit(user)
        clock, memory = self._context.broker.clock, self._context.broker.memory
        channel = self._channel(view, user)
        viewer = Viewer(user, self._gate.presence_of(scope, user), account_of(CURRENT_ACTOR.get()) or memory)
        channel.greet(viewer, clock.now_ms())
        channel.viewers[viewer] = None
        try:
            if not channel.is_made:
                await channel.refresh(clock.now_ms(), self._monotonic())
            self._begin_ticking()
            await viewer.run(receive, send)
        finally:
            self._leave(channel, viewer)

    def _admit(self, user: User | None) -> None:
        """Raise LimitReachedError or MemoryLimitError if there may be no further viewer, DrainingError at a stop."""
        if self._is_draining:
            raise DrainingError
        self._context.broker.memory.check()
        if self.viewer_count >= MAX_VIEWERS:
            raise LimitReachedError(f"{MAX_VIEWERS} pages are open already; close some of them")
        own = sum(viewer.user is user for channel in self._channels.values() for viewer in channel.viewers)
        if user is not None and own >= MAX_VIEWERS_OF_USER:
            raise LimitReachedError(f"{MAX_VIEWERS_OF_USER} pages of user {user.name} are open; close some of them")

    def _channel(self, view: bytes, user: User | None) -> _Channel:
        """Return the channel of a view, for users with equal rights, charged to the first; raises as `Open`."""
        key = _rights_of(user), view
        channel = self._channels.get(key)
        if channel is None:
            make = self._open(view, user) if view else None
            memory = self._context.broker.memory
            account = memory if user is None else memory.of_user(user.name)
            channel = self._channels[key] = _Channel(view, make, self._open(TOTALS, user), account)
        return channel

    def _leave(self, channel: _Channel, viewer: Viewer) -> None:
        channel.leave(viewer)
        if not channel.viewers:
            self._channels = {key: each for key, each in self._channels.items() if each is not channel}

    def _begin_ticking(self) -> None:
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        """Refresh all channels once a second, as long as there are any."""
        CURRENT_ACTOR.set(b"")  # not the client whose request has begun this task
        while self._channels:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.refresh()

    async def refresh(self) -> None:
        """Make all views again, and end the streams of users who were removed, or have signed out."""
        self._end_revoked()
        for channel in list(self._channels.values()):
            try:
                await channel.refresh(self._context.broker.clock.now_ms(), self._monotonic())
            except Exception:
                log.exception("a view of the dashboard failed", view=channel.view.decode("utf-8", "replace"))
                for viewer in list(channel.viewers):
                    viewer.end()

    def _end_revoked(self) -> None:
        error = NotAuthenticatedError()
        shown = {"code": error.code, "error": str(error), "status": int(status_of(error))}
        for channel in list(self._channels.values()):
            for viewer in [each for each in channel.viewers if not each.is_present()]:
                viewer.offer("error", b"event: error\ndata: %b\n\n" % orjson.dumps(shown))
                viewer.end()

    def drain(self) -> None:
        """End all streams, and refuse new ones."""
        self._is_draining = True
        for channel in self._channels.values():
            for viewer in channel.viewers:
                viewer.end()
        if self._ticking is not None:
            self._ticking.cancel()


def _rights_of(user: User | None) -> object:
    """Return what determines what a user sees: the roles, and, unless the user may monitor all, the name."""
    if user is None:
        return None
    name = "" if user.may(Right.MONITOR) else user.name
    return name, tuple(sorted((role, patterns) for role, patterns in user.roles.items()))
