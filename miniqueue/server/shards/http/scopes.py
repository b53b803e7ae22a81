"""What a door tells an owner of a request, as JSON: the scope of ASGI, in which bytes are Latin-1 text.

The door has authenticated the client, so its credentials stay there: the owner gets the name of the user.
"""

from typing import Any, Final, NamedTuple

import orjson
from starlette.types import Message, Scope

#: The applications of a process: the queue's HTTP port, the monitoring port, and its parts of the live page.
QUEUE: Final = "queue"
MONITOR: Final = "monitor"
PAGE: Final = "page"
_NOT_PASSED: Final = frozenset({b"authorization"})


class Passed(NamedTuple):
    """A request that was passed on.

    Attributes:
      port: which application it is for.
      user: the name of the user whom the door has authenticated; None if there is none.
      is_offered: whether messages are offered to the door before they are in the reply.
      scope: the scope, without `state`.
    """

    port: str
    user: str | None
    is_offered: bool
    scope: dict[str, Any]


def encode_scope(scope: Scope, port: str, user: str | None, *, is_offered: bool = False) -> bytes:
    """Encode the scope of a request."""
    fields = {name: scope[name] for name in ("method", "path", "http_version", "scheme") if name in scope}
    texts = {name: scope[name].decode("latin-1") for name in ("raw_path", "query_string")}
    headers = [
        [name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"] if name not in _NOT_PASSED
    ]
    passed = {"port": port, "user": user, "is_offered": is_offered}
    return orjson.dumps({**fields, **texts, "headers": headers, "client": scope.get("client"), **passed})


def decode_scope(content: bytes) -> Passed:
    """Return the request that `encode_scope` has encoded."""
    fields = orjson.loads(content)
    port, user, is_offered = (fields.pop(name) for name in ("port", "user", "is_offered"))
    client = fields["client"]
    for name in ("raw_path", "query_string"):
        fields[name] = fields[name].encode("latin-1")
    fields["headers"] = _headers(fields["headers"])
    fields["client"] = None if client is None else tuple(client)
    return Passed(port, user, is_offered, {"type": "http", "server": None, **fields})


def encode_start(message: Message) -> bytes:
    """Encode status and headers of a reply."""
    headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in message["headers"]]
    return orjson.dumps([int(message["status"]), headers])


def decode_start(content: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return status and headers of a reply."""
    status, headers = orjson.loads(content)
    return status, _headers(headers)


def _headers(pairs: list[list[str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
