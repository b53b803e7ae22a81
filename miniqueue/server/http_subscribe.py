"""`POST /subscribe/{topic}`: a consumer on one stream, commands up, deliveries and errors down.

    "INIT" "ACK" … "REPLY text" ──▶ reader ──▶ Consumer ──▶ lines ──▶ writer ──▶ {"msg":…} {"error":…,"code":…}

The reader acts on a command at once and never waits for the writer, so it notices at once that the client has gone,
and the message goes back to the topic even while the writer waits for a client that does not read.
"""

import asyncio

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.core.lease import Lease
from miniqueue.core.request_errors import RequesterGoneError
from miniqueue.core.stream_options import StreamOptions, parse_stream_options
from miniqueue.errors import MiniqueueError, NothingOutstandingError, UnknownReceiptError
from miniqueue.server.http_commands import execute
from miniqueue.server.http_query import query_of
from miniqueue.server.http_streams import OpenStreams
from miniqueue.server.paths import topic_of
from miniqueue.server.replies import begin_json_lines, error_reply
from miniqueue.wire.json_lines import CommandDecoder, encode_deliveries, encode_delivery, encode_error
from miniqueue.wire.streamed import json_described

#: A client that causes more than this without reading is cut off; a delivery is one line, and one at a time is out.
MAX_UNSENT_LINES = 1024
#: The same in bytes: much more than a prefetch holds, and never one line alone, however long.
MAX_UNSENT_BYTES = 16 << 20
#: Behind these the message is not held any more.
_SETTLED_ALREADY = (NothingOutstandingError, UnknownReceiptError, RequesterGoneError)


class SubscribeEndpoint:
    """Gives every request a consumer of its own, for as long as the request goes on."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            self._streams.check()
            subscription = Subscription(self._broker, topic_of(scope), _options_of(scope))
        except MiniqueueError as error:
            await error_reply(error)(scope, receive, send)
            return
        with self._streams.holding(subscription, scope.get("user")):
            await subscription.run(receive, send)


class Subscription:
    """One consumer and the two directions of its stream.

    Args:
      broker: gives the messages.
      topic: to consume from; need not exist.
      options: how to consume.
    """

    def __init__(self, broker: Broker, topic: bytes, options: StreamOptions) -> None:
        self._has_receipts = options.prefetch is not None
        self._requests = broker.requests
        self._consumer = broker.consumer(
            topic,
            self._deliver,
            self._fail,
            options.prefetch or 1,
            options.group,
            options.member,
            session_seconds=options.session_seconds,
        )
        self._decoder = CommandDecoder()
        self._unsent_lines: list[bytes] = []
        self._unsent_bytes = 0
        self._is_ended = False
        self._has_news = asyncio.Event()

    async def run(self, receive: Receive, send: Send) -> None:
        """Serve the stream until the client or `end` ends it."""
        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(self._read(receive))
            try:
                await begin_json_lines(send)
                await self._write(send)
            finally:
                self.end()
                reader.cancel()

    def end(self) -> None:
        """Return the message and let the stream end after what is still to be sent."""
        self._consumer.close()
        self._is_ended = True
        self._has_news.set()

    async def _read(self, receive: Receive) -> None:
        more_body = True
        try:
            while more_body and not self._is_ended:
                message = await receive()
                more_body = message.get("more_body", False)
                self._execute(message.get("body", b""))
            if not self._is_ended:
                await self._consumer.load_ended()
        finally:
            self.end()

    def _execute(self, chunk: bytes) -> None:
        for command in self._decoder.feed(chunk):
            if self._is_ended:
                return
            self._carry_out(command)
        if self._decoder.error is not None:
            self._fail(self._decoder.error)
            self.end()

    def _carry_out(self, command: str) -> None:
        try:
            execute(self._consumer, self._requests, command, has_receipts=self._has_receipts)
        except MiniqueueError as error:
            self._fail(error)
            # A message may have gone with its topic: a client that only ever settles must not be stuck.
            if isinstance(error, _SETTLED_ALREADY) and not self._is_ended:
                self._consumer.refill()

    async def _write(self, send: Send) -> None:
        while not self._is_ended or self._unsent_lines:
            await self._has_news.wait()
            self._has_news.clear()
            lines, self._unsent_lines, self._unsent_bytes = self._unsent_lines, [], 0
            if lines:
                await send({"type": "http.response.body", "body": b"".join(lines), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _deliver(self, leases: list[Lease]) -> None:
        if self._has_receipts:
            self._put(b"".join(_encode_with_receipts(lease) for lease in leases))
        elif leases[0].attributes is not None:
            self._put(json_described(leases[0], has_receipts=False))
        else:
            self._put(encode_delivery(leases[0].payloads[0], leases[0].counts.dacks))

    def _fail(self, error: MiniqueueError) -> None:
        self._put(encode_error(error))
        if self._consumer.is_closed:
            self.end()

    def _put(self, line: bytes) -> None:
        if len(self._unsent_lines) >= MAX_UNSENT_LINES or self._unsent_bytes > MAX_UNSENT_BYTES:
            self.end()
        self._unsent_lines.append(line)
        self._unsent_bytes += len(line)
        self._has_news.set()


def _encode_with_receipts(lease: Lease) -> bytes:
    if lease.attributes is not None:
        return json_described(lease, has_receipts=True)
    return encode_deliveries(lease.payloads, lease.counts.dacks, lease.receipt)


def _options_of(scope: Scope) -> StreamOptions:
    """Return what the query says; raises RequestError, as `parse_stream_options`."""
    given = query_of(scope, ("prefetch", "group", "member", "session"))
    return parse_stream_options({name: text.encode() for name, text in given.items()})
