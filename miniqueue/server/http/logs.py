"""Reading the log of a topic over HTTP, without a group.

    GET /topics/{topic}/partitions         the partitions, each with its readable range
    GET /topics/{topic}/partitions/{id}    messages of one partition: ?offset= or ?time=, &count=&bytes=

Replies are JSON.
"""

import orjson
from starlette.types import Scope

from miniqueue.broker import Broker
from miniqueue.core.options.read import (
    DEFAULT_BYTES,
    DEFAULT_COUNT,
    ReadOptions,
    parse_count,
    parse_max_bytes,
    parse_offset,
    parse_partition,
    parse_time_ms,
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
        return {
            "partition": partition_word(partition).decode(),
            "earliest": page.bounds.earliest_seq,
            "end": page.bounds.end_seq,
            "missed": page.missed_count,
            "next": page.next_seq,
            "messages": orjson.Fragment(json_runs(partition, page.runs)),
        }


def _options(scope: Scope) -> ReadOptions:
    texts = {name: text.encode() for name, text in query_of(scope, ("offset", "time", "count", "bytes")).items()}
    if "offset" in texts and "time" in texts:
        raise RequestError("offset and time exclude each other; use one of them")
    return ReadOptions(
        offset=parse_offset(texts["offset"]) if "offset" in texts else None,
        time_ms=parse_time_ms(texts["time"]) if "time" in texts else None,
        max_count=parse_count(texts["count"]) if "count" in texts else DEFAULT_COUNT,
        max_bytes=parse_max_bytes(texts["bytes"]) if "bytes" in texts else DEFAULT_BYTES,
    )
