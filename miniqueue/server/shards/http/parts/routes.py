"""What each route does if it names a spread topic; a test compares the table with that of all routes.

one part     that of the key, of the receipt, of the id, of the partition: `publishing`, `settling`, and here
all parts    `receiving`
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from miniqueue.access.rights import ROUTES, Right
from miniqueue.access.users import check_permitted
from miniqueue.broker import Broker
from miniqueue.core.message.parts import SEPARATOR, part_of_id
from miniqueue.errors import InvalidTopicError
from miniqueue.server.asgi.request import parameters_of
from miniqueue.server.asgi.routing import message_id_of, segment_of
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.parts import acts, grouping, inspecting
from miniqueue.server.shards.http.parts.asking import Parts, Spread
from miniqueue.server.shards.http.parts.publishing import publish, request
from miniqueue.server.shards.http.parts.setting import Setting
from miniqueue.server.shards.http.parts.settling import reply, settle
from miniqueue.server.shards.http.parts.streams import subscribe
from miniqueue.server.shards.http.parts.whole import Work, carry_out
from miniqueue.server.shards.http.receiving import Receiving

#: Answers a request that names a spread topic, and whose client may do what it asks for; raises MiniqueueError.
Answering = Callable[[Spread, Scope, Receive, Send], Awaitable[None]]


class SpreadRoutes:
    """Answers requests that name a spread topic.

    Args:
      parts: the parts of spread topics.
      receiving: receives messages of topics in any shards.
      setting: changes spread topics.
      broker: the broker of this shard, which knows all spread topics.
    """

    def __init__(self, parts: Parts, receiving: Receiving, setting: Setting, broker: Broker) -> None:
        self._spread_of = broker.spread_of
        self._parts = parts

        def settings_of(topic: bytes) -> dict[str, Any] | None:
            is_whole = topic in broker.spread_topics
            return broker.admin.settings_of(topic)._asdict() if is_whole else None

        def whole(work: Work) -> Answering:
            return partial(carry_out, work, parts)

        self._routes: Mapping[tuple[str, str], Answering] = {
            ("POST", "/publish/{topic}"): partial(publish, parts),
            ("POST", "/request/{topic}"): partial(request, parts),
            ("POST", "/subscribe/{topic}"): partial(subscribe, receiving.use_group, parts),
            ("POST", "/topics/{topic}/receive"): partial(_receive, receiving),
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
            ("PUT", "/topics/{topic}"): setting.put,
            ("PATCH", "/topics/{topic}"): setting.patch,
            ("POST", "/topics/{topic}/pause"): setting.change,
            ("POST", "/topics/{topic}/resume"): setting.change,
            **dict.fromkeys(_DELETES, setting.delete),
            ("GET", "/topics/{topic}"): whole(partial(inspecting.statistics, settings_of)),
            ("GET", "/topics/{topic}/partitions"): whole(inspecting.partitions),
            ("GET", "/topics/{topic}/messages"): whole(inspecting.messages),
            ("GET", "/topics/{topic}/search"): whole(inspecting.search),
            ("GET", "/topics/{topic}/groups"): whole(grouping.list_groups),
            ("GET", "/topics/{topic}/groups/{id}"): whole(grouping.get),
            ("GET", "/topics/{topic}/groups/{id}/holders"): whole(grouping.holders),
            ("PUT", "/topics/{topic}/groups/{id}"): whole(grouping.create),
            ("DELETE", "/topics/{topic}/groups/{id}"): whole(grouping.each),
            ("POST", "/topics/{topic}/groups/{id}/seek"): whole(grouping.seek),
            ("POST", "/topics/{topic}/groups/{id}/pause"): whole(grouping.each),
            ("POST", "/topics/{topic}/groups/{id}/resume"): whole(grouping.each),
            ("POST", "/topics/{topic}/purge"): whole(acts.purge),
            ("POST", "/topics/{topic}/redrive"): whole(acts.redrive),
            ("POST", "/topics/{topic}/messages/{id}"): whole(acts.act),
        }

    def handler(self, method: str, route: str, topic: bytes) -> Handler | None:
        """Return what answers a request; None if the topic is not spread: its owner does."""
        part_count = self._spread_of(topic)
        if not part_count and (method, route) != _CREATES:
            return None
        return partial(self._answer, method, route, Spread(topic, part_count))

    async def _answer(self, method: str, route: str, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises MiniqueueError."""
        needs, act = ROUTES[method, route], f"{method} {route}"
        check_permitted(scope.get("user"), needs.right, None if needs.topic_at is None else topic.name, act)
        await self._routes[method, route](topic, scope, receive, send)

    async def leases(self, other: Handler, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the leases of the topic in the query; `other` does for a topic that is not spread."""
        name = next((value for name, value in parameters_of(scope) if name == "topic"), b"")
        if SEPARATOR in name:  # no client can name a part
            raise InvalidTopicError
        if not (part_count := self._spread_of(name)):
            await other(scope, receive, send)
            return
        check_permitted(scope.get("user"), Right.CONSUME, name, "GET /leases of the topic")
        await carry_out(inspecting.leases, self._parts, Spread(name, part_count), scope, receive, send)


#: The route by which a topic becomes a spread one.
_CREATES: Final = ("PUT", "/topics/{topic}")
#: The routes that delete a topic; topics can have the names of other paths.
_DELETES: Final = tuple(
    (method, path)
    for (method, path), needs in ROUTES.items()
    if method == "DELETE" and needs.topic_at is not None and "{id}" not in path
)


async def _receive(receiving: Receiving, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    await receiving.answer_of_one(topic.name, scope, receive, send)


async def _by_last_id(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in the part of the message, or of the partition, with the id at the end of the path."""
    await parts.pass_on(topic, part_of_id(message_id_of(scope)) % topic.part_count, scope, receive, send)


async def _by_id(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in the part of the message with the id before the end of the path."""
    await parts.pass_on(topic, part_of_id(segment_of(scope, 4)) % topic.part_count, scope, receive, send)
