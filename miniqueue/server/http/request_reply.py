"""`POST /request/{topic}` publishes a request and waits for its reply; `POST /topics/{topic}/reply` sends the reply.

    request ──▶ published ──▶ waits ──▶ 200, with the payload of the reply; 504 if there was none in time
       └ the client disconnects: the wait ends; the request's message still expires at the end of its timeout

The query of a request has `timeout` and the options of `POST /publish/{topic}`; that of a reply has `receipt`.
"""

from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.leases.request_reply import Request
from miniqueue.core.options.publish import (
    DEFAULT_TIMEOUT_SECONDS,
    NO_OPTIONS,
    PublishOptions,
    check_request,
    parse_timeout,
)
from miniqueue.errors import DrainingError, MiniqueueError, RequestError
from miniqueue.server.asgi.replies import OK, Reply, error_reply
from miniqueue.server.asgi.request import parameters_of, query_of, read_body
from miniqueue.server.asgi.routing import topic_of, topic_within
from miniqueue.server.http.open_streams import OpenStreams, StreamEndpoint, WaitsForAnswer
from miniqueue.server.http.publish import is_json_lines, options_of

BYTES = b"application/octet-stream"


def request_endpoints(broker: Broker, streams: OpenStreams) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    return {
        ("POST", "/request/{topic}"): StreamEndpoint(streams, partial(_request, broker), only_waits=True),
        ("POST", "/topics/{topic}/reply"): ReplyEndpoint(broker),
    }


def _request(broker: Broker, scope: Scope) -> "_WaitsForReply":
    if is_json_lines(scope):
        raise RequestError("invalid content type; a request must be one message, not JSON lines")
    return _WaitsForReply(broker, topic_of(scope), *_options(scope))


class ReplyEndpoint:
    """Settles a message by its receipt, and sends the body to its requester as the reply."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = OK
        try:
            query = query_of(scope, ("receipt",))
            if "receipt" not in query:
                raise RequestError("missing parameter; requires receipt=, the receipt of the message")
            payload = await read_body(receive, self._broker.max_message_bytes)
            if payload is None:
                return
            self._broker.requests.reply(topic_within(scope), query["receipt"], payload)
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            reply = error_reply(error)
        await reply(scope, receive, send)


class _WaitsForReply(WaitsForAnswer[bytes]):
    """One request, from the first part of its body to the reply."""

    def __init__(self, broker: Broker, topic: bytes, timeout_seconds: float, options: PublishOptions) -> None:
        super().__init__()
        self._broker = broker
        self._topic = topic
        self._timeout_seconds = timeout_seconds
        self._options = options
        self._request: Request | None = None
        self._is_over = False

    async def obtain(self, receive: Receive) -> Reply | None:
        """Publish the body; return the reply to it, or None if the client has disconnected; raises MiniqueueError."""
        try:
            answer = await self.wait(receive) if await self._publish(receive) else None
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            raise
        return None if answer is None else Reply(200, answer, BYTES)

    async def _publish(self, receive: Receive) -> bool:
        """Publish the body; return whether the client has sent all of it. Raises MiniqueueError."""
        payload = await read_body(receive, self._broker.max_message_bytes)
        if payload is None:
            return False
        await self._broker.backpressure.admit(partial(self._begin, payload))
        return True

    def _begin(self, payload: bytes) -> None:
        """Publish the message; raises MiniqueueError."""
        if self._is_over:  # the server began to drain before the body had arrived, or while there was no room for it
            raise DrainingError
        self._request = self._broker.requests.request(
            self._topic, payload, self._options, self._timeout_seconds, self.answer, self.fail
        )

    def end(self) -> None:
        """Stop waiting for the reply."""
        self._is_over = True
        if self._request is not None:
            self._broker.requests.give_up(self._request)


def _options(scope: Scope) -> tuple[float, PublishOptions]:
    """Return the timeout and the options in the query and headers of a request."""
    timeouts = [value.decode("utf-8", "replace") for name, value in parameters_of(scope) if name == "timeout"]
    if len(timeouts) > 1:
        raise RequestError("invalid parameters; timeout must be set at most once")
    timeout_seconds = parse_timeout(timeouts[0]) if timeouts else DEFAULT_TIMEOUT_SECONDS
    return timeout_seconds, check_request(options_of(scope, excluded="timeout") or NO_OPTIONS)
