"""`GET /usage`: what the user has of topics, bytes, connections, and so on, and may have.

    {"usage":[{"user":"ada","topics":{"used":3,"limit":10},…,"memory":{"leases":4096}}]}

A user with the right MONITOR on `*`, and every client of a broker without users, sees all clients together, under the
user null, and then every user.
"""

from starlette.types import ASGIApp, Scope

from miniqueue.access.users import viewed_by
from miniqueue.broker import Broker
from miniqueue.server.asgi.endpoints import JsonEndpoint
from miniqueue.wire.attribute_words import as_json


def usage_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoint of the route, by method and path."""

    async def usage(scope: Scope) -> object:
        return {"usage": as_json(await broker.usage(viewed_by(scope.get("user"))))}

    return {("GET", "/usage"): JsonEndpoint(usage)}
