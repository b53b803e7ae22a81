"""The monitoring port, as one ASGI application: over plain HTTP on loopback, over TLS elsewhere.

    GET /livez      200 while the process can answer; also /healthz
    GET /readyz     200 with what the broker rejects; 503 from the moment that it stops
    GET /metrics    metrics in the text format of Prometheus
    GET /stats      the same counts as JSON
    GET /backup     the whole store, for `miniqueue backup` (`backup`)
    GET /changes    what was written after it, for copies that follow (`changes`)

Knows the broker's counts; knows neither messages nor the protocols of the queue.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import asdict

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.registry import Collector
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue import __version__
from miniqueue.access.rights import Right
from miniqueue.broker import Broker
from miniqueue.broker.inspect.inspect import Figures
from miniqueue.broker.model.views import stats_of
from miniqueue.broker.runtime.accounts import Memory
from miniqueue.broker.runtime.tasks import SharedResult
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import DrainingError
from miniqueue.server.asgi.authorization import AuthMiddleware, routes
from miniqueue.server.asgi.browser_pages import ForLoopback
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.asgi.replies import NOT_FOUND, Reply, json_reply, refuse_websocket
from miniqueue.server.monitor.backup import BackupReply
from miniqueue.server.monitor.changes import ChangesReply
from miniqueue.server.monitor.followers import FOLLOWER_ROWS, Followers
from miniqueue.server.monitor.metrics import BROKER_ROWS, HTTP_REFUSAL_ROWS, LOOP_ROWS
from miniqueue.server.monitor.topic_metrics import TopicMetrics
from miniqueue.server.monitor.wholes import combined, in_wholes
from miniqueue.server.process.metric_rows import RowCollector
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.views.outbox import outbox_fields
from miniqueue.wire.json_parts import json_fragment

#: Pages that contain the names of topics.
_WITH_NAMES = ("/metrics", "/stats")


class MonitorApp:
    """Reports the state of a broker, as an ASGI application.

    Args:
      broker: the broker whose state is reported.
      sign_in: authenticates the users; with None, every client may see everything.
      refusals: counts of rejected HTTP requests; None: not reported.
      collectors: collectors of further metrics.
      is_exposed: whether other machines can reach the port, so that `Host` can be any name.

    Attributes:
      gate: authenticates requests; None if there are no users.
      follower_lags: returns how far each copy that follows is behind, in seconds and bytes.
    """

    def __init__(
        self,
        broker: Broker,
        sign_in: Authenticator | None = None,
        refusals: Refusals | None = None,
        collectors: Iterable[Collector] = (),
        *,
        is_exposed: bool = False,
    ) -> None:
        self._broker = broker
        self._started_at_seconds = time.monotonic()
        self._registry = CollectorRegistry()
        self._registry.register(RowCollector(BROKER_ROWS, broker))
        self._topic_metrics = TopicMetrics(broker)
        self._rendering: SharedResult[Reply] = SharedResult()  # however many clients ask at the same time
        self._counting: SharedResult[Reply] = SharedResult()
        self._registry.register(RowCollector(LOOP_ROWS, None))
        if refusals is not None:
            self._registry.register(RowCollector(HTTP_REFUSAL_ROWS, refusals))
        for collector in collectors:
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        pages = {"/healthz": self.health, "/livez": self.health, "/metrics": self.metrics, "/stats": self.stats}
        endpoints: dict[tuple[str, str], ASGIApp] = {("GET", path): Page(page) for path, page in pages.items()}
        if sign_in is None and not is_exposed:
            # Without authentication, a web page in a browser on this machine could read the names of topics.
            endpoints |= {route: ForLoopback(page) for route, page in endpoints.items() if route[1] in _WITH_NAMES}
        followers = Followers(broker, time.monotonic)
        self.follower_lags = followers.lags
        self._registry.register(RowCollector(FOLLOWER_ROWS, followers))
        endpoints["GET", "/readyz"] = Readiness(broker, followers, sign_in)
        endpoints["GET", "/backup"] = BackupReply(broker, followers, sign_in, is_exposed=is_exposed)
        changes = ChangesReply(broker, followers)
        endpoints["GET", "/changes"] = changes if is_exposed else ForLoopback(changes)
        self.gate = None if sign_in is None else AuthMiddleware(sign_in)
        self._router = Router(
            [Route(path, endpoint) for path, endpoint in routes(endpoints, self.gate).items()],
            redirect_slashes=False,
            default=NOT_FOUND,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await self._router(scope, receive, send)
        elif scope["type"] == "websocket":
            await refuse_websocket(scope, send)

    async def health(self) -> Reply:
        """Return the reply that shows that the process can answer."""
        return json_reply(200, {"status": "ok"})

    async def metrics(self) -> Reply:
        """Return the metrics in Prometheus' text format."""
        return await self._rendering.get(self._render)

    async def _render(self) -> Reply:
        topic_metrics = await self._topic_metrics.render()
        return Reply(200, topic_metrics + generate_latest(self._registry), CONTENT_TYPE_LATEST.encode())

    async def stats(self) -> Reply:
        """Return version, uptime, and the counts of every topic; a count is of messages unless its name differs."""
        return await self._counting.get(self._count)

    async def _count(self) -> Reply:
        topics = {}
        async with aclosing(in_wholes(self._counts())) as counted:
            async for name, parts in counted:
                topics[name] = json_fragment(combined(parts))
        refusal = self._broker.refusal
        return json_reply(
            200,
            {
                "version": __version__,
                "uptime_seconds": round(time.monotonic() - self._started_at_seconds, 3),
                "refusal": None if refusal is None else refusal.code,
                "disk_free_bytes": self._broker.free_bytes,
                "memory": _memory_of(self._broker.memory),
                **outbox_fields(self._broker),
                "topics": topics,
            },
        )

    async def _counts(self) -> AsyncGenerator[tuple[bytes, Figures], None]:
        async with aclosing(self._broker.inspect.everything()) as topics:
            async for topic in topics:
                yield topic.name, asdict(stats_of(topic))


def _memory_of(memory: Memory) -> dict[str, object]:
    """Return the memory that clients make the broker use: the sum, by purpose, and by user."""
    return {
        "max_bytes": memory.max_bytes,
        "used_bytes": memory.used_bytes,
        "purposes": {purpose.value: size_bytes for purpose, size_bytes in memory.amounts().items()},
        "users": {name: account.used_bytes for name, account in sorted(memory.users.items())},
    }


class Page:
    """An endpoint that creates a new reply for each request."""

    def __init__(self, make_reply: Callable[[], Awaitable[Reply]]) -> None:
        self._make_reply = make_reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = await self._make_reply()
        await reply(scope, receive, send)


class Readiness:
    """An endpoint that reports whether the broker can serve clients, what it rejects, and how far copies are behind.

    The reasons name topics, so they and the copies are reported only to users who may monitor the broker, if there are
    users.

    Args:
      broker: the broker whose state is reported.
      followers: the copies that follow it.
      sign_in: authenticates the users; None if there are none.
    """

    def __init__(self, broker: Broker, followers: Followers, sign_in: Authenticator | None) -> None:
        self._broker = broker
        self._followers = followers
        self._gate = None if sign_in is None else AuthMiddleware(sign_in)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = await self._reply(scope)
        await reply(scope, receive, send)

    async def _reply(self, scope: Scope) -> Reply:
        refusal = self._broker.refusal
        reasons = [] if refusal is None else [str(refusal())]
        reasons += [f"topic {whole_of(name).decode()}: {fault}" for name, fault in self._broker.faults().items()]
        lags = self._followers.lags()
        is_stopping = refusal is DrainingError
        body: dict[str, object] = {"status": "not ready" if is_stopping else "degraded" if reasons else "ok"}
        if refusal is not None:
            body["refused"] = ["publish"]
        if (reasons or lags) and (self._gate is None or await self._gate.may(scope, Right.MONITOR)):
            if reasons:
                body["reasons"] = reasons
            if lags:
                body["followers"] = {
                    name: {"lag_seconds": seconds, "lag_bytes": size_bytes}
                    for name, (seconds, size_bytes) in lags.items()
                }
        return json_reply(503 if is_stopping else 200, body)
