"""`POST /receive` of topics in several shards.

    available now?    one shard after the other, beginning at another each time, with the room that is left
    none: wait        in all shards at once ─▶ the first that has messages offers them ─▶ taken; the others withdraw

So no more messages are leased than were asked for. What a second shard has leased at the same time is offered in vain,
and returns to its topics, as when a client disconnects. With `autoack`, messages cannot return: the shards wait one
after the other, for a moment each.

A spread topic stands for its parts. So its messages are received in the same way if it alone is asked for:

    POST /topics/orders/receive ─▶ POST /receive of its parts ─▶ the messages, without the name of the topic
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Final
from urllib.parse import urlencode

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.broker import Broker
from miniqueue.core.message.parts import SEPARATOR, part_name
from miniqueue.core.options.consume import ReceiveOptions, parse_receive_options
from miniqueue.core.options.topic_choice import parse_choice
from miniqueue.errors import InvalidTopicError
from miniqueue.server.asgi.replies import JSON_LINES
from miniqueue.server.asgi.request import lists_of, query_of, unless_gone
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.joining import join
from miniqueue.server.shards.http.owners import Answer, Gathering, Owners, first_error
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.spreading import enter_by_patterns, use_group

#: How long one shard waits for messages with `autoack`, before the next one does.
SLICE_SECONDS: Final = 0.1
#: Creates a group in all parts of a spread topic, if it is used now for the first time; raises MiniqueueError.
UseGroup = Callable[[bytes, bytes], Awaitable[None]]
_OPTIONS: Final = ("group", "member", "count", "wait", "lease", "autoack")
_LISTS: Final = ("topic", "pattern")


class Receiving:
    """Receives messages of topics in any shards.

    Args:
      owners: the owners of all shards.
      app: the application of this process.
      broker: the broker of this shard, which knows all spread topics.
      peers: the shards.

    Attributes:
      use_group: creates a group in all parts of a spread topic, if it is used now for the first time.
    """

    def __init__(self, owners: Owners, app: ASGIApp, broker: Broker, peers: Peers) -> None:
        self._owners = owners
        self._app = app
        self._spread_of = broker.spread_of
        self._enter_by_patterns = partial(enter_by_patterns, broker)
        self.use_group: UseGroup = partial(use_group, broker, peers)
        self._join = partial(join, peers)
        self._turns = count()

    @property
    def routes(self) -> dict[tuple[str, str], Handler]:
        """The handler by method and route."""
        return {("POST", "/receive"): self.answer}

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request for messages of several topics."""
        query, lists = lists_of(scope, _OPTIONS, _LISTS)
        choice, options = parse_choice(lists["topic"], lists["pattern"]), parse_receive_options(query)
        for name in choice.names:
            if SEPARATOR in name:  # no client can name a part
                raise InvalidTopicError
            check_permitted(scope.get("user"), Right.CONSUME, name, f"POST /receive of the topic '{name.decode()}'")
        enter = partial(self._enter, options, scope)
        for name in filter(self._spread_of, choice.names):
            await enter(name)
        await self._enter_by_patterns(choice, scope.get("user"), enter)
        names = [part for name in choice.names for part in self._parts_of(name) or [name]]
        queries = self._queries(query, lists["pattern"], names)
        own = self._owners.placing.number
        if len(queries) == 1 and names == [*choice.names]:
            shard = next(iter(queries))
            if shard == own:
                await self._app(scope, receive, send)
            else:
                await self._owners.pass_on(shard, scope, receive, send)
            return
        with self._owners.gathering(scope) as gathering:
            request = _Request(self._owners, scope, queries, options, gathering)
            answer = await unless_gone(receive, request.run())
            if answer is not None:
                await answer.reply()(scope, receive, send)

    async def answer_of_one(self, topic: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request for messages of a spread topic, which the client may consume."""
        query = query_of(scope, _OPTIONS)
        options, queries = parse_receive_options(query), self._queries(query, [], self._parts_of(topic))
        of_all = {**scope, "path": "/receive", "raw_path": b"/receive"}
        await self._enter(options, scope, topic)
        with self._owners.gathering(scope) as gathering:
            request = _Request(self._owners, of_all, queries, options, gathering)
            answer = await unless_gone(receive, request.run())
            if answer is not None:
                body = answer.body if answer.is_error else _without_topic(topic, answer.body)
                await answer.reply(body)(scope, receive, send)

    async def _enter(self, options: ReceiveOptions, scope: Scope, topic: bytes) -> None:
        """Keep the client in all parts of a topic, with its group and as its member; raises MiniqueueError."""
        await self.use_group(topic, options.group)
        await self._join(scope, self._parts_of(topic), options)

    def _parts_of(self, topic: bytes) -> list[bytes]:
        """Return the names of the parts of a topic; none if it is not spread."""
        return [part_name(topic, number) for number in range(self._spread_of(topic))]

    def _queries(
        self, query: Mapping[str, bytes], patterns: Sequence[bytes], names: Sequence[bytes]
    ) -> dict[int, list[tuple[str, bytes]]]:
        """Return the query for each shard that may have a topic, beginning at another shard each time."""
        options = [(name, value) for name, value in query.items() if name not in ("count", "wait")]
        turn, shard_count = next(self._turns), len(self._owners.numbers)
        queries = {}
        for index in range(shard_count):
            shard = (turn + index) % shard_count
            topics = [("topic", name) for name in names if self._owners.placing.shard_of(name) == shard]
            if topics or patterns:
                queries[shard] = [*options, *topics, *(("pattern", pattern) for pattern in patterns)]
        return queries


def _without_topic(topic: bytes, lines: bytes) -> bytes:
    """Return messages as they are received of one topic: without its name, the first member of each line."""
    member_bytes = len(b'{"topic":%b,' % orjson.dumps(topic.decode()))
    return b"".join(b"{" + line[member_bytes:] for line in lines.splitlines(keepends=True))


class _Request:
    """One request for messages of several shards."""

    def __init__(
        self,
        owners: Owners,
        scope: Scope,
        queries: dict[int, list[tuple[str, bytes]]],
        options: ReceiveOptions,
        gathering: Gathering,
    ) -> None:
        self._owners = owners
        self._scope = scope
        self._queries = queries
        self._options = options
        self._gathering = gathering
        self._winner: int | None = None

    async def run(self) -> Answer:
        """Return the answer; raises MiniqueueError."""
        now = asyncio.get_running_loop().time
        ends_at = now() + self._options.wait_seconds
        answer = await self._available()
        if self._options.is_acked:
            turns = list(self._queries)
            while answer is None and (left_seconds := ends_at - now()) > 0:
                turns.append(shard := turns.pop(0))
                slice_seconds = min(left_seconds, SLICE_SECONDS)
                answer = _unless_empty(await self._ask(shard, self._options.max_count, slice_seconds))
        elif answer is None and ends_at > now():
            answer = await self._first(ends_at - now())
        return _messages(b"") if answer is None else answer

    async def _available(self) -> Answer | None:
        """Return the messages that are available now, or an error; None if there are none."""
        bodies: list[bytes] = []
        room = self._options.max_count
        for shard in self._queries:
            try:
                answer = await self._ask(shard, room, 0)
            except Exception:
                if bodies:
                    break  # what is leased is not to be lost
                raise
            if answer.is_error:
                return answer if not bodies else _messages(b"".join(bodies))
            if answer.body:
                bodies.append(answer.body)
            room -= answer.body.count(b"\n")
            if room <= 0:
                break
        return _messages(b"".join(bodies)) if bodies else None

    async def _first(self, wait_seconds: float) -> Answer | None:
        """Return the messages of the first shard that has some, or an error; None if the time is over."""
        parts = {
            shard: asyncio.create_task(
                self._ask(shard, self._options.max_count, wait_seconds, partial(self._take, shard))
            )
            for shard in self._queries
        }
        try:
            pending = set(parts.values())
            while pending and self._winner is None:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if self._winner is None and (error := first_error([part.result() for part in done])) is not None:
                    return error
            return None if self._winner is None else _unless_empty(await parts[self._winner])
        finally:
            for shard, part in parts.items():
                if shard != self._winner or not part.done():
                    part.cancel()
            await asyncio.gather(*parts.values(), return_exceptions=True)

    def _take(self, shard: int) -> bool:
        """Take the messages that a shard offers, unless another was first."""
        if self._winner is None:
            self._winner = shard
        return self._winner == shard

    async def _ask(
        self, shard: int, max_count: int, wait_seconds: float, take: Callable[[], bool] | None = None
    ) -> Answer:
        query = [*self._queries[shard], ("count", b"%d" % max_count), ("wait", f"{wait_seconds:.3f}".encode())]
        scope = {**self._scope, "query_string": urlencode(query).encode()}
        return await self._owners.ask(shard, scope, self._gathering, take=take)


def _messages(lines: bytes) -> Answer:
    """Return the answer with messages."""
    return Answer(200, [(b"content-type", JSON_LINES)], lines)


def _unless_empty(answer: Answer) -> Answer | None:
    """Return an answer; None if it has no messages."""
    return answer if answer.is_error or answer.body else None
