"""Links to other shards that are kept, for orders that are given often and can be repeated."""

from collections.abc import Callable

from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import Failure, Link
from miniqueue.wire.resp_parser import Command, encode_command


class KeptLinks:
    """A link of one kind to each shard, opened by the first order.

    Args:
      kind: the kind of the links.
      open_link: opens a link to a shard; raises ShardAwayError.
    """

    def __init__(self, kind: str, open_link: Callable[[int, Introduction], Link]) -> None:
        self._kind = kind
        self._open = open_link
        self._links: dict[int, Link] = {}

    async def ask(self, shard: int, command: Command) -> bytes:
        """Return the reply of a shard; raises ShardAwayError if it does not answer."""
        link = self._links.get(shard)
        if link is None or link.is_lost:
            link = self._links[shard] = self._open(shard, Introduction(self._kind))
        reply = await link.ask(encode_command(command))
        if isinstance(reply, Failure):
            raise ShardAwayError(f"shard {shard} does not answer; try again")
        return reply

    def close(self) -> None:
        """End the links."""
        for link in self._links.values():
            link.close()
