"""PUT and DELETE of schedules at a door: ordered by the home shard of the name, `links.scheduling`."""

from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.types import Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.server.asgi.endpoints import JsonBodyEndpoint
from miniqueue.server.asgi.replies import CREATED, OK, AnsweredError, Reply, json_reply, status_of_code
from miniqueue.server.asgi.routing import topic_of
from miniqueue.server.http.schedules import parse_schedule
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.scheduling import CREATED as WAS_CREATED
from miniqueue.server.shards.links.scheduling import order_delete, order_set

_ROUTE: Final = "/schedules/{name}"


def schedule_routes(
    peers: Peers, spread_of: Callable[[bytes], int], max_body_bytes: int
) -> dict[tuple[str, str], Handler]:
    """Return the handlers by method and route; a body has at most `max_body_bytes`. `spread_of` as `order_set`."""
    put = JsonBodyEndpoint(partial(_put, peers, spread_of), max_body_bytes)

    async def set_(scope: Scope, receive: Receive, send: Send) -> None:
        check_permitted(scope.get("user"), Right.ADMIN, None, f"PUT {_ROUTE}")
        await put(scope, receive, send)

    async def delete(scope: Scope, receive: Receive, send: Send) -> None:
        check_permitted(scope.get("user"), Right.ADMIN, None, f"DELETE {_ROUTE}")
        name = topic_of(scope)
        _raise_error(await order_delete(peers, name))
        await json_reply(200, {"deleted": name.decode()})(scope, receive, send)

    return {("PUT", _ROUTE): set_, ("DELETE", _ROUTE): delete}


async def _put(peers: Peers, spread_of: Callable[[bytes], int], scope: Scope, content: object) -> Reply:
    reply = await order_set(peers, topic_of(scope), parse_schedule(content), spread_of)
    _raise_error(reply)
    return CREATED if reply == WAS_CREATED else OK


def _raise_error(reply: bytes) -> None:
    """Raise the error that a reply is, if it is one."""
    if reply.startswith(b"-"):
        code, _, text = reply[1:-2].decode("utf-8", "replace").partition(" ")
        raise AnsweredError(status_of_code(code), code, text)
