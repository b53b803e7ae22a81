"""What differs between the versions of redis-py, from 5.3 on: celery and other packages hold back some programs.

before 7     connections have no notices of maintenance, which would have to be switched off
before 7.2   an error of a reply has no code: redis-py has removed the code if it knows it, and has chosen a class
before 8     a read has no timeout of its own, but that of the connection
"""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Final, Protocol

import redis

from miniqueue_client.calls.call import Reply

#: Whether the reads of a connection have a timeout of their own.
HAS_TIMEOUTS: Final = "timeout" in inspect.signature(redis.Connection.read_response).parameters
#: The option of connections that can have notices of maintenance.
_MAINTENANCE: Final = "maint_notifications_config"
_CODES: Final = (
    (redis.exceptions.ReadOnlyError, "READONLY"),
    (redis.exceptions.NoPermissionError, "NOPERM"),
    (redis.exceptions.ExecAbortError, "EXECABORT"),
    (redis.exceptions.OutOfMemoryError, "OOM"),
    (redis.exceptions.MovedError, "MOVED"),
    (redis.exceptions.TryAgainError, "TRYAGAIN"),
)


class Readable(Protocol):
    """The methods of redis-py's connections that read; redis-py's own types do not declare them."""

    def can_read(self, timeout: float | None) -> bool:
        """Whether there is something to read, after waiting that long for it."""

    def read_response(self, *, timeout: float | None = ...) -> Reply:
        """Return the next reply."""


def pool_options(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401 - redis-py has two classes, without a base
    """Return the options of a pool of this class that make its connections plain ones."""
    connection = importlib.import_module(kind.__module__).AbstractConnection
    if _MAINTENANCE not in inspect.signature(connection.__init__).parameters:
        return {}
    notices = importlib.import_module("redis.maint_notifications")
    return {_MAINTENANCE: notices.MaintNotificationsConfig(enabled=False)}


def read_reply(connection: Readable, timeout_seconds: float | None) -> Reply:
    """Return the next reply; raises redis.TimeoutError, or the error that the reply is. None: wait without a limit."""
    if HAS_TIMEOUTS:
        return connection.read_response(timeout=timeout_seconds)
    if not connection.can_read(timeout_seconds):
        raise redis.TimeoutError("no reply in time")
    return connection.read_response()


def code_of(error: Exception) -> str | None:
    """Return the code of a reply that is an error; None if it is still in the text, or unknown."""
    code = getattr(error, "status_code", None)
    if code is not None or HAS_TIMEOUTS:
        return code
    if isinstance(error, redis.AuthenticationError):
        return "WRONGPASS" if "invalid username-password pair" in str(error) else "NOAUTH"
    return next((code for kind, code in _CODES if isinstance(error, kind)), None)
