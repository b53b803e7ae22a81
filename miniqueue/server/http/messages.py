"""Searching for messages over HTTP, and acts on one that is chosen by its id.

    GET /topics/{topic}/search    ?key=&header=name:value&contains=&older=&reason=&state=&group=&count=&scan=&after=
    DELETE /topics/{topic}/messages/{id}            ?group=; of a delayed one: as CANCEL
    POST   /topics/{topic}/messages/{id}/front      ?group=
    POST   /topics/{topic}/messages/{id}/redrive    ?group=&to=
    POST   /topics/{topic}/messages/{id}/due        ?group=&at=&delay=

The reply to a search is JSON: {"messages": […], "next": "0-3-4711", "scanned": 50000}; at the end, `next` is null.
"""

from collections.abc import Mapping
from functools import partial

from starlette.types import Scope

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted, check_target
from miniqueue.broker import Broker
from miniqueue.broker.acts.orders import OPTIONS, MessageAct, Order, parse_order
from miniqueue.broker.inspect.peek import DEFAULT_COUNT
from miniqueue.broker.inspect.peeked import State, parse_count, parse_state
from miniqueue.broker.inspect.positions import DEFAULT_SCAN, parse_scan, parse_scan_position
from miniqueue.core.message.ids import DelayedId, parse_any_id
from miniqueue.core.options import filter as filters
from miniqueue.server.asgi.endpoints import JsonEndpoint
from miniqueue.server.asgi.request import query_of
from miniqueue.server.asgi.routing import message_id_of, segment_of, topic_within
from miniqueue.server.views.messages import json_messages

#: The parameters that select messages.
_SELECTING = (*filters.NAMES, "state", "group")


def message_endpoints(broker: Broker) -> dict[tuple[str, str], JsonEndpoint]:
    """Return the endpoints by method and path."""
    pages = _Pages(broker)
    return {
        ("GET", "/topics/{topic}/search"): JsonEndpoint(pages.search),
        ("DELETE", "/topics/{topic}/messages/{id}"): JsonEndpoint(pages.delete),
        ("POST", "/topics/{topic}/messages/{id}/front"): JsonEndpoint(partial(pages.act, MessageAct.FRONT)),
        ("POST", "/topics/{topic}/messages/{id}/redrive"): JsonEndpoint(partial(pages.act, MessageAct.REDRIVE)),
        ("POST", "/topics/{topic}/messages/{id}/due"): JsonEndpoint(partial(pages.act, MessageAct.DUE)),
    }


class _Pages:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def search(self, scope: Scope) -> object:
        options = query_of(scope, (*_SELECTING, "count", "scan", "after"))
        page = await self._broker.inspect.search(
            topic_within(scope),
            filters.parse_filter(options),
            state=_state(options),
            count=parse_count(options["count"]) if "count" in options else DEFAULT_COUNT,
            max_scanned=parse_scan(options["scan"]) if "scan" in options else DEFAULT_SCAN,
            after=parse_scan_position(options["after"]) if "after" in options else None,
            group=options.get("group"),
        )
        return {
            "messages": await json_messages(self._broker, page.messages),
            "next": page.next and bytes(page.next).decode(),
            "scanned": page.scanned_count,
        }

    async def delete(self, scope: Scope) -> object:
        """Cancel a delayed message, for which the right to publish is enough, or delete any other."""
        message_id, topic = parse_any_id(message_id_of(scope)), topic_within(scope)
        if isinstance(message_id, DelayedId):
            await self._broker.delayed.cancel(topic, message_id)
            return {"cancelled": bytes(message_id).decode()}
        check_permitted(scope.get("user"), Right.ADMIN, topic, "ADMIN on the topic")
        options = query_of(scope, ("group",))
        deleted = await self._broker.by_id.act(topic, message_id, Order(MessageAct.DELETE), options.get("group"))
        return {"deleted": deleted.decode()}

    async def act(self, act: MessageAct, scope: Scope) -> object:
        """Carry out an act on the message whose id is the segment before the last."""
        options = query_of(scope, (*OPTIONS[act], "group"))
        check_target(scope.get("user"), options.get("to"))
        order = parse_order(act, options, self._broker.clock.now_ms())
        message_id = parse_any_id(segment_of(scope, 4))
        acted_on = await self._broker.by_id.act(topic_within(scope), message_id, order, options.get("group"))
        return {"id": acted_on.decode()}


def _state(options: Mapping[str, bytes]) -> State | None:
    return parse_state(options["state"]) if "state" in options else None
