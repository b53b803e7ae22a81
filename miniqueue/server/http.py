"""The HTTP side of the queue, as one ASGI application.

    POST   /publish/{topic}      the body is one message, or with application/x-ndjson one message a line
    POST   /request/{topic}      the body is one message, the reply to it is the reply
    POST   /subscribe/{topic}    commands in, deliveries out, on one stream (HTTP/2)
    DELETE /{topic}              away with it
    …      /topics/{topic}       settings of a topic (`http_topics`)
    POST   /topics/{topic}/…     receive, and settle by receipt
    GET    /topics…              a look inside (http_looking)
    …      /schedules…           messages that are published over and over

Knows the broker and ASGI; knows neither sockets nor the server that calls it. The endpoints are raw ASGI: request and
response objects would cost more than the publish, and would read the command stream to watch for a disconnect. The
same goes for a router: nearly all routes end with a topic, so finding the endpoint is a look-up.
"""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.acting import ACTING
from miniqueue.errors import MiniqueueError
from miniqueue.server import http_looking
from miniqueue.server.gate import routes
from miniqueue.server.http_actor import HttpActor
from miniqueue.server.http_groups import group_endpoints
from miniqueue.server.http_pausing import pause_endpoints
from miniqueue.server.http_publish import PublishEndpoint
from miniqueue.server.http_reading import read_endpoints
from miniqueue.server.http_receive import ReceiveEndpoint
from miniqueue.server.http_request import ReplyEndpoint, RequestEndpoint
from miniqueue.server.http_schedules import schedule_endpoints
from miniqueue.server.http_settle import settle_endpoints
from miniqueue.server.http_streams import OpenStreams
from miniqueue.server.http_subscribe import SubscribeEndpoint
from miniqueue.server.http_topics import topic_endpoints
from miniqueue.server.methods import Methods
from miniqueue.server.paths import route_below_topic, topic_of
from miniqueue.server.replies import NOT_FOUND, OK, error_reply, refuse_websocket
from miniqueue.server.sign_in import SignIn
from miniqueue.server.web_pages import NOT_FOR_PAGES, is_from_another_site


class HttpApp:
    """Serves a broker to HTTP clients.

    Args:
      broker: what they use.
      sign_in: knows the users; None where everybody may do everything.
    """

    def __init__(self, broker: Broker, sign_in: SignIn | None = None) -> None:
        self._streams = OpenStreams()
        self._sign_in = sign_in
        endpoints: dict[tuple[str, str], ASGIApp] = {
            ("POST", "/publish/{topic}"): PublishEndpoint(broker, self._streams),
            ("POST", "/subscribe/{topic}"): SubscribeEndpoint(broker, self._streams),
            ("DELETE", "/{topic}"): DeleteEndpoint(broker),
            ("POST", "/topics/{topic}/receive"): ReceiveEndpoint(broker, self._streams),
            ("POST", "/request/{topic}"): RequestEndpoint(broker, self._streams),
            ("POST", "/topics/{topic}/reply"): ReplyEndpoint(broker),
            ("DELETE", "/topics/{topic}"): DeleteEndpoint(broker),
            **topic_endpoints(broker),
            **settle_endpoints(broker),
            **schedule_endpoints(broker),
            ("DELETE", "/schedules"): DeleteEndpoint(broker),  # the same
            ("DELETE", "/topics"): DeleteEndpoint(broker),  # where GET lists them; a topic may have this name
            **http_looking.endpoints(broker),
            **pause_endpoints(broker),
            **group_endpoints(broker),
            **read_endpoints(broker),
        }
        self._routes: Mapping[str, Methods] = MappingProxyType(routes(endpoints, sign_in))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            ACTING.set(HttpActor(scope))
            is_foreign = is_from_another_site(scope["headers"])
            methods = None if is_foreign else self._methods(scope["path"])
            if methods is not None:
                await methods.of(scope["method"])(scope, receive, send)
            else:
                await (NOT_FOR_PAGES if is_foreign else NOT_FOUND)(scope, receive, send)
        elif scope["type"] == "websocket":
            await refuse_websocket(scope, send)

    def _methods(self, path: str) -> Methods | None:
        """Return what answers a path: most routes end with the name of a topic, so that is left out of the look-up."""
        parent, slash, topic = path.rpartition("/")
        if not slash or not topic:
            return None
        if parent:
            return self._routes.get(parent + "/{topic}") or self._routes.get(route_below_topic(path))
        return self._routes.get(path) or self._routes["/{topic}"]

    def answer_waiting(self) -> None:
        """Have every request answered that waits for messages or for a reply."""
        self._streams.answer_waiting()

    def drain(self) -> None:
        """End every stream: messages go back to their topics, lines that were read are answered. Let none begin."""
        self._streams.drain()

    def cut_off(self) -> None:
        """End the streams of users who are not what they were."""
        if self._sign_in is not None:
            self._streams.cut_off(self._sign_in.is_current)


class DeleteEndpoint:
    """`DELETE /{topic}`: 200, also for a topic that does not exist."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = OK
        try:
            await self._broker.delete_topic(topic_of(scope))
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)
