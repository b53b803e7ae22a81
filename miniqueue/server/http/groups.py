"""Groups over HTTP.

    GET    /topics/{topic}/groups                           {"groups": [{"name": "audit", "lag": 3, …}]}
    GET    /topics/{topic}/groups/{group}                   one group
    GET    /topics/{topic}/groups/{group}/holders           {"holders": [{"user": "ada", "leased": 3, …}]}
    PUT    /topics/{topic}/groups/{group}?from=latest       201 created; 409 if it exists; ephemeral=true, idle=30
    DELETE /topics/{topic}/groups/{group}                   200
    POST   /topics/{topic}/groups/{group}/seek?to=0-17      {"before": 3, "after": 17}; dry_run=true: count only
    POST   /topics/{topic}/groups/{group}/pause?seconds=    200 when it is durable
    POST   /topics/{topic}/groups/{group}/resume            200 when it is durable

`core.settings.group_options` defines the options of groups.
"""

from contextlib import aclosing

from starlette.types import ASGIApp, Scope

from miniqueue.broker import Broker
from miniqueue.core.options.durations import parse_seconds
from miniqueue.core.options.start import parse_start
from miniqueue.core.settings.group_options import parse_group_options
from miniqueue.errors import RequestError
from miniqueue.server.asgi.endpoints import ActEndpoint, JsonEndpoint
from miniqueue.server.asgi.replies import CREATED
from miniqueue.server.asgi.request import query_of, texts_of
from miniqueue.server.asgi.routing import segment_of, topic_within
from miniqueue.server.views.groups import shown_group
from miniqueue.wire.attribute_words import as_json
from miniqueue.wire.json_parts import json_fragment


def group_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    groups = _Groups(broker)
    return {
        ("GET", "/topics/{topic}/groups"): JsonEndpoint(groups.list),
        ("GET", "/topics/{topic}/groups/{id}"): JsonEndpoint(groups.get),
        ("GET", "/topics/{topic}/groups/{id}/holders"): JsonEndpoint(groups.holders),
        ("PUT", "/topics/{topic}/groups/{id}"): ActEndpoint(groups.create, CREATED),
        ("DELETE", "/topics/{topic}/groups/{id}"): ActEndpoint(groups.delete),
        ("POST", "/topics/{topic}/groups/{id}/seek"): JsonEndpoint(groups.seek),
        ("POST", "/topics/{topic}/groups/{id}/pause"): ActEndpoint(groups.pause),
        ("POST", "/topics/{topic}/groups/{id}/resume"): ActEndpoint(groups.resume),
    }


class _Groups:
    def __init__(self, broker: Broker) -> None:
        self._groups = broker.groups
        self._admin = broker.admin
        self._leases = broker.leases

    async def list(self, scope: Scope) -> object:
        async with aclosing(self._groups.figures(topic_within(scope))) as groups:
            return {"groups": [json_fragment(shown_group(group)) async for group in groups]}

    async def get(self, scope: Scope) -> object:
        return shown_group(await self._groups.figures_of(topic_within(scope), _group_of(scope)))

    async def holders(self, scope: Scope) -> object:
        query_of(scope, ())
        holders = await self._leases.holders(topic_within(scope), _group_of(scope))
        return {"holders": [as_json(holder._asdict()) for holder in holders]}

    async def create(self, scope: Scope) -> None:
        parsed = parse_group_options(query_of(scope, ("from", "ephemeral", "idle")))
        await self._groups.create(topic_within(scope), _group_of(scope), parsed.start, parsed.own_settings)

    async def delete(self, scope: Scope) -> None:
        await self._groups.delete(topic_within(scope), _group_of(scope))

    async def pause(self, scope: Scope) -> None:
        options = texts_of(scope, ("seconds",))
        seconds = parse_seconds(options["seconds"]) if "seconds" in options else None
        await self._admin.pause_group(topic_within(scope), _group_of(scope), seconds).wait()

    async def resume(self, scope: Scope) -> None:
        query_of(scope, ())
        await self._admin.resume_group(topic_within(scope), _group_of(scope)).wait()

    async def seek(self, scope: Scope) -> object:
        options = query_of(scope, ("to", "dry_run"))
        if "to" not in options or options.get("dry_run", b"true") not in (b"true", b"false"):
            raise RequestError("invalid seek; requires to=, the start position; dry_run must be true or false")
        is_dry = options.get("dry_run") == b"true"
        start = parse_start(options["to"])
        counts = await self._groups.seek(topic_within(scope), _group_of(scope), start, is_dry=is_dry)
        return counts._asdict()


def _group_of(scope: Scope) -> bytes:
    """Return the name of the group in the path, percent-decoded, unchecked."""
    return segment_of(scope, 4)
