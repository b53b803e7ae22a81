"""The read models of all shards.

    of a topic        asked of its shard                        topic, messages, dead and history with `topic`
    of the process    as this process shows it                  settings
    a list            the first rows of each shard, merged      topics, dead, connections
    sums              of what each shard has                    overview, history, totals, broker

A shard that does not answer is among what needs attention; what the others have is shown without its part.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode

from miniqueue.access.users import User
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.dashboard.models.model import Context, Make, Open
from miniqueue.server.dashboard.models.topics import DEFAULT_COUNT, Looked, TopicPage
from miniqueue.server.shards.page import merging
from miniqueue.server.shards.page.merging import Content, Merge, Part

#: Models that can be of one topic.
_OF_TOPIC: Final = frozenset({"topic", "messages", "dead", "history"})
#: Models that are the same in all processes.
_OF_ANY: Final = frozenset({"settings"})
#: Models that are lists with pages: the name of the rows, and what merges them.
_LISTS: Final[Mapping[str, tuple[str, Merge]]] = {
    "dead": ("topics", merging.dead),
    "connections": ("connections", merging.connections),
}
_SUMS: Final[Mapping[str, Merge]] = {
    "history": merging.history,
    "overview": merging.overview,
    "totals": merging.totals,
}


class Shards(Protocol):
    """The shards of the broker, as the page asks them."""

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of all shards."""
        ...

    def shard_of(self, topic: bytes) -> int:
        """Return the number of the shard with a topic."""
        ...

    async def ask(self, shard: int, asked: Content, user: User | None) -> Content:
        """Return the answer of the parts of a shard; raises MiniqueueError."""
        ...


class _Asking(NamedTuple):
    """Asks shards for a view of one user."""

    shards: Shards
    view: str
    user: User | None

    async def of(self, shard: int, more: Mapping[str, object]) -> Content:
        """Return what a shard answers; raises MiniqueueError."""
        return await self.shards.ask(shard, {"view": self.view, **more}, self.user)

    async def all(self, more: Callable[[int], Mapping[str, object]] = lambda _: {}) -> list[Part]:
        """Return the answer of each shard, None for one that does not answer; raises any other error of a shard."""
        return [*await asyncio.gather(*[self._part(shard, more(shard)) for shard in self.shards.numbers])]

    async def _part(self, shard: int, more: Mapping[str, object]) -> Part:
        try:
            return await self.of(shard, more)
        except ShardAwayError:
            return None


def share(shards: Shards, context: Context, open_own: Open) -> Open:
    """Return what opens the read models of all shards.

    Args:
      shards: the shards.
      context: what the read models of this shard are made of.
      open_own: opens them.
    """
    sums: dict[str, Merge] = {**_SUMS, "broker": partial(merging.broker, context.broker.shares.quotas_of)}

    def open_view(view: bytes, user: User | None) -> Make:
        make = open_own(view, user)  # checks the parameters and the rights
        text = view.decode("latin-1")
        name, _, query = text.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True, encoding="latin-1"))
        asking = _Asking(shards, text, user)
        if name in _OF_ANY:
            return make
        if name in _OF_TOPIC and options.get("topic"):
            return partial(asking.of, shards.shard_of(options["topic"].encode("latin-1")), {})
        if name == "topics":
            return _topics(asking, options, context)
        if name in _LISTS:
            return _list(asking, name, options)
        return partial(_sum, asking, sums[name])

    return open_view


async def _sum(asking: _Asking, merge: Merge) -> Content:
    return merge(await asking.all())


def _list(asking: _Asking, name: str, options: Mapping[str, str]) -> Make:
    """Return what makes a page of a list: each shard is asked for all rows up to the end of the page."""
    count, page = int(options.get("count") or DEFAULT_COUNT), int(options.get("page") or 1)
    query = urlencode({**options, "page": 1, "count": count * page}, encoding="latin-1")
    of_shards, (rows, merge) = asking._replace(view=f"{name}?{query}"), _LISTS[name]

    async def make() -> Content:
        merged = merge(await of_shards.all())
        return {**merged, rows: merged[rows][(page - 1) * count : page * count]}

    return make


def _topics(asking: _Asking, options: Mapping[str, str], context: Context) -> Make:
    shard_of = asking.shards.shard_of

    async def look(names: Sequence[str], first_count: int) -> Looked:
        of_shard: dict[int, list[str]] = {}
        for name in names:
            of_shard.setdefault(shard_of(name.encode()), []).append(name)
        parts = await asking.all(lambda shard: {"names": of_shard.get(shard, []), "first": first_count})
        return merging.looked(parts)

    encoded = {name: value.encode("latin-1") for name, value in options.items() if name != "sorted"}
    return TopicPage(look, encoded, context.broker.clock.now_ms).make
