"""`POST /topics/{topic}/receive`: messages once, as JSON lines; the reply begins when there are some, or time is up.

    request ──▶ Receiving, in the topic's line ──▶ {"receipt":…,"msg":…}
       └ the client leaves ─▶ out of the line, before a message is handed out in vain

What is handed out is leased to nobody's connection, so the reply is whole, and may get lost without harm.
"""

import asyncio

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.receiving import Received, Receiving
from miniqueue.core.receiving import ReceiveOptions, parse_receive_options
from miniqueue.errors import MiniqueueError
from miniqueue.server.http_query import query_of
from miniqueue.server.http_streams import OpenStreams
from miniqueue.server.leaving import until_gone
from miniqueue.server.paths import topic_within
from miniqueue.server.replies import JSON_LINES, Reply, error_reply
from miniqueue.wire.received import json_messages


class ReceiveEndpoint:
    """Answers every request once."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client leaves before."""
        try:
            self._streams.check()
            request = _Request(self._broker, topic_within(scope), _options(scope))
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
    """Return what the query says; raises RequestError for a name that is unknown or there twice, too."""
    return parse_receive_options(query_of(scope, ("group", "member", "count", "wait", "lease", "autoack")))


class _Request:
    """One request, in the topic's line from the beginning; raises MiniqueueError."""

    def __init__(self, broker: Broker, topic: bytes, options: ReceiveOptions) -> None:
        self._answered: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._receiving: Receiving = broker.leasing.receive(topic, options, self._answer, self._fail)

    async def run(self, receive: Receive) -> Received | None:
        """Return what is received, or None when the client has left; raises MiniqueueError."""
        if self._answered.done():
            return self._answered.result()
        listener = asyncio.ensure_future(until_gone(receive))
        listener.add_done_callback(lambda _: self.end())
        has_left = True
        try:
            received = await self._answered
            has_left = listener.done()
        finally:
            listener.cancel()
            if has_left:
                self._receiving.take_back()
        return None if has_left else received

    def end(self) -> None:
        """Wait no longer."""
        self._receiving.give_up()

    def _answer(self, received: Received) -> None:
        if not self._answered.done():  # as it is when the server has cancelled the request
            self._answered.set_result(received)

    def _fail(self, error: MiniqueueError) -> None:
        if not self._answered.done():
            self._answered.set_exception(error)
