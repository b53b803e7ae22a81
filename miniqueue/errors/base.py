"""The base of the broker's errors that are neither those of requests, of the store, nor of a startup.

`miniqueue_client.errors` defines the base of all errors, and what the clients raise. The server maps classes to HTTP
statuses (`server.asgi.replies`).
"""

from miniqueue_client.errors import MiniqueueError


def described(error: BaseException) -> str:
    """Return the kind and the text of an unexpected error, as in the last line of a traceback."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


class InternalError(MiniqueueError):
    """A bug in miniqueue; please report it."""
