"""`POST /publish/{topic}` with JSON lines: many messages on one stream, an answer to each while it goes on.

    request ──▶ decode ──▶ publish ──▶ queue ──▶ wait for the commit ──▶ ids, in order ──▶ response
               (reader)               bounded        (writer)

Reading overlaps with committing: while a commit is under way the next lines are parsed and gathered for the next.
"""

import asyncio
from typing import TypeAlias

from starlette.types import Receive, Send

from miniqueue.broker import Broker
from miniqueue.broker.broker import Published
from miniqueue.core.names import check_topic
from miniqueue.errors import MiniqueueError
from miniqueue.server.replies import JSON_LINES, start_message
from miniqueue.wire.json_lines import PublishDecoder, PublishResult, encode_error, encode_ids

MAX_UNANSWERED_RUNS = 64  # a run is what one read from the network held

#: Answers to consecutive lines: ready, or ready when a commit is.
Answer: TypeAlias = bytes | tuple[Published, int]


async def publish_lines(broker: Broker, topic: bytes, receive: Receive, send: Send) -> None:
    """Publish every line of the request and answer each, in order; the request may never end.

    Raises:
      InvalidTopicError, UnavailableError: nothing was published or sent.
    """
    check_topic(topic)
    if broker.refusal is not None:
        raise broker.refusal
    await send(start_message(200, [(b"content-type", JSON_LINES)]))
    answers: asyncio.Queue[Answer | None] = asyncio.Queue(MAX_UNANSWERED_RUNS)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_read(broker, topic, receive, answers))
        tasks.create_task(_write(answers, send))


async def _read(broker: Broker, topic: bytes, receive: Receive, answers: asyncio.Queue[Answer | None]) -> None:
    decoder = PublishDecoder(broker.max_message_bytes)
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
            await answers.put(_publish(broker, topic, result))
    await answers.put(None)


def _publish(broker: Broker, topic: bytes, result: PublishResult) -> Answer:
    if not isinstance(result, list):
        return encode_error(str(result))
    try:
        return broker.publish(topic, result), len(result)
    except MiniqueueError as error:
        return encode_error(str(error)) * len(result)


async def _write(answers: asyncio.Queue[Answer | None], send: Send) -> None:
    while (answer := await answers.get()) is not None:
        await send({"type": "http.response.body", "body": await _encode(answer), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _encode(answer: Answer) -> bytes:
    if isinstance(answer, bytes):
        return answer
    published, count = answer
    try:
        await published.commit.wait()
    except MiniqueueError as error:
        return encode_error(str(error)) * count
    return encode_ids(published.partition, published.first_seq, count)
