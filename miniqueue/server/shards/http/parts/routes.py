"""What each route does if it names a spread topic; a test compares the table with that of all routes.

one part     that of the key, of the receipt, of the id, of the partition: `publishing`, `settling`, and here
all parts    `receiving`
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from starlette.types import Receive, Scope, Send

from miniqueue.access.rights import ROUTES
from miniqueue.access.users import check_permitted
from miniqueue.core.message.parts import part_of_id
from miniqueue.errors.requests import SpreadTopicError
from miniqueue.server.asgi.routing import message_id_of, segment_of
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.parts.asking import Parts, Spread
from miniqueue.server.shards.http.parts.publishing import publish, request
from miniqueue.server.shards.http.parts.settling import reply, settle
from miniqueue.server.shards.http.parts.streams import subscribe
from miniqueue.server.shards.http.receiving import Receiving

#: Answers a request that names a spread topic, and whose client may do what it asks for; raises MiniqueueError.
Answering = Callable[[Spread, Scope, Receive, Send], Awaitable[None]]


class SpreadRoutes:
    """Answers requests that name a spread topic.

    Args:
      parts: the parts of spread topics.
      receiving: receives messages of topics in any shards.
      spread_of: returns over how many parts a topic is spread, 0 for others.
    """

    def __init__(self, parts: Parts, receiving: Receiving, spread_of: Callable[[bytes], int]) -> None:
        self._spread_of = spread_of
        self._routes: Mapping[tuple[str, str], Answering] = {
            ("POST", "/publish/{topic}"): partial(publish, parts),
            ("POST", "/request/{topic}"): partial(request, parts),
            ("POST", "/topics/{topic}/receive"): partial(_receive, receiving),
            ("POST", "/subscribe/{topic}"): partial(subscribe, parts),
            ("POST", "/topics/{topic}/reply"): partial(reply, parts),
            ("POST", "/topics/{topic}/ack"): partial(settle, parts),
            ("POST", "/topics/{topic}/nack"): partial(settle, parts),
            ("POST", "/topics/{topic}/back"): partial(settle, parts),
            ("POST", "/topics/{topic}/dack"): partial(settle, parts),
            ("POST", "/topics/{topic}/reject"): partial(settle, parts),
            ("POST", "/topics/{topic}/extend"): partial(settle, parts),
            ("GET", "/topics/{topic}/messages/{id}"): partial(_by_last_id, parts),
            ("DELETE", "/topics/{topic}/messages/{id}"): partial(_by_last_id, parts),
            ("GET", "/topics/{topic}/messages/{id}/trace"): partial(_by_id, parts),
            ("POST", "/topics/{topic}/messages/{id}/front"): partial(_by_id, parts),
            ("POST", "/topics/{topic}/messages/{id}/redrive"): partial(_by_id, parts),
            ("POST", "/topics/{topic}/messages/{id}/due"): partial(_by_id, parts),
            ("GET", "/topics/{topic}/partitions/{id}"): partial(_by_last_id, parts),
        }

    def handler(self, method: str, route: str, topic: bytes) -> Handler | None:
        """Return what answers a request; None if the topic is not spread: its owner does."""
        part_count = self._spread_of(topic)
        return partial(self._answer, method, route, Spread(topic, part_count)) if part_count else None

    async def _answer(self, method: str, route: str, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises MiniqueueError."""
        needs, act = ROUTES[method, route], f"{method} {route}"
        check_permitted(scope.get("user"), needs.right, None if needs.topic_at is None else topic.name, act)
        answer = self._routes.get((method, route))
        if answer is None:
            raise SpreadTopicError(topic.name, act)
        await answer(topic, scope, receive, send)


async def _receive(receiving: Receiving, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    await receiving.answer_of_one(topic.name, scope, receive, send)


async def _by_last_id(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in the part of the message, or of the partition, with the id at the end of the path."""
    await parts.pass_on(topic, part_of_id(message_id_of(scope)) % topic.part_count, scope, receive, send)


async def _by_id(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in the part of the message with the id before the end of the path."""
    await parts.pass_on(topic, part_of_id(segment_of(scope, 4)) % topic.part_count, scope, receive, send)
