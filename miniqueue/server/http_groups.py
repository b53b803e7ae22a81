"""Groups over HTTP.

    GET    /topics/{topic}/groups                           {"groups": [{"name": "audit", "lag": 3, …}]}
    GET    /topics/{topic}/groups/{group}                   one of them
    PUT    /topics/{topic}/groups/{group}?from=latest       201 made; 409 there already
    DELETE /topics/{topic}/groups/{group}                   200
    POST   /topics/{topic}/groups/{group}/seek?to=0-17      {"before": 3, "after": 17}; with dry_run=true it only counts

Where a group may begin stands in `core.group_start`.
"""

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.core.group_start import Edge, parse_start
from miniqueue.errors import MiniqueueError, RequestError
from miniqueue.server.groups_shown import shown_group
from miniqueue.server.http_json import JsonEndpoint
from miniqueue.server.http_query import query_of
from miniqueue.server.paths import segment_of, topic_within
from miniqueue.server.replies import CREATED, OK, Reply, error_reply


def group_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return what answers each route, by method and path."""
    pages = _Pages(broker)
    return {
        ("GET", "/topics/{topic}/groups"): JsonEndpoint(pages.list),
        ("GET", "/topics/{topic}/groups/{id}"): JsonEndpoint(pages.one),
        ("PUT", "/topics/{topic}/groups/{id}"): _Endpoint(pages.create, CREATED),
        ("DELETE", "/topics/{topic}/groups/{id}"): _Endpoint(pages.delete, OK),
        ("POST", "/topics/{topic}/groups/{id}/seek"): JsonEndpoint(pages.seek),
    }


class _Endpoint:
    """Answers with `reply` when an act is done."""

    def __init__(self, act: Callable[[Scope], Awaitable[None]], reply: Reply) -> None:
        self._act = act
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = self._reply
        try:
            await self._act(scope)
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)


class _Pages:
    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups

    async def list(self, scope: Scope) -> object:
        return {"groups": [shown_group(one) for one in await self._groups.figures(topic_within(scope))]}

    async def one(self, scope: Scope) -> object:
        return shown_group(await self._groups.figures_of(topic_within(scope), _group_of(scope)))

    async def create(self, scope: Scope) -> None:
        options = query_of(scope, ("from",))
        start = parse_start(options["from"].encode()) if "from" in options else Edge.EARLIEST
        await self._groups.create(topic_within(scope), _group_of(scope), start)

    async def delete(self, scope: Scope) -> None:
        await self._groups.delete(topic_within(scope), _group_of(scope))

    async def seek(self, scope: Scope) -> object:
        options = query_of(scope, ("to", "dry_run"))
        if "to" not in options or options.get("dry_run", "true") not in ("true", "false"):
            raise RequestError("a seek says where to go on, with to=; dry_run is true or false")
        is_dry = options.get("dry_run") == "true"
        start = parse_start(options["to"].encode())
        found = await self._groups.seek(topic_within(scope), _group_of(scope), start, is_dry=is_dry)
        return found._asdict()


def _group_of(scope: Scope) -> bytes:
    """Return the name of the group in the path, percent-decoded, unchecked."""
    return segment_of(scope, 4)
