"""Connections of the blocking client: redis-py's pools, one reply for each call, and errors that say what is known.

Knows redis-py's connections; of the protocol it knows only words and replies. In a forked process the pool opens its
own sockets and leaves the parent's alone.

    what fails                             what is known            error
    get_connection                         nothing was sent         ConnectError; UntrustedError for a certificate
    sending or reading                     nothing                  DisconnectedError; the connection is closed
    the reply is an error                  the broker refused it    RefusedError
    a word is not bytes, str or a number   nothing was sent         RequestError
"""

import math
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from miniqueue_client.address import Address
from miniqueue_client.any_redis import Readable, code_of, pool_options, read_reply
from miniqueue_client.calls.call import NO_WORD, Call, Reply, Word, may_follow, raise_what_passes
from miniqueue_client.calls.errors import RefusedError, UntrustedError, refusal
from miniqueue_client.errors import ClientError, ConfigError, ConnectError, DisconnectedError, RequestError
from miniqueue_client.routes import LOST_SECONDS, SLOTS, UNREACHABLE_SECONDS, Routes, is_cluster

T = TypeVar("T")

#: What redis-py says before the reason, `Error 111 connecting to localhost:6379. `: the address is said already.
_BEFORE_REASON = re.compile(r"^Error -?\d+ connecting to \S+\. ")


class _Connection(Readable, Protocol):
    """The methods of redis-py's connections that are used here; redis-py's own types do not declare them."""

    def pack_commands(self, commands: Sequence[tuple[Word, ...]]) -> list[bytes]: ...

    def send_packed_command(self, packed: list[bytes], *, check_health: bool) -> None: ...

    def disconnect(self) -> None: ...


class _Pool(Protocol):
    """The members of redis-py's pool that are used here."""

    def get_connection(self) -> _Connection: ...

    def release(self, connection: _Connection) -> None: ...

    def disconnect(self) -> None: ...


class Link:
    """Pools of connections to one broker, one for each node that it has; threads may share it.

    Args:
      address: the address of the broker.
      tell: called with each error that permits a retry.
    """

    def __init__(self, address: Address, tell: Callable[[Exception], None]) -> None:
        self._address = address
        self._tell = tell
        self._pool: _Pool = self._make_pool(address)
        self._pools: dict[str, _Pool] = {}  # a pool for each node, by its URL
        self._routes = Routes(address)

    def execute(self, call: Call[T]) -> T:
        """Carry out a call, with retries if it can be repeated; raises ClientError."""
        [reply] = self._ask([call])
        return call.result_of(reply)

    def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls as one pipeline, as `execute`; the result of a refused call is its RefusedError."""
        replies: list[Reply] = [None] * len(calls)
        for positions in self._routes.parts_of(calls) if calls else ():
            for position, reply in zip(positions, self._ask([calls[each] for each in positions]), strict=True):
                replies[position] = reply
        return [call.outcome_of(reply) for call, reply in zip(calls, replies, strict=True)]

    def listen(self, call: Call[None]) -> Iterator[Reply]:
        """Yield what the broker sends after the reply to a call, on a connection of its own; raises ClientError.

        There are no retries: what was sent between two connections is lost.
        """
        connection = self._connection(self._pool)
        try:
            connection.send_packed_command(connection.pack_commands([call.words]), check_health=False)
            call.result_of(self._reply(connection, call.wait_seconds))
            while True:
                yield accepted(self._reply(connection, math.inf))
        except redis.DataError as exc:
            raise RequestError(NO_WORD) from exc
        except redis.RedisError as exc:
            raise DisconnectedError(f"{self._address}: {exc}") from exc
        finally:
            connection.disconnect()
            self._pool.release(connection)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        for pool in (self._pool, *self._pools.values()):
            pool.disconnect()

    def _ask(self, calls: Sequence[Call[T]]) -> list[Reply]:
        """Return the replies, RefusedError for refused calls, after as many attempts as are necessary."""
        failure_count = 0
        while True:
            try:
                return self._exchange(calls)
            except ClientError as exc:
                if not may_follow(calls, exc):
                    raise
                failure_count += 1
                self._routes.forget()
                self._tell(exc)
                pause_seconds = self._address.pause_seconds(failure_count)
                if pause_seconds is None:
                    raise
            time.sleep(pause_seconds)

    def _exchange(self, calls: Sequence[Call[T]]) -> list[Reply]:
        url, pool, connection = self._connection_for(calls)
        try:
            replies = self._replies(connection, calls)
        except DisconnectedError:
            self._routes.leave_out(url, LOST_SECONDS)
            raise
        finally:
            pool.release(connection)
        raise_what_passes(calls, replies)
        if self._routes.is_known:
            self._routes.note(calls, replies)
        return replies

    def _replies(self, connection: _Connection, calls: Sequence[Call[Any]]) -> list[Reply]:
        """Send calls, and return their replies; a connection that fails is closed."""
        try:
            packed = connection.pack_commands([call.words for call in calls])
            # In one piece: the broker carries out commands that arrive in one read together.
            connection.send_packed_command([b"".join(packed)], check_health=False)
            return [self._reply(connection, call.wait_seconds) for call in calls]
        except redis.DataError as exc:  # a word such as None, which cannot be encoded; nothing was sent
            raise RequestError(NO_WORD) from exc
        except redis.RedisError as exc:
            connection.disconnect()
            raise DisconnectedError(f"{self._address}: {exc}") from exc
        except BaseException:  # such as KeyboardInterrupt; the next user of the connection would read these replies
            connection.disconnect()
            raise

    def _reply(self, connection: "_Connection", wait_seconds: float) -> Reply:
        try:
            timeout_seconds = None if math.isinf(wait_seconds) else wait_seconds + self._address.timeout_seconds
            return read_reply(connection, timeout_seconds)
        except redis.RedisError as exc:
            if (refused := refusal_of(exc)) is None:
                raise
            return refused

    def _connection_for(self, calls: Sequence[Call[Any]]) -> tuple[str, _Pool, _Connection]:
        """Return a connection for calls: to the node with their topic, or to any other that can be reached.

        A connection that has read the nodes is closed: the broker would no longer pass calls on for it. Raises
        ClientError.
        """
        if not self._routes.is_known:
            connection = self._connection(self._pool)
            if not is_cluster(connection):
                return self._address.url, self._pool, connection
            try:
                [slots] = self._replies(connection, [SLOTS])
                connection.disconnect()
            finally:
                self._pool.release(connection)
            self._routes.learn(SLOTS.result_of(slots))
        failed: ConnectError | None = None
        for url in self._routes.urls_for(calls):
            pool = self._pool_at(url)
            try:
                return url, pool, self._connection(pool)
            except ConnectError as exc:
                self._routes.leave_out(url, UNREACHABLE_SECONDS)
                failed = failed or exc
        assert failed is not None  # the client's own URL is always tried
        raise failed

    def _pool_at(self, url: str) -> _Pool:
        if url == self._address.url:
            return self._pool
        pool = self._pools.get(url)
        return pool or self._pools.setdefault(url, self._make_pool(self._routes.address_of(url)))

    def _make_pool(self, address: Address) -> _Pool:
        pool: _Pool = pool_of(redis.ConnectionPool, Retry(NoBackoff(), 0), address)
        return pool

    def _connection(self, pool: _Pool) -> _Connection:
        try:
            return pool.get_connection()
        except redis.RedisError as exc:
            raise refusal_of(exc) or unconnected(self._address, exc) from exc


def pool_of(kind: Any, retry: Any, address: Address) -> Any:  # noqa: ANN401 - redis-py has two of each, without a base
    """Return a pool of redis-py, which connects when it is used; raises ConfigError for an invalid option.

    Args:
      kind: the class of the pool.
      retry: redis-py's retry policy for the pool.
      address: the broker and the options; the URL can contain options too, after the `?`.
    """
    try:
        pool = kind.from_url(
            address.url,
            retry=retry,
            **pool_options(kind),
            **address.pool_options(),
        )
        pool.connection_class(**pool.connection_kwargs)  # checks the options, which the pool does not
    except (TypeError, ValueError, redis.RedisError) as exc:
        raise ConfigError([f"invalid option of redis-py for {address}: {exc}"]) from exc
    return pool


def unconnected(address: Address, exc: Exception) -> ConnectError:
    """Return the error for a failed connection, with the reason in redis-py's text; for a timeout without one, ours.

    A broker ends a connection that uses TLS on a port without TLS, and the reverse: then the text says how to begin the
    URL.
    """
    text = f"cannot connect to {address}: {_BEFORE_REASON.sub('', str(exc)).rstrip('.') or 'no reply in time'}"
    if isinstance(exc.__context__, ssl.SSLCertVerificationError):
        return UntrustedError(text)
    if not _is_ended(exc):
        return ConnectError(text)
    if address.url.startswith("rediss://"):
        hint = "if that port does not use TLS, the URL must begin with redis://"
    else:
        hint = "if that port uses TLS, the URL must begin with rediss://"
    return ConnectError(f"{text}; {hint}")


def _is_ended(exc: Exception) -> bool:
    """Whether the other side has accepted a connection, and has ended it without a reply."""
    is_lost = isinstance(exc, redis.ConnectionError) and not isinstance(exc, redis.TimeoutError)
    return is_lost and isinstance(exc.__context__, ssl.SSLError | ConnectionResetError | type(None))


def accepted(reply: Reply) -> Reply:
    """Return a reply that is no refusal; raises the RefusedError that it is."""
    if isinstance(reply, RefusedError):
        raise reply
    return reply


def refusal_of(exc: Exception) -> RefusedError | None:
    """Return the broker's refusal, or None if the error is not a reply of the broker."""
    if not isinstance(exc, redis.ResponseError | redis.AuthenticationError):
        return None
    code = code_of(exc)
    return RefusedError(code, str(exc)) if code else refusal(str(exc))
