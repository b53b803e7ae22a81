"""`POST /publish/{topic}` with JSON lines: many messages on one stream, an answer to each while it goes on.

    request ──▶ decode ──▶ publish ──▶ queue ──▶ wait for the commit ──▶ ids, in order ──▶ response
               (reader)               bounded        (writer)

Reading overlaps with committing: while a commit is under way the next lines are parsed and gathered for the next.
"""

import asyncio
from functools import partial
from typing import TypeAlias

from starlette.types import Receive, Send

from miniqueue.broker import Accepted, Broker, Published
from miniqueue.core.names import check_topic
from miniqueue.core.publish_options import PublishOptions
from miniqueue.errors import MiniqueueError, TopicFullError
from miniqueue.server.replies import begin_json_lines
from miniqueue.wire.json_lines import (
    LineWithOptions,
    PublishDecoder,
    PublishResult,
    encode_error,
    encode_id,
    encode_ids,
)

MAX_UNANSWERED_RUNS = 64  # a run is what one read from the network held

#: Answers to consecutive lines: ready, or ready when a commit is.
Answer: TypeAlias = bytes | tuple[Published, int] | Accepted


class PublishedLines:
    """One request and the answers to its lines.

    Raises:
      InvalidTopicError, UnavailableError: at once, before anything was published or sent.
    """

    def __init__(self, broker: Broker, topic: bytes) -> None:
        if broker.refusal is not None:
            raise broker.refusal
        self._broker = broker
        self._topic = check_topic(topic)
        self._answers: asyncio.Queue[Answer | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(MAX_UNANSWERED_RUNS)
        self._reader: asyncio.Task[None] | None = None

    async def run(self, receive: Receive, send: Send) -> None:
        """Publish every line and answer each, in order, until the client or `end` ends it."""
        async with asyncio.TaskGroup() as tasks:
            self._reader = tasks.create_task(self._read(receive))
            tasks.create_task(self._write(send))
            await asyncio.wait([self._reader])
            self._answers.put_nowait(None)

    def end(self) -> None:
        """Read no more; what was published is still answered."""
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self, receive: Receive) -> None:
        decoder = PublishDecoder(self._broker.max_message_bytes)
        more_body = True
        while more_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                break  # a line without its end may be part of one
            more_body = message.get("more_body", False)
            results = decoder.feed(message.get("body", b""))
            if not more_body:
                results += decoder.finish()
            for result in results:
                await self._room.acquire()  # before it is published: `end` must not come between that and its answer
                if isinstance(result, LineWithOptions) and result.options.unique_key:
                    await self._publish_unique(*result)
                else:
                    await self._broker.crowd.admit(partial(self._publish, result))

    def _publish(self, result: PublishResult) -> None:
        if isinstance(result, LineWithOptions):
            self._publish_with(*result)
            return
        if not isinstance(result, list):
            self._broker.limit_counts.note(result)
            self._answers.put_nowait(encode_error(result))
            return
        try:
            self._answers.put_nowait((self._broker.publish(self._topic, result), len(result)))
        except TopicFullError as error:
            if count := error.fitting_count:
                self._publish(result[:count])
            self._answers.put_nowait(encode_error(error) * (len(result) - count))
        except MiniqueueError as error:
            self._answers.put_nowait(encode_error(error) * len(result))

    def _publish_with(self, payload: bytes, options: PublishOptions) -> None:
        try:
            self._answers.put_nowait(self._broker.publish_with(self._topic, payload, options))
        except MiniqueueError as error:
            self._answers.put_nowait(encode_error(error))

    async def _publish_unique(self, payload: bytes, options: PublishOptions) -> None:
        try:
            self._answers.put_nowait(await self._broker.publish_unique(self._topic, payload, options))
        except MiniqueueError as error:
            self._answers.put_nowait(encode_error(error))

    async def _write(self, send: Send) -> None:
        await begin_json_lines(send)
        while (answer := await self._answers.get()) is not None:
            await send({"type": "http.response.body", "body": await _encode(answer), "more_body": True})
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
