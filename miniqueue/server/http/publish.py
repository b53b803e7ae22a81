"""`POST /publish/{topic}`: one message, a stream of lines, or a batch of lines.

One message is the body of the request; the reply is 201 when it is durable. Its options are in the query, and its
headers in request headers `Miniqueue-Header-<Name>`.

JSON lines are a stream: each line is one message, published when it arrives, and answered while the request continues:

    request ──▶ decode ──▶ publish ──▶ queue ──▶ wait for the commit ──▶ ids, in order ──▶ response
               (reader)               bounded        (writer)

Reading overlaps with commits: while one commit is in progress, the next lines are decoded and collected for the next.

JSON lines with `?dedup=id` are a batch: all lines in one commit and with one dedup id, or none:

    request ─▶ read to its end ─▶ decode every line ─▶ publish, or a duplicate ─▶ commit ─▶ an id for each line
"""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Accepted, Broker, Published
from miniqueue.broker.model.new_partitions import PartitionsDueError
from miniqueue.core.message.ids import following_ids
from miniqueue.core.message.names import check_topic
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import PublishOptions, parse_texts
from miniqueue.errors import (
    InvalidLineError,
    MiniqueueError,
    PayloadTooLargeError,
    TopicFullError,
    UnsupportedEncodingError,
)
from miniqueue.errors.requests import InvalidOptionError, SchemaError
from miniqueue.server.asgi.replies import CREATED, JSON_LINES, Reply, begin_json_lines, error_reply
from miniqueue.server.asgi.request import parameters_of, read_body
from miniqueue.server.asgi.routing import topic_of
from miniqueue.server.http.open_streams import OpenStreams
from miniqueue.wire.json_lines import (
    LineWithOptions,
    PublishDecoder,
    PublishResult,
    encode_error,
    encode_id,
    encode_ids,
)

#: Prefix of the request headers that become headers of the message; ASGI names are in lower case.
HEADER_PREFIX = b"miniqueue-header-"
#: Maximum size of the body of a batch, which is in memory as a whole, as are its messages until their commit.
MAX_BATCH_BODY_BYTES: Final = 16 << 20
#: Maximum number of messages of a batch: publishing this many and encoding their ids blocks the event loop for 10 ms.
MAX_BATCH_MESSAGES: Final = 10_000
#: Number of bytes of a batch that are decoded in one event-loop iteration, and of a stream that are published in one.
TURN_BYTES: Final = 64 << 10
#: Maximum number of runs of a stream that wait for their answers; a run is the lines of one read from the network.
MAX_UNANSWERED_RUNS = 64

#: The answer to consecutive lines: encoded, or a publish that is answered after its commit.
Answer: TypeAlias = bytes | tuple[Published, int] | Accepted


class PublishEndpoint:
    """Publishes the body of each request, as one message, a stream of lines, or a batch."""

    def __init__(self, broker: Broker, streams: OpenStreams) -> None:
        self._broker = broker
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = CREATED
        try:
            options = options_of(scope)
            if is_json_lines(scope):
                if options is not None:
                    check_batch_options(options)
                    body = await read_body(receive, MAX_BATCH_BODY_BYTES)
                    if body is not None:
                        await (await publish_batch(self._broker, topic_of(scope), body, options))(scope, receive, send)
                    return
                self._streams.check()
                lines = PublishedLines(self._broker, topic_of(scope))
                with self._streams.holding(lines, scope.get("user")):
                    await lines.run(receive, send)
                return
            payload = await read_body(receive, self._broker.max_message_bytes)
            if payload is None:
                return
            if options is None:
                backpressure, topic = self._broker.backpressure, topic_of(scope)
                if backpressure.must_wait:
                    published = await backpressure.admit(partial(self._broker.publish, topic, [payload]))
                else:
                    try:
                        published = self._broker.publish(topic, [payload])
                    except PartitionsDueError:
                        published = await backpressure.admit(partial(self._broker.publish, topic, [payload]))
                await published.commit.wait()
            else:
                reply = await self._publish_with(topic_of(scope), payload, options)
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            reply = error_reply(error)
        await reply(scope, receive, send)

    async def _publish_with(self, topic: bytes, payload: bytes, options: PublishOptions) -> Reply:
        if options.unique_key:
            accepted = await self._broker.publish_unique(topic, payload, options)
        else:
            accepted = await self._broker.backpressure.admit(
                partial(self._broker.publish_with, topic, payload, options)
            )
        await accepted.commit.wait()
        headers = [(b"message-id", accepted.message_id)]
        if accepted.is_duplicate:
            return Reply(HTTPStatus.OK, headers=[*headers, (b"duplicate", b"true")])
        return Reply(HTTPStatus.CREATED, headers=headers)


def options_of(scope: Scope, excluded: str | None = None) -> PublishOptions | None:
    """Return the options of the message in the query and headers of a request, or None if there are none.

    `excluded` is a parameter of the query that is not an option of the message.
    """
    query: bytes = scope["query_string"]
    # Fast path: most requests have neither.
    if not query and HEADER_PREFIX not in b"\n".join(dict(scope["headers"])):
        return None
    headers = [(n.removeprefix(HEADER_PREFIX), value) for n, value in scope["headers"] if n.startswith(HEADER_PREFIX)]
    if not query and not headers:
        return None
    return parse_texts([(name, value) for name, value in parameters_of(scope) if name != excluded], headers)


def is_json_lines(scope: Scope) -> bool:
    """Whether the body of a request is JSON lines; parameters of the content type are ignored.

    Raises UnsupportedEncodingError if the body is compressed: its real size could be unlimited.
    """
    fields: dict[bytes, bytes] = dict(scope["headers"])
    if b"content-encoding" in fields:
        _check_encodings(scope)
    content_type = fields.get(b"content-type")
    return content_type is not None and content_type.partition(b";")[0].strip().lower() == JSON_LINES


def _check_encodings(scope: Scope) -> None:
    for name, value in scope["headers"]:
        if name == b"content-encoding" and value.strip().lower() != b"identity":
            raise UnsupportedEncodingError


class PublishedLines:
    """The lines of one streamed request, and their answers.

    Raises:
      InvalidTopicError, UnavailableError: on construction, before anything was published or sent.
    """

    def __init__(self, broker: Broker, topic: bytes) -> None:
        if broker.refusal is not None:
            raise broker.refusal
        self._broker = broker
        self._topic = check_topic(topic)
        self._answers: asyncio.Queue[Answer | list[Answer] | None] = asyncio.Queue()  # an item for each run
        self._room = asyncio.Semaphore(MAX_UNANSWERED_RUNS)
        self._reader: asyncio.Task[None] | None = None

    async def run(self, receive: Receive, send: Send) -> None:
        """Publish every line and answer each, in order, until the client or `end` ends the stream."""
        async with asyncio.TaskGroup() as tasks:
            self._reader = tasks.create_task(self._read(receive))
            tasks.create_task(self._write(send))
            await asyncio.wait([self._reader])
            self._reader = None  # it keeps the error that ended it, whose traceback refers to this object
            self._answers.put_nowait(None)

    def end(self) -> None:
        """Stop reading; published lines are still answered."""
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self, receive: Receive) -> None:
        decoder = PublishDecoder(self._broker.max_message_bytes)
        more_body = True
        while more_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                break  # the rest may be an incomplete line
            more_body = message.get("more_body", False)
            body = message.get("body", b"")
            while len(body) > TURN_BYTES:  # Granian reads up to 408 KiB at once
                await self._publish_all(decoder.feed(body[:TURN_BYTES]))
                body = body[TURN_BYTES:]
                await asyncio.sleep(0)
            results = decoder.feed(body)
            if not more_body:
                results += decoder.finish()
            await self._publish_all(results)

    async def _publish_all(self, results: list[PublishResult]) -> None:
        for result in results:
            # First of all: `end` can cancel this wait, which must not happen between a publish and its answer.
            await self._room.acquire()
            if isinstance(result, LineWithOptions) and result.options.unique_key:
                await self._publish_unique(*result)
            else:
                await self._broker.backpressure.admit(partial(self._publish, result))

    def _publish(self, result: PublishResult) -> None:
        if isinstance(result, LineWithOptions):
            self._publish_with(*result)
            return
        if not isinstance(result, list):
            self._broker.limit_counts.note(result)
            self._answers.put_nowait(encode_error(result))
            return
        self._answers.put_nowait(self._run(result))

    def _run(self, payloads: list[bytes]) -> list[Answer]:
        """Publish a run of messages; return the answers to its lines."""
        try:
            return [(self._broker.publish(self._topic, payloads), len(payloads))]
        except (PayloadTooLargeError, SchemaError) as error:
            if len(payloads) > 1:  # only the line that is too large, or does not fit, is refused, no other of the run
                return [answer for payload in payloads for answer in self._run([payload])]
            self._broker.limit_counts.note(error)
            return [encode_error(error)]
        except TopicFullError as error:
            count = error.fitting_count
            return [*(self._run(payloads[:count]) if count else []), encode_error(error) * (len(payloads) - count)]
        except MiniqueueError as error:
            return [encode_error(error) * len(payloads)]

    def _publish_with(self, payload: bytes, options: PublishOptions) -> None:
        try:
            self._answers.put_nowait(self._broker.publish_with(self._topic, payload, options))
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            self._answers.put_nowait(encode_error(error))

    async def _publish_unique(self, payload: bytes, options: PublishOptions) -> None:
        try:
            self._answers.put_nowait(await self._broker.publish_unique(self._topic, payload, options))
        except MiniqueueError as error:
            self._broker.limit_counts.note(error)
            self._answers.put_nowait(encode_error(error))

    async def _write(self, send: Send) -> None:
        await begin_json_lines(send)
        while (answer := await self._answers.get()) is not None:
            parts = [await _encode(part) for part in (answer if isinstance(answer, list) else [answer])]
            await send({"type": "http.response.body", "body": b"".join(parts), "more_body": True})
            self._room.release()
        await send({"type": "http.response.body", "body": b""})


async def _encode(answer: Answer) -> bytes:
    if isinstance(answer, bytes):
        return answer
    published, count = (answer, 1) if isinstance(answer, Accepted) else answer
    try:
        await published.commit.wait()
    except MiniqueueError as error:
        return encode_error(error) * count
    if isinstance(published, Accepted):
        return encode_id(published.message_id, is_duplicate=published.is_duplicate)
    return encode_ids(published.partition, published.first_seq, count)


async def publish_batch(broker: Broker, topic: bytes, body: bytes, options: PublishOptions) -> Reply:
    """Publish the lines of a batch, and return the reply. If it raises, nothing was published.

    Raises:
      InvalidOptionError: a line has options besides headers, key, and time to live.
      InvalidLineError: there are no lines or too many, or one line is invalid.
      MiniqueueError: see `Publisher.publish_batch`.
    """
    payloads, each = await decode_batch(body, broker.max_message_bytes)
    accepted = await broker.backpressure.admit(partial(broker.publish_batch, topic, payloads, options.dedup_id, each))
    await accepted.commit.wait()
    is_duplicate = accepted.is_duplicate
    ids = following_ids(accepted.message_id, accepted.message_count)
    lines = b"".join(encode_id(message_id, is_duplicate=is_duplicate) for message_id in ids)
    headers = [(b"duplicate", b"true")] if is_duplicate else []
    return Reply(HTTPStatus.OK if is_duplicate else HTTPStatus.CREATED, lines, JSON_LINES, headers)


def check_batch_options(options: PublishOptions) -> None:
    """Raise InvalidOptionError if the query has options that do not apply to a whole batch."""
    if options != PublishOptions(dedup_id=options.dedup_id):
        raise InvalidOptionError(
            "invalid parameters; only dedup applies to all JSON lines; other options must be members of the lines"
        )


async def decode_batch(body: bytes, max_message_bytes: int) -> tuple[list[bytes], BatchOptions]:
    """Return the payloads and the options of the lines of a batch; raises InvalidLineError."""
    decoder = PublishDecoder(max_message_bytes)
    payloads: list[bytes] = []
    keys: list[bytes] = []
    others: dict[int, PublishOptions] = {}
    results: list[PublishResult] = []
    for start in range(0, len(body), TURN_BYTES):
        results += decoder.feed(body[start : start + TURN_BYTES])
        await asyncio.sleep(0)
    for result in [*results, *decoder.finish()]:
        if isinstance(result, LineWithOptions):
            others[len(payloads)] = result.options
            keys.append(result.options.key)
            payloads.append(result.payload)
        elif isinstance(result, list):
            payloads += result
            keys += [b""] * len(result)
        else:
            raise InvalidLineError(f"line {len(payloads) + 1} of the batch: {result}; nothing was published")
    if not 0 < len(payloads) <= MAX_BATCH_MESSAGES:
        raise InvalidLineError(
            f"invalid number of lines: {len(payloads)}; must be 1 to {MAX_BATCH_MESSAGES} for a batch"
        )
    return payloads, BatchOptions(keys, others)
