"""`POST /publish/{topic}?dedup=id` with JSON lines: all of them in one commit and under one id, or none.

    request ─▶ read to its end ─▶ decode every line ─▶ publish, or a duplicate ─▶ commit ─▶ an id for each line

A stream of lines without an id is published as it comes, and each line answered for itself (`http_publish_lines`).
"""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Final

from miniqueue.broker import Broker
from miniqueue.core.batch_options import BatchOptions
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message_id import following_ids
from miniqueue.core.publish_options import PublishOptions
from miniqueue.errors import InvalidLineError
from miniqueue.server.replies import JSON_LINES, Reply
from miniqueue.wire.json_lines import LineWithOptions, PublishDecoder, PublishResult, encode_id

#: Of a request's body: all of it is in memory, and so are its messages until their commit.
MAX_BODY_BYTES: Final = 16 << 20
#: What is done at once when all is read, publishing and telling the ids, takes some 10 ms of so many.
MAX_MESSAGES: Final = 10_000
#: What is decoded in one turn of the loop.
TURN_BYTES: Final = 64 << 10


async def publish_batch(broker: Broker, topic: bytes, body: bytes, options: PublishOptions) -> Reply:
    """Publish the lines of a whole body; return the reply.

    Raises:
      InvalidOptionError: the query says more than the id, or a line more than headers, key and time to live.
      InvalidLineError: there is none, too many, or one that is wrong. Nothing was published, as with every error.
      MiniqueueError: as `Publisher.publish_batch`.
    """
    payloads, each = await _decoded(body, broker.max_message_bytes)
    accepted = await broker.crowd.admit(partial(broker.publish_batch, topic, payloads, options.dedup_id, each))
    await accepted.commit.wait()
    is_duplicate = accepted.is_duplicate
    ids = following_ids(accepted.message_id, accepted.message_count)
    lines = b"".join(encode_id(message_id, is_duplicate=is_duplicate) for message_id in ids)
    headers = [(b"duplicate", b"true")] if is_duplicate else []
    return Reply(HTTPStatus.OK if is_duplicate else HTTPStatus.CREATED, lines, JSON_LINES, headers)


def check_batch_options(options: PublishOptions) -> None:
    """Raise InvalidOptionError unless the options of a request with JSON lines are for all lines together."""
    if options != PublishOptions(dedup_id=options.dedup_id):
        raise InvalidOptionError("options of JSON lines are members of the lines; only dedup is for all of them")


async def _decoded(body: bytes, max_message_bytes: int) -> tuple[list[bytes], BatchOptions]:
    """Return payloads and options of the lines."""
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
    if not 0 < len(payloads) <= MAX_MESSAGES:
        raise InvalidLineError(f"a batch is 1 to {MAX_MESSAGES} lines, not {len(payloads)}")
    return payloads, BatchOptions(keys, others)
