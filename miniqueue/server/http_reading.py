"""What HTTP clients may read of the log of a topic, without a group.

    GET /topics/{topic}/partitions         the partitions, each with what can be read of it
    GET /topics/{topic}/partitions/{id}    messages of one: ?offset= or ?time=, &count=&bytes=

Replies are JSON.
"""

import orjson
from starlette.types import Scope

from miniqueue.broker import Broker
from miniqueue.core.read_options import (
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
from miniqueue.server.http_json import JsonEndpoint
from miniqueue.server.http_query import query_of
from miniqueue.server.paths import message_id_of, topic_within
from miniqueue.wire.log_runs import json_runs


def read_endpoints(broker: Broker) -> dict[tuple[str, str], JsonEndpoint]:
    """Return what answers each route, by method and path."""
    pages = _Pages(broker)
    return {
        ("GET", "/topics/{topic}/partitions"): JsonEndpoint(pages.partitions),
        ("GET", "/topics/{topic}/partitions/{id}"): JsonEndpoint(pages.messages),
    }


class _Pages:
    def __init__(self, broker: Broker) -> None:
        self._reader = broker.log_reader

    async def partitions(self, scope: Scope) -> object:
        listed = await self._reader.partitions(topic_within(scope))
        return {
            "partitions": [
                {
                    "partition": partition_word(bounds.partition).decode(),
                    "earliest": bounds.earliest_seq,
                    "end": bounds.end_seq,
                    "earliestAtMs": at_ms,
                }
                for bounds, at_ms in listed
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
    words = {name: text.encode() for name, text in query_of(scope, ("offset", "time", "count", "bytes")).items()}
    if "offset" in words and "time" in words:
        raise RequestError("offset or time, not both")
    return ReadOptions(
        offset=parse_offset(words["offset"]) if "offset" in words else None,
        time_ms=parse_time_ms(words["time"]) if "time" in words else None,
        max_count=parse_count(words["count"]) if "count" in words else DEFAULT_COUNT,
        max_bytes=parse_max_bytes(words["bytes"]) if "bytes" in words else DEFAULT_BYTES,
    )
