"""The path of a request: its route, and the topic, message, or schedule that it names.

    /publish/a%20b               route /publish/{topic}                 the topic is the last segment
    /topics/a/messages/0-17      route /topics/{topic}/messages/{id}    the topic is the second segment
    /schedules/a/fire            route /schedules/{name}/fire           there is no topic

Names are decoded from the raw bytes of the path: in ASGI's decoded path, bytes that are not UTF-8 are lost.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.server.asgi.replies import not_allowed


def topic_of(scope: Scope) -> bytes:
    """Return the last segment of the request's path, percent-decoded, unchecked."""
    raw_path: bytes = scope["raw_path"]
    return _decoded(raw_path[raw_path.rfind(b"/") + 1 :])


def topic_within(scope: Scope) -> bytes:
    """Return the second segment of the path, percent-decoded, unchecked; the only segment if there is just one."""
    raw_path: bytes = scope["raw_path"]
    return _decoded(raw_path.split(b"/", 3)[2 if raw_path.count(b"/") > 1 else 1])


def message_id_of(scope: Scope) -> bytes:
    """Return the last segment of the path, percent-decoded, unchecked: the id of a message or of a partition."""
    return topic_of(scope)


def segment_of(scope: Scope, index: int) -> bytes:
    """Return a segment of the path, counted from 1, percent-decoded, unchecked; b"" if the path is shorter."""
    segments: list[bytes] = scope["raw_path"].split(b"/")
    return _decoded(segments[index]) if index < len(segments) else b""


def words_of(scope: Scope) -> list[bytes]:
    """Return the segments of the path, and the names and values of the query, percent-decoded, unchecked."""
    path_and_query: bytes = scope["raw_path"] + b"?" + scope["query_string"].replace(b"+", b" ")
    return [*map(_decoded, re.split(rb"[/?&=]", path_and_query))]


def finder_of_topic(route: str) -> Callable[[Scope], bytes]:
    """Return the function that returns the topic of requests of a route."""
    return topic_of if route.endswith("{topic}") else topic_within


def route_below_topic(path: str) -> str:
    """Return the route of a path that continues after the topic, as `/topics/a/messages/0-17`, or of a schedule."""
    parts = path.split("/")
    if parts[1] == "tasks" and len(parts) == 3:
        return "/tasks/{id}"
    if parts[1] == "schedules":
        return "/".join(["/schedules/{name}", *parts[3:]])
    parts[2:3] = ["{topic}"]
    parts[4:5] = ["{id}"] * (len(parts) > 4)
    return "/".join(parts)


def _decoded(segment: bytes) -> bytes:
    return unquote_to_bytes(segment) if b"%" in segment else segment


class Methods:
    """The methods of one path; other methods are answered with 405.

    Args:
      endpoints: the endpoint of each method.
    """

    def __init__(self, endpoints: Mapping[str, ASGIApp]) -> None:
        self._endpoints: Mapping[str, ASGIApp] = MappingProxyType(dict(endpoints))
        self._refusal = not_allowed(", ".join(sorted(endpoints)))

    def of(self, method: str) -> ASGIApp:
        """Return the endpoint of a method."""
        return self._endpoints.get(method, self._refusal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self.of(scope["method"])(scope, receive, send)
