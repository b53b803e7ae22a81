"""Connections of the blocking client: redis-py's pool, with a reply for each call or an error that says what is known.

Knows redis-py's connections, and of what is said only words and replies. The pool notices that its process is a fork
of another, and leaves that one's sockets alone.

    get_connection fails           nothing was sent          ConnectError; UntrustedError for its certificate
    sending or reading fails       nobody knows              DisconnectedError; the connection is closed
    the reply is an error                                    RefusedError
    a word is no bytes, str or number    nothing was sent    RequestError
"""

import math
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import redis
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from miniqueue.client.address import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Address
from miniqueue.client.call import NO_WORD, Call, Reply, Word, may_follow, raise_what_passes
from miniqueue.client.refusals import RefusedError, UntrustedError, refusal
from miniqueue.errors import ClientError, ConfigError, ConnectError, DisconnectedError, RequestError

T = TypeVar("T")


class _Connection(Protocol):
    """What is used of redis-py's connections, whose own types do not tell it."""

    def pack_commands(self, commands: Sequence[tuple[Word, ...]]) -> list[bytes]: ...

    def send_packed_command(self, packed: list[bytes], *, check_health: bool) -> None: ...

    def read_response(self, *, timeout: float | None) -> Reply: ...

    def disconnect(self) -> None: ...


class _Pool(Protocol):
    """What is used of redis-py's pool."""

    def get_connection(self) -> _Connection: ...

    def release(self, connection: _Connection) -> None: ...

    def disconnect(self) -> None: ...


class Link:
    """A pool of connections to one broker; threads may share it.

    Args:
      address: of the broker.
      tell: is told of each error after which another try may help.
    """

    def __init__(self, address: Address, tell: Callable[[Exception], None]) -> None:
        self._address = address
        self._tell = tell
        self._pool: _Pool = pool_of(redis.ConnectionPool, Retry(NoBackoff(), 0), address)
        self._retry = Retry(
            ExponentialWithJitterBackoff(base=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS),
            address.retries,
            (ClientError,),
        )

    def execute(self, call: Call[T]) -> T:
        """Carry out a call, again where that does no harm; raises ClientError."""
        [reply] = self._ask([call])
        return call.result_of(reply)

    def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls in one go, as `execute`; a refusal is the result of its call."""
        replies = self._ask(calls) if calls else []
        return [call.outcome_of(reply) for call, reply in zip(calls, replies, strict=True)]

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self._pool.disconnect()

    def _ask(self, calls: Sequence[Call[T]]) -> list[Reply]:
        """Return the replies, with errors for refusals, after as many tries as it takes."""
        return self._retry.call_with_retry(
            lambda: self._exchange(calls),
            self._tell,
            is_retryable=lambda error: isinstance(error, ClientError) and may_follow(calls, error),
        )

    def _exchange(self, calls: Sequence[Call[T]]) -> list[Reply]:
        connection = self._connection()
        try:
            packed = connection.pack_commands([call.words for call in calls])
            # In one piece: the broker reads what comes in several one by one.
            connection.send_packed_command([b"".join(packed)], check_health=False)
            replies = [self._reply(connection, call.wait_seconds) for call in calls]
        except redis.DataError as exc:  # a word that cannot be spelled, as None: nothing was sent
            raise RequestError(NO_WORD) from exc
        except redis.RedisError as exc:
            connection.disconnect()
            raise DisconnectedError(f"{self._address}: {exc}") from exc
        except BaseException:  # an interrupt: nobody reads the replies that are left, so nobody else may
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)
        raise_what_passes(calls, replies)
        return replies

    def _reply(self, connection: "_Connection", wait_seconds: float) -> Reply:
        try:
            patience = None if math.isinf(wait_seconds) else wait_seconds + self._address.timeout_seconds
            return connection.read_response(timeout=patience)
        except redis.RedisError as exc:
            if (refused := refusal_of(exc)) is None:
                raise
            return refused

    def _connection(self) -> "_Connection":
        try:
            return self._pool.get_connection()
        except redis.RedisError as exc:
            raise refusal_of(exc) or unconnected(self._address, exc) from exc


def pool_of(kind: Any, retry: Any, address: Address) -> Any:  # noqa: ANN401 - redis-py has two of each, without a base
    """Return a pool of redis-py, which connects later; raises ConfigError for an option that it does not take.

    Args:
      kind: of the pool.
      retry: how it tries again by itself.
      address: what it is made of; options may stand in its URL, too, behind the `?`.
    """
    try:
        pool = kind.from_url(
            address.url,
            retry=retry,
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
            **address.pool_options(),
        )
        pool.connection_class(**pool.connection_kwargs)  # the pool takes them all, a connection does not
    except (TypeError, ValueError, redis.RedisError) as exc:
        raise ConfigError([f"redis-py takes no such option for {address}: {exc}"]) from exc
    return pool


def unconnected(address: Address, exc: redis.RedisError | TimeoutError) -> ConnectError:
    """Return what redis-py says when there is no connection; it has put the cause into words, but for a timeout."""
    kind = UntrustedError if isinstance(exc.__context__, ssl.SSLCertVerificationError) else ConnectError
    return kind(f"cannot connect to {address}: {str(exc) or 'no reply in time'}")


def refusal_of(exc: Exception) -> RefusedError | None:
    """Return what the broker said, or None when it said nothing."""
    if not isinstance(exc, redis.ResponseError | redis.AuthenticationError):
        return None
    return RefusedError(exc.status_code, str(exc)) if exc.status_code else refusal(str(exc))
