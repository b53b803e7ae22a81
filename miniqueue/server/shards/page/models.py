"""The read models of all shards.

    of a topic        asked of its shard, or of the shards of all its parts, one after the other for messages
                                                                topic, messages, dead and history with `topic`
    of the process    as this process shows it                  settings
    a list            the first rows of each shard, merged      topics, dead, connections
    sums              of what each shard has                    overview, history, totals, broker

A shard that does not answer is among what needs attention; what the others have is shown without its part.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode

from miniqueue.access.users import User
from miniqueue.core.message.parts import SEPARATOR, part_name, part_of_id, whole_of
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.asgi.replies import AnsweredError
from miniqueue.server.dashboard.models.messages import DEFAULT_COUNT as MESSAGE_COUNT
from miniqueue.server.dashboard.models.model import Context, Make, Open
from miniqueue.server.dashboard.models.topics import DEFAULT_COUNT, Looked, TopicPage, criteria_of
from miniqueue.server.shards.page import merging
from miniqueue.server.shards.page.merging import Content, Merge, Part
from miniqueue.server.shards.page.wholes import whole_reasons, whole_topic

#: Models that can be of one topic.
_OF_TOPIC: Final = frozenset({"topic", "messages", "dead", "history"})
#: Models that are the same in all processes.
_OF_ANY: Final = frozenset({"settings"})
#: Models that are lists with pages: the name of the rows.
_LISTS: Final = {
    "dead": "topics",
    "connections": "connections",
}
#: What makes one view of a spread topic of those of its parts.
_WHOLES: Final[Mapping[str, Callable[[Sequence[Content]], Content]]] = {
    "topic": whole_topic,
    "dead": whole_reasons,
    "history": merging.history,
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
        if SEPARATOR in options.get("topic", "").encode("latin-1"):  # no client can name a part
            raise InvalidTopicError
        asking = _Asking(shards, text, user)
        if name in _OF_ANY:
            return make
        if name in _OF_TOPIC and options.get("topic"):
            return _of_topic(asking, name, options, context)
        if name == "topics":
            return _topics(asking, options, context)
        if name in _LISTS:
            return _list(asking, name, options)
        return partial(_sum, asking, sums[name])

    return open_view


async def _sum(asking: _Asking, merge: Merge) -> Content:
    return merge(await asking.all())


def _of_topic(asking: _Asking, name: str, options: Mapping[str, str], context: Context) -> Make:
    """Return what makes a view of one topic."""
    topic = options["topic"].encode("latin-1")
    part_count, shard_of = context.broker.spread_of(topic), asking.shards.shard_of
    if not part_count:
        return partial(asking.of, shard_of(topic), {})
    parts = [part_name(topic, number) for number in range(part_count)]

    async def ask(part: bytes, **changed: object) -> Content:
        query = urlencode({**options, "topic": part.decode("latin-1"), **changed}, encoding="latin-1")
        return await asking._replace(view=f"{name}?{query}").of(shard_of(part), {})

    if name == "messages":
        return partial(_messages_of, parts, ask, options)
    return partial(_whole, parts, ask, _WHOLES[name], context if name == "topic" else None)


async def _whole(
    parts: Sequence[bytes],
    ask: Callable[[bytes], Awaitable[Content]],
    combine: Callable[[Sequence[Content]], Content],
    settings_from: Context | None,
) -> Content:
    """Return the view of a spread topic; a part that does not exist is left out, as most have no dead letters."""
    answers = await asyncio.gather(*map(ask, parts), return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    known = [answer for answer in answers if isinstance(answer, dict)]
    is_refused = any(not isinstance(error, AnsweredError) or error.status != HTTPStatus.NOT_FOUND for error in errors)
    if errors and (is_refused or not known):
        raise next((error for error in errors if is_refused), errors[0])
    whole, topic = combine(known), whole_of(parts[0])
    if settings_from is not None and topic in settings_from.broker.spread_topics:
        settings = settings_from.broker.admin.settings_of(topic)
        whole |= {"settings": settings._asdict(), "changed": sorted(settings.members())}
    return whole


async def _messages_of(
    parts: Sequence[bytes], ask: Callable[..., Awaitable[Content]], options: Mapping[str, str]
) -> Content:
    """Return a page of messages: of one part after the other; the position where it ends contains the part."""
    count, after = int(options.get("count") or MESSAGE_COUNT), options.get("after") or ""
    first = part_of_id(after.encode("latin-1")) % len(parts)
    page: Content = {"messages": [], "next": None}
    for number, part in enumerate(parts[first:], first):
        answer = await ask(part, count=count - len(page["messages"]), after=after if number == first else "")
        page["messages"] += answer["messages"]
        page["next"] = answer["next"]
        if "scanned" in answer:
            page["scanned"] = page.get("scanned", 0) + answer["scanned"]
        if answer["next"] is not None or len(page["messages"]) >= count:
            break
    return page


def _list(asking: _Asking, name: str, options: Mapping[str, str]) -> Make:
    """Return what makes a page of a list: each shard is asked for all rows up to the end of the page."""
    count, page = int(options.get("count") or DEFAULT_COUNT), int(options.get("page") or 1)
    query = urlencode({**options, "page": 1, "count": count * page}, encoding="latin-1")
    of_shards, rows = asking._replace(view=f"{name}?{query}"), _LISTS[name]
    text = options.get("q", "").encode("latin-1").decode("utf-8", "replace")
    merge: Merge = merging.connections if name == "connections" else partial(merging.dead, text)

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
        return merging.looked(criteria, names, parts)

    encoded = {name: value.encode("latin-1") for name, value in options.items() if name != "sorted"}
    criteria = criteria_of(encoded)
    return TopicPage(look, encoded, context.broker.clock.now_ms).make
