"""Inspecting topics and messages over HTTP, and purging.

    GET    /topics                                statistics of the topics that the user may inspect
    GET    /topics/{topic}                        statistics and settings of one topic
    GET    /topics/{topic}/messages               its messages: ?state=&count=&after=&group=
    GET    /topics/{topic}/messages/{id}          one message
    GET    /topics/{topic}/messages/{id}/trace    the events of one message
    POST   /topics/{topic}/purge                  removes messages: ?state=&older=&group=&task=

Replies are JSON.
"""

from contextlib import aclosing
from functools import partial

from orjson import Fragment
from starlette.types import Scope

from miniqueue.access.rights import Right
from miniqueue.broker import Broker
from miniqueue.broker.acts.requests import purge_task
from miniqueue.broker.inspect.peek import DEFAULT_COUNT
from miniqueue.broker.inspect.peeked import State, parse_count, parse_state
from miniqueue.broker.inspect.recent import Recent
from miniqueue.broker.model.views import stats_of
from miniqueue.core.message.ids import parse_any_id
from miniqueue.core.options.consume import parse_switch
from miniqueue.core.options.durations import parse_seconds
from miniqueue.server.asgi.endpoints import JsonEndpoint
from miniqueue.server.asgi.request import query_of
from miniqueue.server.asgi.routing import message_id_of, segment_of, topic_of, topic_within
from miniqueue.server.views.messages import json_message, json_messages
from miniqueue.server.views.traces import json_steps
from miniqueue.wire.json_parts import json_fragment


def inspect_endpoints(broker: Broker) -> dict[tuple[str, str], JsonEndpoint]:
    """Return the endpoints by method and path."""
    pages = _Pages(broker)
    return {
        ("GET", "/topics"): JsonEndpoint(pages.topics),
        ("GET", "/topics/{topic}"): JsonEndpoint(pages.topic),
        ("GET", "/topics/{topic}/messages"): JsonEndpoint(pages.messages),
        ("GET", "/topics/{topic}/messages/{id}"): JsonEndpoint(pages.message),
        ("GET", "/topics/{topic}/messages/{id}/trace"): JsonEndpoint(pages.trace),
        ("POST", "/topics/{topic}/purge"): JsonEndpoint(pages.purge),
    }


class _Pages:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._listed: Recent[dict[bytes, Fragment]] = broker.inspect.recent()

    async def topics(self, scope: Scope) -> object:
        user, listed = scope.get("user"), await self._listed.get(self._list)
        names = listed if user is None else user.monitored([*listed])
        return {"topics": [listed[name] for name in names]}

    async def _list(self) -> dict[bytes, Fragment]:
        """Return the topics by name, in order, each as JSON."""
        listed = {}
        async with aclosing(self._broker.inspect.existing()) as topics:
            async for topic in topics:
                stats = stats_of(topic)
                counts = {"ready": stats.ready, "leased": stats.leased, "delayed": stats.delayed}
                shown = {"topic": topic.name.decode(), "depth": sum(counts.values()), **counts}
                listed[topic.name] = json_fragment(shown)
        return listed

    async def topic(self, scope: Scope) -> object:
        name = topic_of(scope)
        statistics = await self._broker.inspect.stats(name)
        settings = self._broker.admin.settings_of(name)
        return {"topic": name.decode(), **statistics, "settings": settings._asdict()}

    async def messages(self, scope: Scope) -> object:
        options = query_of(scope, ("state", "count", "after", "group"))
        state = parse_state(options["state"]) if "state" in options else State.READY
        count = parse_count(options["count"]) if "count" in options else DEFAULT_COUNT
        after = parse_any_id(options["after"]) if "after" in options else None
        messages = await self._broker.inspect.peek(topic_within(scope), state, count, after, options.get("group"))
        return {"messages": await json_messages(self._broker, messages)}

    async def message(self, scope: Scope) -> object:
        message_id, group = parse_any_id(message_id_of(scope)), query_of(scope, ("group",)).get("group")
        return json_message(await self._broker.inspect.find(topic_within(scope), message_id, group))

    async def trace(self, scope: Scope) -> object:
        user, message_id = scope.get("user"), parse_any_id(segment_of(scope, 4))
        may_see = None if user is None else partial(user.may, Right.MONITOR)
        return {"trace": json_steps(await self._broker.trace(topic_within(scope), message_id, may_see))}

    async def purge(self, scope: Scope) -> object:
        options = query_of(scope, ("state", "older", "group", "task"))
        state = parse_state(options["state"]) if "state" in options else None
        older = parse_seconds(options["older"].decode("utf-8", "replace")) if "older" in options else None
        group = options.get("group")
        if parse_switch("task", options):
            task = purge_task(topic_within(scope), state, older, group, self._broker.clock.now_ms())
            return {"task": str(await self._broker.tasks.begin(task))}
        return {"removed": await self._broker.purge(topic_within(scope), state, older, group)}
