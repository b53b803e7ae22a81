"""`POST /receive` of topics in several shards.

    available now?    one shard after the other, beginning at another each time, with the room that is left
    none: wait        in all shards at once ─▶ the first that has messages offers them ─▶ taken; the others withdraw

So no more messages are leased than were asked for. What a second shard has leased at the same time is offered in vain,
and returns to its topics, as when a client disconnects. With `autoack`, messages cannot return: the shards wait one
after the other, for a moment each.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from typing import Any, Final
from urllib.parse import urlencode

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.core.options.consume import ReceiveOptions, parse_receive_options
from miniqueue.core.options.topic_choice import TopicChoice, parse_choice
from miniqueue.server.asgi.replies import JSON_LINES, Reply
from miniqueue.server.asgi.request import lists_of, until_gone
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.owners import Answer, Gathering, Owners, first_error

#: How long one shard waits for messages with `autoack`, before the next one does.
SLICE_SECONDS: Final = 0.1
_OPTIONS: Final = ("group", "member", "count", "wait", "lease", "autoack")
_LISTS: Final = ("topic", "pattern")


def receive_routes(owners: Owners, app: ASGIApp) -> dict[tuple[str, str], Handler]:
    """Return the handler by method and route; `app` is the application of this process."""
    return {("POST", "/receive"): _Receiving(owners, app).answer}


class _Receiving:
    """Receives messages of topics in any shards."""

    def __init__(self, owners: Owners, app: ASGIApp) -> None:
        self._owners = owners
        self._app = app
        self._turns = count()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        query, lists = lists_of(scope, _OPTIONS, _LISTS)
        choice, options = parse_choice(lists["topic"], lists["pattern"]), parse_receive_options(query)
        for name in choice.names:
            check_permitted(scope.get("user"), Right.CONSUME, name, f"POST /receive of the topic '{name.decode()}'")
        queries = self._queries(query, lists, choice)
        own = self._owners.placing.number
        if queries.keys() == {own}:
            await self._app(scope, receive, send)
        elif len(queries) == 1:
            await self._owners.pass_on(next(iter(queries)), scope, receive, send)
        else:
            with self._owners.gathering(scope) as gathering:
                reply = await _unless_gone(receive, _Request(self._owners, scope, queries, options, gathering).run())
                if reply is not None:
                    await reply(scope, receive, send)

    def _queries(
        self, query: Mapping[str, bytes], lists: Mapping[str, list[bytes]], choice: TopicChoice
    ) -> dict[int, list[tuple[str, bytes]]]:
        """Return the query for each shard that may have a topic, beginning at another shard each time."""
        shard_of = self._owners.placing.shard_of
        options = [(name, value) for name, value in query.items() if name not in ("count", "wait")]
        patterns = [("pattern", pattern) for pattern in lists["pattern"]]
        turn, shard_count = next(self._turns), len(self._owners.numbers)
        queries = {}
        for index in range(shard_count):
            shard = (turn + index) % shard_count
            topics = [("topic", name) for name in choice.names if shard_of(name) == shard]
            if topics or patterns:
                queries[shard] = [*options, *topics, *patterns]
        return queries


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

    async def run(self) -> Reply:
        """Return the reply; raises MiniqueueError."""
        now = asyncio.get_running_loop().time
        ends_at = now() + self._options.wait_seconds
        reply = await self._available()
        if self._options.is_acked:
            turns = list(self._queries)
            while reply is None and (left_seconds := ends_at - now()) > 0:
                turns.append(shard := turns.pop(0))
                reply = _reply(await self._ask(shard, self._options.max_count, min(left_seconds, SLICE_SECONDS)))
        elif reply is None and ends_at > now():
            reply = await self._first(ends_at - now())
        return Reply(200, b"", JSON_LINES) if reply is None else reply

    async def _available(self) -> Reply | None:
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
                return answer.reply() if not bodies else Reply(200, b"".join(bodies), JSON_LINES)
            if answer.body:
                bodies.append(answer.body)
            room -= answer.body.count(b"\n")
            if room <= 0:
                break
        return Reply(200, b"".join(bodies), JSON_LINES) if bodies else None

    async def _first(self, wait_seconds: float) -> Reply | None:
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
                    return error.reply()
            return None if self._winner is None else _reply(await parts[self._winner])
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


def _reply(answer: Answer) -> Reply | None:
    """Return an answer as a reply; None if it has no messages."""
    return answer.reply() if answer.is_error or answer.body else None


async def _unless_gone(receive: Receive, work: Coroutine[Any, Any, Reply]) -> Reply | None:
    """Return the result of a coroutine, or end it and return None when the client disconnects."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(until_gone(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
