"""`POST /subscribe/{topic}`: a consumer on one stream; commands are sent up, deliveries and errors down.

    "INIT" "ACK" … "REPLY text" ──▶ reader ──▶ Consumer ──▶ lines ──▶ writer ──▶ {"msg":…} {"error":…,"code":…}

The reader executes each command at once and never waits for the writer. So it notices a disconnect at once, and the
leased message returns to the topic, even if the writer waits for a client that does not read.

The commands:

    INIT                                       request the first messages
    ACK, NACK, BACK       [receipt …]          settle the leased message, or the named ones; request more
    NACK [receipt …] [DELAY seconds] [REASON text]
    DACK seconds          [receipt …]          return them after a delay; request more
    REPLY                 [receipt] payload    settle the message, and send the payload to its requester; request more

With a prefetch, receipts are required; without, they are ignored. If a command fails, the consumer keeps its leases.
The error texts are those of the Go program.

The stream of a part of a spread topic is read by a door, which must know what became of each command: it gets a line
for each, `{"answer":null}` or `{"answer":{"error":…,"code":…}}`, in the order of the commands.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker, Consumer
from miniqueue.broker.consume.consumer import CHARGED_BYTES, Rest
from miniqueue.broker.leases.request_reply import Requests
from miniqueue.broker.runtime.accounts import Purpose, account_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.receipts import parse_receipts
from miniqueue.core.message.parts import SEPARATOR
from miniqueue.core.options.consume import StreamOptions, parse_stream_options
from miniqueue.core.options.durations import parse_seconds
from miniqueue.core.options.settle import parse_nack_options
from miniqueue.errors import (
    InvalidDelayError,
    MessageOutstandingError,
    MiniqueueError,
    NothingOutstandingError,
    UnknownCommandError,
    UnknownReceiptError,
)
from miniqueue.errors.requests import RequesterGoneError
from miniqueue.server.asgi.replies import begin_json_lines
from miniqueue.server.asgi.request import query_of
from miniqueue.server.asgi.routing import topic_of
from miniqueue.server.http.open_streams import OpenStreams, StreamEndpoint
from miniqueue.wire.json_lines import CommandDecoder, encode_answer, encode_deliveries, encode_delivery, encode_error
from miniqueue.wire.stream_deliveries import json_described

#: Maximum number of unread lines; the stream of a client that causes more ends. A delivery is one line, and without a
#: prefetch one message is leased at a time, so that only a client that sends many wrong commands can exceed this.
MAX_UNSENT_LINES = 1024
#: Maximum size of unread lines, far more than the deliveries of a prefetch; one line alone can exceed it.
MAX_UNSENT_BYTES = 16 << 20
#: Errors of commands after which the message is not leased anymore.
_SETTLED_ALREADY = (NothingOutstandingError, UnknownReceiptError, RequesterGoneError)


def subscribe_endpoints(broker: Broker, streams: OpenStreams) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoint of the route, by method and path."""
    return {("POST", "/subscribe/{topic}"): StreamEndpoint(streams, partial(_subscribe, broker))}


def _subscribe(broker: Broker, scope: Scope) -> "Subscription":
    options = parse_stream_options(query_of(scope, ("prefetch", "group", "member", "session", "lease")))
    return Subscription(broker, topic_of(scope), options)


class Subscription:
    """One consumer and the two directions of its stream.

    Args:
      broker: delivers the messages.
      topic: topic to consume from; need not exist.
      options: prefetch, group, member, session, and lease time of the consumer.
    """

    def __init__(self, broker: Broker, topic: bytes, options: StreamOptions) -> None:
        self._has_receipts = options.prefetch is not None
        self._has_answers = SEPARATOR in topic
        self._requests = broker.requests
        self._consumer = broker.stream(topic, options, self._deliver, self._fail)
        self._decoder = CommandDecoder()
        self._unsent_lines: list[bytes] = []
        self._unsent_bytes = 0
        self._account = account_of(CURRENT_ACTOR.get())
        self._charged_bytes = 0
        self._is_ended = False
        self._has_news = asyncio.Event()

    async def run(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream until the client or `end` ends it."""
        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(self._read(receive))
            try:
                await begin_json_lines(send)
                await self._write(send)
            finally:
                self.end()
                self._charge(0)
                reader.cancel()

    def end(self) -> None:
        """Return the leased messages, and end the stream after the lines that are still unsent."""
        self._consumer.close()
        self._is_ended = True
        self._has_news.set()

    async def _read(self, receive: Receive) -> None:
        more_body = True
        try:
            while more_body and not self._is_ended:
                message = await receive()
                more_body = message.get("more_body", False)
                await self._execute(message.get("body", b""))
            if not self._is_ended and message["type"] != "http.disconnect":  # a client that has gone waits for nothing
                await self._consumer.load_ended()
        finally:
            self.end()

    async def _execute(self, chunk: bytes) -> None:
        for command in self._decoder.feed(chunk):
            if self._is_ended:
                return
            await self._execute_one(command)
        if self._decoder.error is not None:
            self._fail(self._decoder.error)
            self.end()

    async def _execute_one(self, command: str) -> None:
        try:
            await execute(self._consumer, self._requests, command, has_receipts=self._has_receipts)
        except MiniqueueError as error:
            if self._has_answers:
                self._put(encode_answer(error))
            else:
                self._fail(error)
            # The topic may have been deleted with its messages; a client that only settles must get the next ones.
            if isinstance(error, _SETTLED_ALREADY) and not self._is_ended:
                self._consumer.refill()
        else:
            if self._has_answers:
                self._put(encode_answer(None))

    async def _write(self, send: Send) -> None:
        while not self._is_ended or self._unsent_lines:
            await self._has_news.wait()
            self._has_news.clear()
            if self._unsent_lines:
                await send({"type": "http.response.body", "body": self._take_lines(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _take_lines(self) -> bytes:
        """Return what is unsent, which whoever sends it is charged for."""
        lines, self._unsent_lines, self._unsent_bytes = self._unsent_lines, [], 0
        self._charge(0)
        return b"".join(lines)

    def _charge(self, size_bytes: int) -> None:
        if self._account is not None and size_bytes != self._charged_bytes:
            self._account.add(Purpose.OUTPUT, size_bytes - self._charged_bytes)
            self._charged_bytes = size_bytes

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
        if self._unsent_bytes >= CHARGED_BYTES:  # at once: many streams can get large messages before any is sent
            self._charge(self._unsent_bytes)
        self._has_news.set()


def _encode_with_receipts(lease: Lease) -> bytes:
    if lease.attributes is not None:
        return json_described(lease, has_receipts=True)
    return encode_deliveries(lease.payloads, lease.counts.dacks, lease.receipt)


async def execute(consumer: Consumer, requests: Requests, command: str, *, has_receipts: bool = False) -> None:
    """Execute one command; surplus arguments are ignored, except for REPLY, where they are part of the payload.

    Raises:
      UnknownCommandError: there is no such command, or REPLY has too few arguments.
      MessageOutstandingError: INIT while messages are leased or requested.
      NothingOutstandingError: no message was leased.
      UnknownReceiptError: some of the named messages are not leased; the others are settled.
      InvalidDelayError: the argument of DACK is missing or not a delay, or the delay of a NACK is not; the messages
        remain leased.
      RequestError: the reason of a NACK is too long; the messages remain leased.
      NoRequestError: the message is not a request, so it has no reply; it remains leased.
      RequesterGoneError: the requester no longer waits; the message is settled.
      StorageError: the topic cannot be read.
    """
    name, *arguments = command.split(" ")
    if name == "INIT":
        _init(consumer)
        return
    try:
        if name == "REPLY":
            _reply(consumer, requests, arguments, has_receipts)
        else:
            rest = _settle(consumer, name, arguments, has_receipts)
            if rest is not None:
                await rest
    except NothingOutstandingError as exc:
        raise NothingOutstandingError("no message is outstanding") from exc
    consumer.refill()


def _init(consumer: Consumer) -> None:
    try:
        consumer.request()
    except MessageOutstandingError as exc:
        raise MessageOutstandingError("error getting next value for consumer") from exc


def _settle(consumer: Consumer, name: str, arguments: list[str], has_receipts: bool) -> Rest:
    if name == "ACK":
        return _ack(consumer, arguments, has_receipts)
    if name == "NACK":
        return _nack(consumer, arguments, has_receipts)
    if name == "BACK":
        return consumer.back(_receipts(arguments, has_receipts))
    if name == "DACK":
        return _dack(consumer, arguments, has_receipts)
    raise UnknownCommandError("unrecognised command received")


def _ack(consumer: Consumer, arguments: list[str], has_receipts: bool) -> Rest:
    was_holding = consumer.is_holding
    try:
        return consumer.ack(_receipts(arguments, has_receipts))
    except NothingOutstandingError:
        if not was_holding:
            raise
        return None
        # Otherwise the message was deleted with its topic, which is as good as acknowledged.


def _reply(consumer: Consumer, requests: Requests, arguments: list[str], has_receipts: bool) -> None:
    if len(arguments) < 1 + has_receipts:
        raise UnknownCommandError("too few arguments provided to REPLY")
    receipt = parse_receipts([arguments.pop(0).encode()])[0] if has_receipts else None
    requests.reply_from_stream(consumer, receipt, " ".join(arguments).encode())


def _nack(consumer: Consumer, arguments: list[str], has_receipts: bool) -> Rest:
    """Return messages; `DELAY seconds` and `REASON text` follow the receipts; the text is the rest of the command."""
    options: dict[bytes, bytes] = {}
    if "REASON" in arguments:
        start = arguments.index("REASON")
        options[b"REASON"] = " ".join(arguments[start + 1 :]).encode()
        del arguments[start:]
    if arguments[-2:-1] == ["DELAY"]:
        options[b"DELAY"] = arguments[-1].encode()
        del arguments[-2:]
    return consumer.nack(_receipts(arguments, has_receipts), parse_nack_options(options))


def _dack(consumer: Consumer, arguments: list[str], has_receipts: bool) -> Rest:
    if not arguments:
        raise InvalidDelayError("too few arguments provided to DACK")
    receipts = _receipts(arguments[1:], has_receipts)
    try:
        return consumer.dack(parse_seconds(arguments[0]), receipts)
    except InvalidDelayError as exc:
        raise InvalidDelayError("invalid DACK duration argument at position [1]") from exc


def _receipts(arguments: list[str], has_receipts: bool) -> Sequence[int] | None:
    return parse_receipts([word.encode() for word in arguments]) if has_receipts else None
