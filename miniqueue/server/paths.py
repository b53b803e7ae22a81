"""Topic names in request paths."""

from urllib.parse import unquote_to_bytes

from starlette.types import Scope


def topic_of(scope: Scope) -> bytes:
    """Return the last segment of the request's path, percent-decoded, unchecked.

    ASGI's decoded path has replacement characters where the bytes are no UTF-8; this one has the bytes.
    """
    raw_path: bytes = scope["raw_path"]
    topic = raw_path[raw_path.rfind(b"/") + 1 :]
    return unquote_to_bytes(topic) if b"%" in topic else topic
