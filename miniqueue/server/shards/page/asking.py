"""Asks the shards for their parts of the page, through the tunnels that requests of HTTP use."""

from collections.abc import Sequence
from typing import Final

import orjson
from starlette.types import Scope

from miniqueue.access.users import User
from miniqueue.broker.runtime.accounts import Memory
from miniqueue.server.asgi.replies import AnsweredError
from miniqueue.server.shards.http.owners import Gathering, Owners
from miniqueue.server.shards.page.merging import Content

_SCOPE: Final[Scope] = {
    "type": "http",
    "method": "GET",
    "scheme": "http",
    "path": "/",
    "raw_path": b"/",
    "query_string": b"",
    "headers": (),
    "client": None,
}


class PageShards:
    """The shards of the broker, as the page asks them.

    Args:
      owners: the owners of all shards, of the port for parts.
      memory: the accounts that answers are charged to while they are merged.
    """

    def __init__(self, owners: Owners, memory: Memory) -> None:
        self._owners = owners
        self._memory = memory

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of all shards."""
        return self._owners.numbers

    def shard_of(self, topic: bytes) -> int:
        """Return the number of the shard with a topic."""
        return self._owners.placing.shard_of(topic)

    async def ask(self, shard: int, asked: Content, user: User | None) -> Content:
        """Return the answer of the parts of a shard; raises MiniqueueError."""
        gathering = Gathering(self._memory if user is None else self._memory.of_user(user.name))
        try:
            answer = await self._owners.ask(shard, {**_SCOPE, "user": user}, gathering, orjson.dumps(asked))
            content: Content = orjson.loads(answer.body)
        finally:
            gathering.give_back()
        if answer.is_error:
            raise AnsweredError(answer.status, content["code"], content["error"])
        return content
