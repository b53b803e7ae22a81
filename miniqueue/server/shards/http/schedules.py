"""Schedules at a door: the home shard of the name orders changes, and says which shard has it, `links.scheduling`."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.types import Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.server.asgi.endpoints import JsonBodyEndpoint
from miniqueue.server.asgi.replies import CREATED, OK, AnsweredError, Reply, json_reply, status_of_code
from miniqueue.server.asgi.routing import segment_of, topic_of
from miniqueue.server.http.schedules import parse_schedule
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.owners import Answer, Owners
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.scheduling import CREATED as WAS_CREATED
from miniqueue.server.shards.links.scheduling import ask_owner, order_delete, order_set

_ROUTE: Final = "/schedules/{name}"


def schedule_routes(
    owners: Owners, peers: Peers, spread_of: Callable[[bytes], int], max_body_bytes: int
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

    return {
        ("PUT", _ROUTE): set_,
        ("DELETE", _ROUTE): delete,
        ("GET", _ROUTE): partial(_ask, owners, peers, topic_of),
        ("POST", "/schedules/{name}/fire"): partial(_ask, owners, peers, partial(segment_of, index=2)),
    }


async def _ask(
    owners: Owners, peers: Peers, name_of: Callable[[Scope], bytes], scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer with the reply of the shard that has the schedule which the path names; raises ShardAwayError."""
    with owners.gathering(scope) as gathering:

        async def ask(shard: int) -> Answer:
            return await owners.ask(shard, scope, gathering)

        answer = await ask_owner(peers, name_of(scope), ask, lambda each: each.status == HTTPStatus.NOT_FOUND)
        await answer.reply()(scope, receive, send)


async def _put(peers: Peers, spread_of: Callable[[bytes], int], scope: Scope, content: object) -> Reply:
    reply = await order_set(peers, topic_of(scope), parse_schedule(content), spread_of)
    _raise_error(reply)
    return CREATED if reply == WAS_CREATED else OK


def _raise_error(reply: bytes) -> None:
    """Raise the error that a reply is, if it is one."""
    if reply.startswith(b"-"):
        code, _, text = reply[1:-2].decode("utf-8", "replace").partition(" ")
        raise AnsweredError(status_of_code(code), code, text)
