"""The HTTP port of the queue, as one ASGI application.

    POST   /publish/{topic}      the body is one message, or with application/x-ndjson one message per line
    POST   /request/{topic}      the body is one message; the response is the reply to it
    POST   /subscribe/{topic}    commands in, deliveries out, on one stream (HTTP/2)
    DELETE /{topic}              deletes a topic
    …      /topics/{topic}       settings of a topic (`topics`), its groups (`groups`), its log (`logs`)
    POST   /topics/{topic}/…     receives messages (`receive`) and settles them by receipt (`settle`)
    GET    /topics…              inspects topics and messages (`inspect`), searches for messages (`messages`)
    …      /tasks…               acts on many messages (`tasks`)
    …      /schedules…           messages that are published on a schedule (`schedules`)
    GET    /leases               leased messages with their receipts (`leases`)
    GET    /usage                what users have, and may have (`usage`)
    GET    /events               what happens in the broker, as server-sent events (`events`)

Knows the broker and ASGI; knows neither sockets nor the server that calls it. The endpoints are raw ASGI applications:
request and response objects would cost more than the publish itself, and would read the command stream to detect
disconnects. A general router would be too slow, too: nearly all routes end with a topic, so that one look-up in a
dictionary finds the endpoint.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.model.shares import Pool
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.server.asgi.authorization import AuthMiddleware, routes
from miniqueue.server.asgi.browser_pages import NOT_FOR_OTHER_SITES, is_from_another_site
from miniqueue.server.asgi.endpoints import ActEndpoint
from miniqueue.server.asgi.replies import NOT_FOUND, refuse_websocket
from miniqueue.server.asgi.request import HttpActor
from miniqueue.server.asgi.routing import Methods, route_below_topic, topic_of, words_of
from miniqueue.server.http.events import event_endpoints
from miniqueue.server.http.groups import group_endpoints
from miniqueue.server.http.inspect import inspect_endpoints
from miniqueue.server.http.leases import lease_endpoints
from miniqueue.server.http.logs import read_endpoints
from miniqueue.server.http.messages import message_endpoints
from miniqueue.server.http.open_streams import OpenStreams
from miniqueue.server.http.publish import PublishEndpoint
from miniqueue.server.http.receive import receive_endpoints
from miniqueue.server.http.request_reply import request_endpoints
from miniqueue.server.http.schedules import schedule_endpoints
from miniqueue.server.http.settle import settle_endpoints
from miniqueue.server.http.subscribe import subscribe_endpoints
from miniqueue.server.http.tasks import task_endpoints
from miniqueue.server.http.topics import pause_endpoints, topic_endpoints
from miniqueue.server.http.transactions import TransactionEndpoint
from miniqueue.server.http.usage import usage_endpoints
from miniqueue.server.security.authentication import Authenticator


class HttpApp:
    """Serves a broker to HTTP clients.

    Args:
      broker: the broker that executes the requests.
      sign_in: authenticates the users; with None, every client may do everything.

    Attributes:
      gate: authenticates requests; None if there are no users.
    """

    def __init__(self, broker: Broker, sign_in: Authenticator | None = None) -> None:
        self._streams = OpenStreams()
        self._sign_in = sign_in
        # Replies 200 even if the topic does not exist.
        delete = ActEndpoint(lambda scope: broker.delete_topic(topic_of(scope)))
        endpoints: dict[tuple[str, str], ASGIApp] = {
            ("POST", "/publish/{topic}"): PublishEndpoint(broker, self._streams),
            ("DELETE", "/{topic}"): delete,
            **subscribe_endpoints(broker, self._streams),
            **receive_endpoints(broker, self._streams),
            **request_endpoints(broker, self._streams),
            **event_endpoints(broker, self._streams),
            ("POST", "/transactions"): TransactionEndpoint(broker),
            ("DELETE", "/topics/{topic}"): delete,
            **topic_endpoints(broker),
            **settle_endpoints(broker),
            **schedule_endpoints(broker),
            # Topics can have the names of these paths, which have other methods.
            ("DELETE", "/events"): delete,
            ("DELETE", "/leases"): delete,
            ("DELETE", "/receive"): delete,
            ("DELETE", "/schedules"): delete,
            ("DELETE", "/tasks"): delete,
            ("DELETE", "/topics"): delete,
            ("DELETE", "/transactions"): delete,
            ("DELETE", "/usage"): delete,
            **inspect_endpoints(broker),
            **message_endpoints(broker),
            **task_endpoints(broker),
            **pause_endpoints(broker),
            **group_endpoints(broker),
            **read_endpoints(broker),
            **lease_endpoints(broker),
            **usage_endpoints(broker),
        }
        self._memory, self._others = broker.memory, broker.others
        admit = partial(broker.shares.admit, Pool.CONNECTIONS)
        self._waking, self._at_rest = broker.waking, broker.waking.at_rest
        self.gate = None if sign_in is None else AuthMiddleware(sign_in, admit, self._wake)
        self._routes: Mapping[str, Methods] = MappingProxyType(routes(endpoints, self.gate))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            self._others.are_waiting = True
            CURRENT_ACTOR.set(HttpActor(scope, self._memory))
            is_foreign = is_from_another_site(scope["headers"])
            methods = None if is_foreign else self._methods(scope["path"])
            if methods is not None:
                if self._at_rest and self.gate is None:
                    await self._wake(scope)
                await methods.of(scope["method"])(scope, receive, send)
            else:
                await (NOT_FOR_OTHER_SITES if is_foreign else NOT_FOUND)(scope, receive, send)
        elif scope["type"] == "websocket":
            await refuse_websocket(scope, send)

    async def _wake(self, scope: Scope) -> None:
        """Wake the topics that the path or the query of a request names."""
        if self._at_rest:
            await self._waking.wake_named(words_of(scope))

    def _methods(self, path: str) -> Methods | None:
        """Return the methods of a path, None if it is unknown."""
        # Most routes end with the name of a topic, so that form is looked up first.
        parent, slash, topic = path.rpartition("/")
        if not slash or not topic:
            return None
        if parent:
            return self._routes.get(parent + "/{topic}") or self._routes.get(route_below_topic(path))
        return self._routes.get(path) or self._routes["/{topic}"]

    def answer_waiting(self) -> None:
        """Answer every request that waits for messages or for a reply."""
        self._streams.answer_waiting()

    def drain(self) -> None:
        """End every stream, and reject new ones; leased messages return, and lines that were read are answered."""
        self._streams.drain()

    def cut_off(self) -> None:
        """End the streams of users who were removed or changed."""
        if self._sign_in is not None:
            self._streams.cut_off(self._sign_in.is_current)
