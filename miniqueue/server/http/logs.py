"""Reading the log of a topic over HTTP, without a group.

    GET /topics/{topic}/partitions         the partitions, each with its readable range
    GET /topics/{topic}/partitions/{id}    messages of one partition: ?offset= or ?time=, &count=&bytes=

Replies are JSON.
"""

import orjson
from starlette.types import Scope

from miniqueue.broker import Broker
from miniqueue.core.options.durations import parse_time_ms
from miniqueue.core.options.read import (
    DEFAULT_BYTES,
    DEFAULT_COUNT,
    ReadOptions,
    parse_count,
    parse_max_bytes,
    parse_offset,
    parse_partition,
    partition_word,
)
from miniqueue.errors import RequestError
from miniqueue.server.asgi.endpoints import JsonEndpoint
from miniqueue.server.asgi.request import query_of
from miniqueue.server.asgi.routing import message_id_of, topic_within
from miniqueue.wire.log_pages import json_runs


def read_endpoints(broker: Broker) -> dict[tuple[str, str], JsonEndpoint]:
    """Return the endpoints by method and path."""
    pages = _Pages(broker)
    return {
        ("GET", "/topics/{topic}/partitions"): JsonEndpoint(pages.partitions),
        ("GET", "/topics/{topic}/partitions/{id}"): JsonEndpoint(pages.messages),
    }


class _Pages:
    def __init__(self, broker: Broker) -> None:
        self._reader = broker.inspect.log
        self._share, self._memory = broker.share, broker.memory

    async def partitions(self, scope: Scope) -> object:
        partitions = await self._reader.partitions(topic_within(scope))
        return {
            "partitions": [
                {
                    "partition": partition_word(bounds.partition).decode(),
                    "earliest": bounds.earliest_seq,
                    "end": bounds.end_seq,
                    "earliestAtMs": at_ms,
                }
                for bounds, at_ms in partitions
            ]
        }

    async def messages(self, scope: Scope) -> object:
        partition = parse_partition(message_id_of(scope))
        page = await self._reader.read(topic_within(scope), partition, _options(scope))
        with self._memory.reserve(page.content_bytes):
            messages = await self._share.finish(json_runs(partition, page.runs))
        return {
            "partition": partition_word(partition).decode(),
            "earliest": page.bounds.earliest_seq,
            "end": page.bounds.end_seq,
            "missed": page.missed_count,
            "next": page.next_seq,
            "messages": orjson.Fragment(messages),
        }


def _options(scope: Scope) -> ReadOptions:
    options = query_of(scope, ("offset", "time", "count", "bytes"))
    if "offset" in options and "time" in options:
        raise RequestError("offset and time exclude each other; use one of them")
    return ReadOptions(
        offset=parse_offset(options["offset"]) if "offset" in options else None,
        time_ms=parse_time_ms(options["time"].decode("utf-8", "replace")) if "time" in options else None,
        max_count=parse_count(options["count"]) if "count" in options else DEFAULT_COUNT,
        max_bytes=parse_max_bytes(options["bytes"]) if "bytes" in options else DEFAULT_BYTES,
    )
