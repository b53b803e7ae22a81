"""`POST /topics/{topic}/receive`: receives messages once, as JSON lines.

    request ──▶ ReceiveRequest, in the topic's queue of consumers ──▶ {"receipt":…,"msg":…}
       └ the client disconnects ─▶ out of the queue, before messages are delivered in vain

The reply is sent when there are messages, or when the wait time is over. Leases of received messages do not belong to a
connection, so the reply is sent as a whole; if it gets lost, the leases expire and the messages are redelivered.
"""

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.leases.receive import ReceiveRequest, ReceiveResult
from miniqueue.core.options.consume import ReceiveOptions, parse_receive_options
from miniqueue.errors import MiniqueueError
from miniqueue.server.asgi.replies import JSON_LINES, Reply, error_reply
from miniqueue.server.asgi.request import query_of
from miniqueue.server.asgi.routing import topic_within
from miniqueue.server.http.open_streams import OpenStreams, WaitsForAnswer
from miniqueue.wire.receive_replies import json_messages


class ReceiveEndpoint:
    """Answers each request once, with messages or with none."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client disconnects before."""
        try:
            self._streams.check()
            request = _WaitsForMessages(self._broker, topic_within(scope), _options(scope))
            with self._streams.holding(request, scope.get("user"), only_waits=True):
                received = await request.run(receive)
        except MiniqueueError as error:
            reply = error_reply(error)
        else:
            if received is None:
                return
            reply = Reply(200, json_messages(received.prefix, received.leases), JSON_LINES)
        await reply(scope, receive, send)


def _options(scope: Scope) -> ReceiveOptions:
    """Return the options in the query; raises RequestError for an unknown, repeated, or invalid one."""
    return parse_receive_options(query_of(scope, ("group", "member", "count", "wait", "lease", "autoack")))


class _WaitsForMessages(WaitsForAnswer[ReceiveResult]):
    """One request, which waits in the topic's queue of consumers from its construction; raises MiniqueueError."""

    def __init__(self, broker: Broker, topic: bytes, options: ReceiveOptions) -> None:
        super().__init__()
        self._receiving: ReceiveRequest = broker.leases.receive(topic, options, self.answer, self.fail)

    async def run(self, receive: Receive) -> ReceiveResult | None:
        """Return the received messages, or None if the client has disconnected; raises MiniqueueError."""
        received = None
        try:
            received = await self.wait(receive)
        finally:
            if received is None:
                self._receiving.take_back()
        return received

    def end(self) -> None:
        """Stop waiting, and answer without messages."""
        self._receiving.give_up()
