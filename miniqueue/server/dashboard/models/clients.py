"""The read model `connections`: the connected clients, as CLIENT LIST shows them; with `topic`, those that read it.

    {"total":…,"connections":[{"address":…,"topic":"orders","leased":3,…}],"holders":[{"group":…,"user":"ada",…}]}

As CLIENT LIST, it requires the right to monitor the whole broker: it has the addresses and the users of other clients.
Requests over HTTP are short, so only connections that stay are listed. `holders`, only with `topic`, are the users and
addresses that hold leases of requests, as GROUP HOLDERS shows them: most messages first.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_permitted
from miniqueue.broker.leases.listing import LeaseHolder
from miniqueue.errors import MiniqueueError
from miniqueue.server.dashboard.models.model import Context, Make, Model, number_of, text_of
from miniqueue.server.dashboard.models.topics import DEFAULT_COUNT, MAX_COUNT, MAX_PAGE
from miniqueue.server.views.clients import ConnectedClient

#: Number of connections that are compared in one iteration of the event loop.
CLIENTS_IN_TURN: Final = 500


def open_connections(context: Context, options: Mapping[str, bytes], user: User | None) -> Make:
    """Open the list; raises NotPermittedError unless the user may monitor the whole broker."""
    check_permitted(user, Right.MONITOR, None, "GET /ui/data/connections")
    topic = options.get("topic") or None
    count = number_of(options, "count", DEFAULT_COUNT, context.max_count)
    first = (number_of(options, "page", 1, MAX_PAGE) - 1) * count
    text = text_of(options, "q").lower()
    return partial(_make, context, topic, text, slice(first, first + count))


CONNECTIONS: Final = Model(open_connections, ("topic", "page", "count", "q"))


async def _make(context: Context, topic: bytes | None, text: str, page: slice) -> dict[str, object]:
    matching: list[ConnectedClient] = []
    for number, client in enumerate(context.facts.clients(), 1):
        if number % CLIENTS_IN_TURN == 0:
            await asyncio.sleep(0)
        if topic in (None, client.reading and client.reading.topic) and (not text or text in _text_of(client)):
            matching.append(client)
    connections: dict[str, object] = {
        "total": len(matching),
        "connections": [_shown(client) for client in matching[page]],
    }
    return connections if topic is None else connections | {"holders": await _holders(context, topic)}


async def _holders(context: Context, topic: bytes) -> list[dict[str, object]]:
    listed: list[tuple[str, LeaseHolder]] = []
    for name in context.broker.parts_here(topic):
        with suppress(MiniqueueError):  # there is no such topic, or the store is being reopened
            by_group = await context.broker.leases.holders_by_group(name)
            listed += [(group.decode(), holder) for group, of in by_group.items() for holder in of[:MAX_COUNT]]
    listed.sort(key=lambda each: (-each[1].leased, each[0]))
    now_ms = context.broker.clock.now_ms()
    return [
        {
            "group": group,
            "user": holder.user,
            "address": holder.address,
            "leased": holder.leased,
            "firstEndsAtMs": now_ms + holder.remaining_ms,
        }
        for group, holder in listed[:MAX_COUNT]
    ]


def _text_of(client: ConnectedClient) -> str:
    """Return everything by which a connection can be found."""
    topic = "" if client.reading is None else client.reading.topic.decode()
    return f"{client.address} {client.name} {client.user} {topic} {client.library}".lower()


def _shown(client: ConnectedClient) -> dict[str, object]:
    topic, group, member = client.reading or (b"", b"", b"")
    return {
        "id": client.id,
        "protocol": client.protocol,
        "address": client.address,
        "name": client.name or None,
        "user": client.user or None,
        "library": client.library or None,
        "connectedAtMs": client.connected_at_ms,
        "topic": topic.decode() or None,
        "group": group.decode() or None,
        "member": member.decode() or None,
        "leased": client.leased,
        "mode": client.mode,
    }
