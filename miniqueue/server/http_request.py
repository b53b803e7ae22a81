"""`POST /request/{topic}` waits for the reply to its body; `POST /topics/{topic}/reply` is that reply.

    request ──▶ published ──▶ waits ──▶ 200, the reply as it was given; 504 when there was none in time
       └ the client leaves: nobody waits any more; the message expires when the wait would have been over

The query of a request has `timeout` and what `POST /publish/{topic}` knows; that of a reply has `receipt`.
"""

import asyncio
from functools import partial
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.requesting import Request
from miniqueue.core.publish_options import NO_OPTIONS, PublishOptions
from miniqueue.core.request_options import DEFAULT_TIMEOUT_SECONDS, check_request, parse_timeout
from miniqueue.errors import DrainingError, MiniqueueError, RequestError
from miniqueue.server.http_publish import is_json_lines, options_of, read_body
from miniqueue.server.http_query import query_of
from miniqueue.server.http_streams import OpenStreams
from miniqueue.server.leaving import until_gone
from miniqueue.server.paths import topic_of, topic_within
from miniqueue.server.replies import OK, Reply, error_reply

BYTES = b"application/octet-stream"


class RequestEndpoint:
    """Answers a request with the reply to the message that it brings."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client leaves before."""
        try:
            self._streams.check()
            if is_json_lines(scope):
                raise RequestError("a request has one message: its body")
            timeout_seconds, options = _options(scope)
            payload = await read_body(receive, self._broker.max_message_bytes)
            if payload is None:
                return
            waiting = _Waiting(self._broker)
            with self._streams.holding(waiting, scope.get("user"), only_waits=True):
                begin = partial(waiting.begin, topic_of(scope), payload, options, timeout_seconds)
                await self._broker.crowd.admit(begin)
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
    """Settles a message by its receipt, and passes the body on as the reply to it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = OK
        try:
            query = query_of(scope, ("receipt",))
            if "receipt" not in query:
                raise RequestError("the query has the receipt of the message")
            payload = await read_body(receive, self._broker.max_message_bytes)
            if payload is None:
                return
            self._broker.requests.reply(topic_within(scope), query["receipt"].encode(), payload)
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            reply = error_reply(error)
        await reply(scope, receive, send)


class _Waiting:
    """One request, from its message to its reply."""

    def __init__(self, broker: Broker) -> None:
        self._requests = broker.requests
        self._answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._request: Request | None = None
        self._is_over = False

    def begin(self, topic: bytes, payload: bytes, options: PublishOptions, timeout_seconds: float) -> None:
        """Publish the message; raises MiniqueueError."""
        if self._is_over:  # while it waited for room
            raise DrainingError
        self._request = self._requests.request(topic, payload, options, timeout_seconds, self._answer, self._fail)

    async def run(self, receive: Receive) -> bytes | None:
        """Return the reply, or None when the client has left; raises MiniqueueError."""
        listener = asyncio.ensure_future(until_gone(receive))
        listener.add_done_callback(lambda _: self.end())
        try:
            answer = await self._answered
        except MiniqueueError:
            if listener.done():
                return None
            raise
        finally:
            listener.cancel()
            self.end()
        return answer

    def end(self) -> None:
        """Wait no longer."""
        self._is_over = True
        if self._request is not None:
            self._requests.give_up(self._request)

    def _answer(self, payload: bytes) -> None:
        if not self._answered.done():  # as it is when the server has cancelled the request
            self._answered.set_result(payload)

    def _fail(self, error: MiniqueueError) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)


def _options(scope: Scope) -> tuple[float, PublishOptions]:
    """Return timeout and options that a request says."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    timeouts = [value for name, value in query if name == "timeout"]
    if len(timeouts) > 1:
        raise RequestError("the parameter timeout stands there twice")
    timeout_seconds = parse_timeout(timeouts[0]) if timeouts else DEFAULT_TIMEOUT_SECONDS
    return timeout_seconds, check_request(options_of(scope, besides="timeout") or NO_OPTIONS)
