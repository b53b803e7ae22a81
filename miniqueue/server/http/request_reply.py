"""`POST /request/{topic}` publishes a request and waits for its reply; `POST /topics/{topic}/reply` sends the reply.

    request ──▶ published ──▶ waits ──▶ 200, with the payload of the reply; 504 if there was none in time
       └ the client disconnects: the wait ends; the request's message still expires at the end of its timeout

The query of a request has `timeout` and the options of `POST /publish/{topic}`; that of a reply has `receipt`.
"""

from functools import partial
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

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
from miniqueue.server.asgi.request import query_of, read_body
from miniqueue.server.asgi.routing import topic_of, topic_within
from miniqueue.server.http.open_streams import OpenStreams, WaitsForAnswer
from miniqueue.server.http.publish import is_json_lines, options_of

BYTES = b"application/octet-stream"


class RequestEndpoint:
    """Publishes the body of each request, and answers with the reply to that message."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client disconnects before."""
        try:
            self._streams.check()
            if is_json_lines(scope):
                raise RequestError("invalid content type; a request must be one message, not JSON lines")
            timeout_seconds, options = _options(scope)
            payload = await read_body(receive, self._broker.max_message_bytes)
            if payload is None:
                return
            waiting = _WaitsForReply(self._broker)
            with self._streams.holding(waiting, scope.get("user"), only_waits=True):
                begin = partial(waiting.begin, topic_of(scope), payload, options, timeout_seconds)
                await self._broker.backpressure.admit(begin)
                answer = await waiting.run(receive)
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            reply = error_reply(error)
        else:
            if answer is None:
                return
            reply = Reply(200, answer, BYTES)
        await reply(scope, receive, send)


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
            self._broker.requests.reply(topic_within(scope), query["receipt"].encode(), payload)
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            reply = error_reply(error)
        await reply(scope, receive, send)


class _WaitsForReply(WaitsForAnswer[bytes]):
    """One request, from publishing its message to the reply."""

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._requests = broker.requests
        self._request: Request | None = None
        self._is_over = False

    def begin(self, topic: bytes, payload: bytes, options: PublishOptions, timeout_seconds: float) -> None:
        """Publish the message; raises MiniqueueError."""
        if self._is_over:  # the server began to drain while the request waited for uncommitted messages
            raise DrainingError
        self._request = self._requests.request(topic, payload, options, timeout_seconds, self.answer, self.fail)

    async def run(self, receive: Receive) -> bytes | None:
        """Return the reply, or None if the client has disconnected; raises MiniqueueError."""
        try:
            return await self.wait(receive)
        finally:
            self.end()

    def end(self) -> None:
        """Stop waiting for the reply."""
        self._is_over = True
        if self._request is not None:
            self._requests.give_up(self._request)


def _options(scope: Scope) -> tuple[float, PublishOptions]:
    """Return the timeout and the options in the query and headers of a request."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    timeouts = [value for name, value in query if name == "timeout"]
    if len(timeouts) > 1:
        raise RequestError("invalid parameters; timeout must be set at most once")
    timeout_seconds = parse_timeout(timeouts[0]) if timeouts else DEFAULT_TIMEOUT_SECONDS
    return timeout_seconds, check_request(options_of(scope, excluded="timeout") or NO_OPTIONS)
