"""What operators and their tools ask, over plain HTTP on loopback, or over TLS.

    GET /livez      200 while the process answers at all; also /healthz
    GET /readyz     200 until the broker stops, with what it refuses; 503 from then on
    GET /metrics    for Prometheus, in its text format
    GET /stats      the same counts as JSON
    GET /backup     all that is stored, for `miniqueue backup` (backup_reply)

Knows the broker's counts; knows neither the messages nor the queue's own protocols.
"""

import time
from collections.abc import Awaitable, Callable, Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.registry import Collector
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue import __version__
from miniqueue.access.rights import Right
from miniqueue.broker import Broker
from miniqueue.errors import DrainingError
from miniqueue.server.backup_reply import BackupReply
from miniqueue.server.gate import Gate, routes
from miniqueue.server.loop_metrics import LoopCollector
from miniqueue.server.metrics import BrokerCollector
from miniqueue.server.refusal_metrics import RefusalCollector
from miniqueue.server.refusals import Refusals
from miniqueue.server.replies import NOT_FOUND, Reply, json_reply, refuse_websocket
from miniqueue.server.sign_in import SignIn
from miniqueue.server.topic_metrics import TopicMetrics
from miniqueue.server.web_pages import ForLoopback

#: Pages that tell the names of topics.
_WITH_NAMES = ("/metrics", "/stats")


class MonitorApp:
    """Tells how a broker is, as an ASGI application.

    Args:
      broker: of which it tells.
      sign_in: knows the users; None where everybody may see everything.
      refusals: what HTTP clients were refused; None where nobody counts.
      collectors: of other metrics.
      is_exposed: whether other machines reach it, so that `Host` may be any name.
    """

    def __init__(
        self,
        broker: Broker,
        sign_in: SignIn | None = None,
        refusals: Refusals | None = None,
        collectors: Iterable[Collector] = (),
        *,
        is_exposed: bool = False,
    ) -> None:
        self._broker = broker
        self._started_at_seconds = time.monotonic()
        self._registry = CollectorRegistry()
        self._registry.register(BrokerCollector(broker))
        self._topic_metrics = TopicMetrics(broker)
        self._registry.register(LoopCollector())
        if refusals is not None:
            self._registry.register(RefusalCollector(refusals))
        for collector in collectors:
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        pages = {"/healthz": self.health, "/livez": self.health, "/metrics": self.metrics, "/stats": self.stats}
        endpoints: dict[tuple[str, str], ASGIApp] = {("GET", path): Page(page) for path, page in pages.items()}
        if (
            sign_in is None and not is_exposed
        ):  # nobody has to sign in, so that a page could read what is not for everybody
            endpoints |= {route: ForLoopback(page) for route, page in endpoints.items() if route[1] in _WITH_NAMES}
        endpoints["GET", "/readyz"] = Readiness(broker, sign_in)
        endpoints["GET", "/backup"] = BackupReply(broker, sign_in, is_exposed=is_exposed)
        self._router = Router(
            [Route(path, endpoint) for path, endpoint in routes(endpoints, sign_in).items()],
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
        """Return that the process answers."""
        return json_reply(200, {"status": "ok"})

    async def metrics(self) -> Reply:
        """Return the metrics in Prometheus' text format."""
        of_topics = await self._topic_metrics.render()
        return Reply(200, of_topics + generate_latest(self._registry), CONTENT_TYPE_LATEST.encode())

    async def stats(self) -> Reply:
        """Return version, uptime and the counts of every topic; counts are of messages, or as their names say."""
        refusal = self._broker.refusal
        topics = {topic.name.decode(): vars(topic.stats()) async for topic in self._broker.looker.everything()}
        return json_reply(
            200,
            {
                "version": __version__,
                "uptime_seconds": round(time.monotonic() - self._started_at_seconds, 3),
                "refusal": None if refusal is None else refusal.code,
                "disk_free_bytes": self._broker.free_bytes,
                "topics": topics,
            },
        )


class Page:
    """An endpoint whose reply is made anew for every request."""

    def __init__(self, make_reply: Callable[[], Awaitable[Reply]]) -> None:
        self._make_reply = make_reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = await self._make_reply()
        await reply(scope, receive, send)


class Readiness:
    """An endpoint that tells whether the broker can be talked to, and what it refuses.

    Reasons, which name topics, are for users who may monitor the broker, or for everybody if there are no users.

    Args:
      broker: of which it tells.
      sign_in: knows the users; None if there are none.
    """

    def __init__(self, broker: Broker, sign_in: SignIn | None) -> None:
        self._broker = broker
        self._gate = None if sign_in is None else Gate(sign_in)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = await self._reply(scope)
        await reply(scope, receive, send)

    async def _reply(self, scope: Scope) -> Reply:
        refusal = self._broker.refusal
        reasons = [] if refusal is None else [str(refusal())]
        reasons += [f"topic {name.decode()}: {fault}" for name, fault in self._broker.faults().items()]
        if not reasons:
            return json_reply(200, {"status": "ok"})
        is_stopping = refusal is DrainingError
        body: dict[str, object] = {"status": "not ready" if is_stopping else "degraded"}
        if refusal is not None:
            body["refused"] = ["publish"]
        if self._gate is None or await self._gate.may(scope, Right.MONITOR):
            body["reasons"] = reasons
        return json_reply(503 if is_stopping else 200, body)
