"""The dashboard as one ASGI application, around that of the monitoring port.

    GET    /                     leads to /ui/
    GET    /ui/assets/…          the files of the page
    …      /ui/session           signs in and out
    GET    /ui/data/{model}      a read model
    GET    /ui/live              a read model as it changes
    …      /ui/api/…             the API of the queue
    GET    /ui/…                 the page
    other paths                  the monitoring port

Without users, only requests whose Host header is a loopback name are answered: see `asgi.browser_pages`.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import MiniqueueError
from miniqueue.server.asgi.browser_pages import NOT_FOR_OTHER_HOSTS, is_for_loopback
from miniqueue.server.asgi.endpoints import JsonBodyEndpoint
from miniqueue.server.asgi.replies import JSON, Reply, error_reply, json_reply, not_allowed
from miniqueue.server.asgi.request import HttpActor
from miniqueue.server.dashboard.api import QueueApi
from miniqueue.server.dashboard.files import Assets
from miniqueue.server.dashboard.gate import READING, Gate, check_origin, check_site
from miniqueue.server.dashboard.live import Live
from miniqueue.server.dashboard.models.broker import BROKER
from miniqueue.server.dashboard.models.catalogue import SETTINGS
from miniqueue.server.dashboard.models.charts import HISTORY
from miniqueue.server.dashboard.models.clients import CONNECTIONS
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.dashboard.models.letters import DEAD
from miniqueue.server.dashboard.models.messages import MESSAGES
from miniqueue.server.dashboard.models.model import Context, Model, Models, Open
from miniqueue.server.dashboard.models.overview import OVERVIEW
from miniqueue.server.dashboard.models.sidebar import TOTALS
from miniqueue.server.dashboard.models.topic import TOPIC
from miniqueue.server.dashboard.models.topics import TOPICS
from miniqueue.server.dashboard.replies import secured
from miniqueue.server.dashboard.sessions import Sessions
from miniqueue.server.dashboard.signing_in import MAX_BODY_BYTES, SigningIn
from miniqueue.server.security.authentication import Authenticator

MODELS: Final[Mapping[str, Model]] = {
    "broker": BROKER,
    "connections": CONNECTIONS,
    "dead": DEAD,
    "history": HISTORY,
    "messages": MESSAGES,
    "overview": OVERVIEW,
    "settings": SETTINGS,
    "topic": TOPIC,
    "topics": TOPICS,
    "totals": TOTALS,
}
_DATA: Final = "/ui/data/"
#: What only the page asks for; links of other sites can lead to the other paths.
_FOR_THE_PAGE: Final = ("/ui/api", "/ui/data", "/ui/live", "/ui/session")
_TO_THE_PAGE: Final = Reply(303, b"", b"", [(b"location", b"/ui/")])
_Endpoint: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Sharing(NamedTuple):
    """How several processes share the page.

    Attributes:
      share: returns what opens the read models of all, from what they are made of and what opens those of one.
      session_prefix: the beginning of the tokens of the sessions of this process.
    """

    share: Callable[[Context, Open], Open]
    session_prefix: str


class DashboardApp:
    """Serves the page, and passes all other requests on.

    Args:
      app: the application of the monitoring port.
      queue: the HTTP application of the queue.
      broker: the broker.
      sign_in: authenticates users; None: there are none.
      facts: what is shown of the process.
      sharing: how several processes share the page; None: there is only this one.
      monotonic: the clock, in seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        queue: ASGIApp,
        broker: Broker,
        sign_in: Authenticator | None,
        facts: Facts,
        *,
        sharing: Sharing | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._broker = broker
        self._is_for_loopback_only = sign_in is None
        is_secure = facts.is_exposed
        context = Context(broker, facts, sign_in)
        sessions = Sessions(
            lambda user: sign_in is not None and sign_in.is_current(user),
            broker.memory,
            monotonic,
            "" if sharing is None else sharing.session_prefix,
        )
        self._gate = Gate(sign_in, sessions, facts.monitor_port, is_secure=is_secure)
        own = Models(context, MODELS).open
        self._open = own if sharing is None else sharing.share(context, own)
        self.live = Live(context, self._open, self._gate, monotonic)
        self._assets = Assets()
        self._api = QueueApi(queue, self._gate)
        #: What answers requests that change nothing, by the beginning of their path; other paths are views of the page.
        self._areas: Mapping[str, _Endpoint] = {
            "/": _TO_THE_PAGE,
            "/ui": _TO_THE_PAGE,
            "/ui/assets": self._assets.file,
            "/ui/data": self._data,
            "/ui/live": self.live,
        }
        signing_in = self._signing_in = SigningIn(broker, self._gate, facts)
        self._begin_session = JsonBodyEndpoint(signing_in.begin, MAX_BODY_BYTES)
        self._end_session = JsonBodyEndpoint(signing_in.end, MAX_BODY_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or not (path in ("/", "/ui") or path.startswith("/ui/")):
            await self._app(scope, receive, send)
            return
        send = secured(send)
        if self._is_for_loopback_only and not is_for_loopback(scope["headers"]):
            await NOT_FOR_OTHER_HOSTS(scope, receive, send)
            return
        actor = HttpActor(scope, self._broker.memory)
        CURRENT_ACTOR.set(actor)
        try:
            check_origin(scope)
            if path.startswith(_FOR_THE_PAGE):
                check_site(scope)
            await self._endpoint(path, scope["method"])(scope, receive, send)
        except MiniqueueError as error:
            await error_reply(error)(scope, receive, send)

    def _endpoint(self, path: str, method: str) -> _Endpoint:
        """Return what answers a request."""
        area = "/".join(path.split("/", 3)[:3])
        if area == "/ui/api":
            return self._api
        if path == "/ui/session":
            return self._session(method)
        if method not in READING:
            return not_allowed(", ".join(READING))
        if area == "/ui/live" and method != "GET":
            return not_allowed("GET")  # a stream without content would last until the client leaves
        return self._areas.get(area, self._assets.shell)

    def _session(self, method: str) -> _Endpoint:
        if method in READING:
            return self._show_session
        endpoints: dict[str, _Endpoint] = {"POST": self._begin_session, "DELETE": self._end_session}
        return endpoints.get(method, not_allowed("DELETE, GET, HEAD, POST"))

    async def _show_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        await json_reply(200, await self._signing_in.show(scope))(scope, receive, send)

    async def _data(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a read model."""
        user = await self._gate.user_of(scope)
        view = scope["path"].removeprefix(_DATA).encode() + b"?" + scope["query_string"]
        content = await self._open(view, user)()
        body = orjson.dumps({"nowMs": self._broker.clock.now_ms(), **content})
        await Reply(200, body, JSON)(scope, receive, send)

    def drain(self) -> None:
        """End all streams, and refuse new ones."""
        self.live.drain()
