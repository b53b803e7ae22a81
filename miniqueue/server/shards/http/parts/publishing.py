"""Publishes to spread topics: a message goes to the part of its key; else of its unique key, else of its dedup id.

POST /publish/orders?key=k          the part of the key; without any of them, a part that is chosen
POST /request/orders?key=k          the same part; the requester waits in its shard
POST /publish/orders?dedup=id       a batch of JSON lines: see `batches`
POST /publish/orders                JSON lines: see `lines`
"""

from starlette.types import Receive, Scope, Send

from miniqueue.core.options.publish import NO_OPTIONS, PublishOptions
from miniqueue.server.http.publish import (
    is_json_lines,
    options_of,
)
from miniqueue.server.shards.http.parts.asking import Parts, Spread
from miniqueue.server.shards.http.parts.batches import publish_batch
from miniqueue.server.shards.http.parts.lines import publish_lines
from miniqueue.server.shards.links.earlier import published_with


async def publish(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request; raises MiniqueueError."""
    options = options_of(scope)
    if not is_json_lines(scope):
        await parts.pass_on(topic, await part_of(parts, topic, options or NO_OPTIONS), scope, receive, send)
    elif options is None:
        await publish_lines(parts, topic, scope, receive, send)
    else:
        await publish_batch(parts, options, topic, scope, receive, send)


async def request(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Publish a request, and answer with the reply to it; raises MiniqueueError."""
    options = options_of(scope, excluded="timeout") or NO_OPTIONS
    await parts.pass_on(topic, await part_of(parts, topic, options), scope, receive, send)


async def part_of(parts: Parts, topic: Spread, options: PublishOptions) -> int:
    """Return the number of the part of a message with these options; raises ShardAwayError."""
    if options.dedup_id or options.unique_key:
        [topic] = await parts.placed(topic, [published_with(options)])
    return parts.part_for(topic, options.placing_key)
