"""Values as JSON: in payloads, and in the requests of the client over HTTP/2."""

import json

from miniqueue_client.errors import RequestError


def encoded(value: object) -> bytes:
    """Return a value as JSON without spaces, in UTF-8; raises RequestError for a value that JSON does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise RequestError(f"invalid value; must be one that JSON has: {exc}") from exc
