"""Creates, changes, pauses, and deletes spread topics: first in their home shard, then everywhere.

    PUT /topics/orders {"spread": 4} ─▶ home: PUT ─▶ COMPLETE orders ─▶ every shard, every part
    PATCH /topics/orders.dlq, whose parts have come into being one by one ─▶ BEGIN orders.dlq ─▶ the same
    DELETE /topics/orders            ─▶ ERASE orders

`links.spreading` carries out the orders. A topic that a shard refuses is not created; what was changed otherwise is
kept, and completed later.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.errors import InvalidLineError, MiniqueueError, PayloadTooLargeError
from miniqueue.server.asgi.replies import OK, STATUS, AnsweredError
from miniqueue.server.asgi.request import read_body
from miniqueue.server.http.topics import MAX_BODY_BYTES
from miniqueue.server.shards.http.owners import Answer, Gathering, Owners, replaying
from miniqueue.server.shards.http.parts.asking import Parts, Spread
from miniqueue.server.shards.http.parts.whole import Whole, present

#: Gives a shard an order; returns its reply. Raises ShardAwayError, OutcomeUnknownError.
Order = Callable[[int, list[bytes]], Awaitable[bytes]]
_CREATED: Final = 201


class Setting:
    """Changes spread topics.

    Args:
      parts: the parts of spread topics.
      order: gives a shard an order.
      wholes: the names of the spread topics with settings, which dead letters have only after BEGIN.
    """

    def __init__(self, parts: Parts, order: Order, wholes: Callable[[], Collection[bytes]]) -> None:
        self._parts = parts
        self._owners: Owners = parts.owners
        self._order_shard = order
        self._wholes = wholes

    async def put(self, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
        """Set the settings of a topic, which may become a spread one by it; raises MiniqueueError."""
        body = await _body(receive)
        if body is None:
            return
        content = _parsed(body)
        if not topic.part_count and not content.get("spread"):
            await self._owners.pass_on(self._home_of(topic), scope, replaying(body, receive), send)
            return
        if topic.part_count and topic.name not in self._wholes():  # dead letters, which are spread like their topic
            body = orjson.dumps({"spread": topic.part_count, **content})
        await self._change(topic, scope, receive, send, body)

    async def patch(self, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
        """Change settings of a topic; raises MiniqueueError."""
        body = await _body(receive)
        if body is not None:
            await self._change(topic, scope, receive, send, body)

    async def change(self, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
        """Pause or resume a topic; raises MiniqueueError."""
        await self._change(topic, scope, receive, send, b"")

    async def delete(self, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
        """Delete a topic, with its dead letters; raises MiniqueueError."""
        await self._order(topic, b"ERASE")
        await OK(scope, receive, send)

    async def _change(self, topic: Spread, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        with self._owners.gathering(scope) as gathering:
            if topic.part_count and topic.name not in self._wholes():
                refusal = await self._begin_letters(topic, scope, gathering)
                if refusal is not None:
                    await refusal.reply()(scope, receive, send)
                    return
            answer = await self._owners.ask(self._home_of(topic), scope, gathering, body)
            if not answer.is_error:
                await self._complete(topic, is_new=answer.status == _CREATED)
            await answer.reply()(scope, receive, send)

    async def _begin_letters(self, topic: Spread, scope: Scope, gathering: Gathering) -> Answer | None:
        """Give dead letters settings of their own, if there are any; return the error if there must be some."""
        whole = Whole(self._parts, topic, scope, gathering)
        known = present([await whole.look(number, b"") for number in topic.numbers])[0]
        if not known.is_error:
            await self._order(topic, b"BEGIN")
        elif scope["method"] != "PUT":
            return known
        return None

    async def _complete(self, topic: Spread, *, is_new: bool) -> None:
        try:
            await self._order(topic, b"COMPLETE")
        except AnsweredError as exc:
            if is_new and exc.status < 500:
                await self._order(topic, b"ERASE")
            raise

    async def _order(self, topic: Spread, word: bytes) -> None:
        """Give the home shard an order; raises the error that it replies."""
        reply = await self._order_shard(self._home_of(topic), [word, topic.name])
        if reply.startswith(b"-"):
            code, _, text = reply[1:-2].decode("utf-8", "replace").partition(" ")
            raise AnsweredError(_status_of(code), code, text)

    def _home_of(self, topic: Spread) -> int:
        return self._owners.placing.shard_of(topic.name)


@cache
def _status_of(code: str) -> int:
    """Return the status of errors with a code, which another process has replied."""
    classes: list[type[MiniqueueError]] = [MiniqueueError]
    for cls in classes:
        classes += cls.__subclasses__()
    statuses = (next(STATUS[base] for base in cls.__mro__ if base in STATUS) for cls in classes if cls.code == code)
    return next(statuses, HTTPStatus.INTERNAL_SERVER_ERROR)


async def _body(receive: Receive) -> bytes | None:
    try:
        return await read_body(receive, MAX_BODY_BYTES)
    except PayloadTooLargeError as exc:
        raise InvalidLineError(f"body too large; must be at most {MAX_BODY_BYTES} bytes") from exc


def _parsed(body: bytes) -> Mapping[str, Any]:
    """Return the settings in a body; none if it is something else, which the home shard refuses."""
    try:
        content = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) else {}
