"""What request paths say: which route they are of, and the topic and the message they name.

    /publish/a%20b               route /publish/{topic}                 the topic is the last segment
    /topics/a/messages/0-17      route /topics/{topic}/messages/{id}    the topic is the second segment
    /schedules/a                 route /schedules/{name}                there is none

ASGI's decoded path has replacement characters where the bytes are no UTF-8; names are taken from the bytes.
"""

from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from starlette.types import Scope


def topic_of(scope: Scope) -> bytes:
    """Return the last segment of the request's path, percent-decoded, unchecked."""
    raw_path: bytes = scope["raw_path"]
    return _decoded(raw_path[raw_path.rfind(b"/") + 1 :])


def topic_within(scope: Scope) -> bytes:
    """Return the second segment of the path, percent-decoded, unchecked; all that there is where there are not two."""
    raw_path: bytes = scope["raw_path"]
    return _decoded(raw_path.split(b"/", 3)[2 if raw_path.count(b"/") > 1 else 1])


def message_id_of(scope: Scope) -> bytes:
    """Return the last segment of the path, percent-decoded, unchecked; also where it is no message but a partition."""
    return topic_of(scope)


def segment_of(scope: Scope, index: int) -> bytes:
    """Return a segment of the path, counted from 1, percent-decoded, unchecked; b"" where there are not so many."""
    segments: list[bytes] = scope["raw_path"].split(b"/")
    return _decoded(segments[index]) if index < len(segments) else b""


def finder_of_topic(route: str) -> Callable[[Scope], bytes]:
    """Return what finds the topic in a request of a route."""
    return topic_of if route.endswith("{topic}") else topic_within


def route_below_topic(path: str) -> str:
    """Return the route of a path that goes on behind the topic: `/topics/a/messages/0-17`; or that of a schedule."""
    parts = path.split("/")
    if parts[1] == "schedules" and len(parts) == 3:
        return "/schedules/{name}"
    parts[2:3] = ["{topic}"]
    parts[4:5] = ["{id}"] * (len(parts) > 4)
    return "/".join(parts)


def _decoded(segment: bytes) -> bytes:
    return unquote_to_bytes(segment) if b"%" in segment else segment
