"""Members of a group of a spread topic that receive over HTTP: each request keeps its member in all parts.

    POST /topics/orders/receive?member=m ─▶ JOIN in each shard with a part ─▶ the request, which reaches some of them

A member has partitions of all parts, so it would lose those of the parts that its requests do not reach.
"""

import asyncio
from collections.abc import Sequence

from starlette.types import Scope

from miniqueue.core.message.partitioning import indexes_by_number
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import JOIN
from miniqueue.server.shards.links.peers import Peers


async def join(peers: Peers, scope: Scope, parts: Sequence[bytes], options: ReceiveOptions) -> None:
    """Keep the client of a request among the members of a group of some parts; raises ShardAwayError.

    What a part refuses, it refuses to the request, too.
    """
    if not options.member:
        return
    user = scope.get("user")
    client = Introduction("resp", scope.get("client") or ("?", 0), user=None if user is None else user.name)
    shards = indexes_by_number([peers.placing.shard_of(part) for part in parts])
    for shard in shards:
        peers.check(shard)
    links = [peers.open(shard, client) for shard in shards]
    try:
        await asyncio.gather(
            *(
                link.ask_order(JOIN, options.group, options.member, *(parts[index] for index in indexes))
                for link, indexes in zip(links, shards.values(), strict=True)
            )
        )
    finally:
        for link in links:
            link.close()
