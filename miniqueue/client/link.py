"""Connections of the blocking client: redis-py's pool, with a reply for each call or an error that says what is known.

Knows redis-py's connections, and of what is said only words and replies. The pool notices that its process is a fork
of another, and leaves that one's sockets alone.

    get_connection fails           nothing was sent          ConnectError
    sending or reading fails       nobody knows              DisconnectedError; the connection is closed
    the reply is an error                                    RefusedError
"""

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar, cast

import redis
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from miniqueue.client.address import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Address
from miniqueue.client.call import Call, Reply, Word
from miniqueue.client.refusals import RefusedError, refusal
from miniqueue.errors import ClientError, ConnectError, DisconnectedError

T = TypeVar("T")


class _Connection(Protocol):
    """What is used of redis-py's connections, whose own types do not tell it."""

    def send_command(self, *words: Word, check_health: bool) -> None: ...

    def read_response(self, *, timeout: float | None) -> Reply: ...

    def disconnect(self) -> None: ...


class _Pool(Protocol):
    """What is used of redis-py's pool."""

    def get_connection(self) -> _Connection: ...

    def release(self, connection: _Connection) -> None: ...

    def disconnect(self) -> None: ...


class Link:
    """A pool of connections to one broker; threads may share it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        pool = redis.ConnectionPool.from_url(
            address.url,
            retry=Retry(NoBackoff(), 0),
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
            **address.pool_options(),
        )
        self._pool = cast(_Pool, pool)
        self._retry = Retry(
            ExponentialWithJitterBackoff(base=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS),
            address.retries,
            (ClientError,),
        )

    def execute(self, call: Call[T]) -> T:
        """Carry out a call, again where that does no harm; raises ClientError."""
        try:
            reply = self._retry.call_with_retry(
                lambda: self._exchange(call.words, call.wait_seconds),
                lambda _error: None,
                is_retryable=lambda error: isinstance(error, ClientError) and call.may_follow(error),
            )
        except RefusedError as refused:
            return call.result_of(refused)
        return call.parse(reply)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self._pool.disconnect()

    def _exchange(self, words: Sequence[Word], wait_seconds: float) -> Reply:
        connection = self._connection()
        patience = None if math.isinf(wait_seconds) else wait_seconds + self._address.timeout_seconds
        try:
            connection.send_command(*words, check_health=False)
            return connection.read_response(timeout=patience)
        except redis.RedisError as exc:
            raise refusal_of(exc) or DisconnectedError(f"{self._address}: {exc}") from exc
        except BaseException:  # an interrupt: nobody reads the reply, so nobody else may
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def _connection(self) -> "_Connection":
        try:
            return self._pool.get_connection()
        except redis.RedisError as exc:
            raise refusal_of(exc) or ConnectError(f"cannot connect to {self._address}: {exc}") from exc


def refusal_of(exc: Exception) -> RefusedError | None:
    """Return what the broker said, or None when it said nothing."""
    if not isinstance(exc, redis.ResponseError | redis.AuthenticationError):
        return None
    return RefusedError(exc.status_code, str(exc)) if exc.status_code else refusal(str(exc))
