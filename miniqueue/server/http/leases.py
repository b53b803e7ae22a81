"""`GET /leases`: the leased messages of a topic, with their receipts and the remaining time.

    GET /leases?topic=t&group=g              leases of receives over HTTP and RESP, which any connection can settle
    GET /leases?topic=t&group=g&member=m     leases of a member of the group, including those of its streams

    {"leases":[{"topic":"t","partition":"0","group":"g","id":"0-17","receipt":"5f0c-17","remainingMs":29500},…]}

HTTP requests have no leases of their own, so there is no list of the leases of a connection, which RESP has.
"""

from typing import Final

from starlette.types import ASGIApp, Scope

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.broker import Broker
from miniqueue.broker.inspect.peeked import parse_count
from miniqueue.broker.leases.listing import MAX_COUNT, parse_after
from miniqueue.errors import RequestError
from miniqueue.server.asgi.endpoints import JsonEndpoint
from miniqueue.server.asgi.request import query_of
from miniqueue.wire.attribute_words import as_json

#: Number of leases that are encoded in one iteration of the event loop.
LEASES_IN_TURN: Final = 200


def lease_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoint of the route, by method and path."""

    async def leases(scope: Scope) -> object:
        options = query_of(scope, _PARAMETERS)
        if "topic" not in options:
            raise RequestError("missing parameter; requires topic=")
        check_permitted(scope.get("user"), Right.CONSUME, options["topic"], "GET /leases of the topic")
        after = parse_after(options["after"]) if "after" in options else 0
        count = parse_count(options["count"]) if "count" in options else MAX_COUNT
        group, member = options.get("group"), options.get("member")
        listed = await broker.leases.of_group(options["topic"], group, member, after, count)
        return {"leases": await broker.share.each(lambda held: as_json(held._asdict()), listed, LEASES_IN_TURN)}

    return {("GET", "/leases"): JsonEndpoint(leases)}


_PARAMETERS = ("topic", "group", "member", "count", "after")
