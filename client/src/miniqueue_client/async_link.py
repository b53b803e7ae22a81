"""Connections of the client for asyncio: like `link`, with redis-py's pool for asyncio.

That pool does not notice a fork. In a forked process a client makes a new pool and keeps the old one unused: closing
or releasing it would use the event loop of the parent process.

redis-py wraps each write of a connection that has a socket timeout in `asyncio.wait_for`. On Python 3.11 that loses a
cancellation that arrives when the write is done: `task.cancel()` would not end a receive that waits for an hour.
Connections therefore have no socket timeout here; `timeout`, which loses no cancellation, limits each step.
"""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import redis
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from miniqueue_client.address import Address
from miniqueue_client.any_redis import HAS_TIMEOUTS
from miniqueue_client.calls.call import NO_WORD, Call, Reply, Word, may_follow, raise_what_passes
from miniqueue_client.calls.errors import RefusedError
from miniqueue_client.errors import ClientError, ConnectError, DisconnectedError, RequestError
from miniqueue_client.link import accepted, pool_of, refusal_of, unconnected
from miniqueue_client.older_python import timeout
from miniqueue_client.routes import LOST_SECONDS, SLOTS, UNREACHABLE_SECONDS, Routes, is_cluster

T = TypeVar("T")

#: The timeout of a read that has none.
_NO_TIMEOUT: Final = math.inf if HAS_TIMEOUTS else None


class _Connection(Protocol):
    """The methods of redis-py's connections that are used here; redis-py's own types do not declare them."""

    def pack_commands(self, commands: Sequence[tuple[Word, ...]]) -> list[bytes]: ...

    async def send_packed_command(self, packed: list[bytes], *, check_health: bool) -> None: ...

    async def read_response(self, *, timeout: float | None) -> Reply: ...

    async def disconnect(self, *, nowait: bool) -> None: ...


class _Pool(Protocol):
    """The members of redis-py's pool that are used here."""

    connection_class: type[Any]
    connection_kwargs: dict[str, Any]

    async def get_connection(self) -> _Connection: ...

    async def release(self, connection: _Connection) -> None: ...

    async def disconnect(self) -> None: ...


class AsyncLink:
    """Pools of connections to one broker, one for each node that it has; the tasks of one event loop may share it.

    Args:
      address: the address of the broker.
      tell: called with each error that permits a retry.
    """

    def __init__(self, address: Address, tell: Callable[[Exception], None]) -> None:
        self._address = address
        self._tell = tell
        self._pools_of_parents: list[_Pool] = []
        self._pid = os.getpid()
        self._pool = self._make_pool(address)
        self._pools: dict[str, _Pool] = {}  # a pool for each node, by its URL
        self._routes = Routes(address)

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call, with retries if it can be repeated; raises ClientError."""
        [reply] = await self._ask([call])
        return call.result_of(reply)

    async def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls as one pipeline, as `execute`; the result of a refused call is its RefusedError."""
        replies: list[Reply] = [None] * len(calls)
        for positions in self._routes.parts_of(calls) if calls else ():
            for position, reply in zip(positions, await self._ask([calls[each] for each in positions]), strict=True):
                replies[position] = reply
        return [call.outcome_of(reply) for call, reply in zip(calls, replies, strict=True)]

    async def listen(self, call: Call[None]) -> AsyncGenerator[Reply, None]:
        """Yield what the broker sends after the reply to a call, as `Link.listen` does."""
        self._notice_fork()
        connection = await self._connection(self._pool)
        try:
            async with timeout(self._address.timeout_seconds):
                await connection.send_packed_command(connection.pack_commands([call.words]), check_health=False)
            call.result_of(await self._reply(connection, call.wait_seconds))
            while True:
                yield accepted(await self._reply(connection, math.inf))
        except redis.DataError as exc:
            raise RequestError(NO_WORD) from exc
        except (redis.RedisError, asyncio.TimeoutError) as exc:
            raise DisconnectedError(f"{self._address}: {str(exc) or 'no reply in time'}") from exc
        finally:
            await connection.disconnect(nowait=True)
            await self._pool.release(connection)

    async def close(self) -> None:
        """Close all connections; safe to call twice."""
        if self._pid == os.getpid():
            for pool in (self._pool, *self._pools.values()):
                await pool.disconnect()

    async def _ask(self, calls: Sequence[Call[T]]) -> list[Reply]:
        """Return the replies, RefusedError for refused calls, after as many attempts as are necessary."""
        failure_count = 0
        while True:
            try:
                return await self._exchange(calls)
            except ClientError as exc:
                if not may_follow(calls, exc):
                    raise
                failure_count += 1
                self._routes.forget()
                self._tell(exc)
                pause_seconds = self._address.pause_seconds(failure_count)
                if pause_seconds is None:
                    raise
            await asyncio.sleep(pause_seconds)

    async def _exchange(self, calls: Sequence[Call[T]]) -> list[Reply]:
        url, pool, connection = await self._connection_for(calls)
        try:
            replies = await self._replies(connection, calls)
        except DisconnectedError:
            self._routes.leave_out(url, LOST_SECONDS)
            raise
        finally:
            await pool.release(connection)
        raise_what_passes(calls, replies)
        if self._routes.is_known:
            self._routes.note(calls, replies)
        return replies

    async def _replies(self, connection: _Connection, calls: Sequence[Call[Any]]) -> list[Reply]:
        """Send calls, and return their replies; a connection that fails is closed."""
        try:
            packed = connection.pack_commands([call.words for call in calls])
            async with timeout(self._address.timeout_seconds):
                await connection.send_packed_command(packed, check_health=False)
            return [await self._reply(connection, call.wait_seconds) for call in calls]
        except redis.DataError as exc:  # a word such as None, which cannot be encoded; nothing was sent
            raise RequestError(NO_WORD) from exc
        except (redis.RedisError, asyncio.TimeoutError) as exc:
            await connection.disconnect(nowait=True)
            raise DisconnectedError(f"{self._address}: {str(exc) or 'no reply in time'}") from exc
        except BaseException:  # such as a cancellation; the next user of the connection would read these replies
            await connection.disconnect(nowait=True)
            raise

    async def _reply(self, connection: "_Connection", wait_seconds: float) -> Reply:
        try:
            async with timeout(None if math.isinf(wait_seconds) else wait_seconds + self._address.timeout_seconds):
                return await connection.read_response(timeout=_NO_TIMEOUT)
        except redis.RedisError as exc:
            if (refused := refusal_of(exc)) is None:
                raise
            return refused

    async def _connection_for(self, calls: Sequence[Call[Any]]) -> tuple[str, _Pool, _Connection]:
        """Return a connection for calls, as `Link` does."""
        self._notice_fork()
        if not self._routes.is_known:
            connection = await self._connection(self._pool)
            if not is_cluster(connection):
                return self._address.url, self._pool, connection
            try:
                [slots] = await self._replies(connection, [SLOTS])
                await connection.disconnect(nowait=True)
            finally:
                await self._pool.release(connection)
            self._routes.learn(SLOTS.result_of(slots))
        failed: ConnectError | None = None
        for url in self._routes.urls_for(calls):
            pool = self._pool_at(url)
            try:
                return url, pool, await self._connection(pool)
            except ConnectError as exc:
                self._routes.leave_out(url, UNREACHABLE_SECONDS)
                failed = failed or exc
        assert failed is not None  # the client's own URL is always tried
        raise failed

    def _pool_at(self, url: str) -> _Pool:
        if url == self._address.url:
            return self._pool
        if url not in self._pools:
            self._pools[url] = self._make_pool(self._routes.address_of(url))
        return self._pools[url]

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():
            self._pools_of_parents += [self._pool, *self._pools.values()]
            self._pid, self._pool, self._pools = os.getpid(), self._make_pool(self._address), {}

    async def _connection(self, pool: _Pool) -> _Connection:
        try:
            async with timeout(self._connect_seconds):
                return await pool.get_connection()
        except (redis.RedisError, asyncio.TimeoutError) as exc:
            raise refusal_of(exc) or unconnected(self._address, exc) from exc

    def _make_pool(self, address: Address) -> _Pool:
        pool: _Pool = pool_of(ConnectionPool, Retry(NoBackoff(), 0), address)
        limits = pool.connection_kwargs["socket_connect_timeout"], pool.connection_kwargs["socket_timeout"]
        self._connect_seconds = None if None in limits else sum(limits)  # to connect, and for the handshake
        pool.connection_kwargs["socket_timeout"] = None
        pool.connection_class = _greeting(pool.connection_class)
        return pool


def _greeting(kind: type[Any]) -> type[Any]:
    """Return a class of redis-py's connections that keep the reply to HELLO, as its blocking ones do.

    Versions before 6 begin a connection with another method. A `redis_connect_func` would do for all of them, but
    redis-py inspects it with a function of asyncio that Python 3.14 deprecates.
    """
    name = "on_connect_check_health" if hasattr(kind, "on_connect_check_health") else "on_connect"
    begin = getattr(kind, name)

    async def greet(connection: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - they are redis-py's
        read = connection.read_response

        async def read_and_keep(*args: Any, **kwargs: Any) -> Reply:  # noqa: ANN401 - the same
            reply = await read(*args, **kwargs)
            if isinstance(reply, dict):
                connection.handshake_metadata = reply
            return reply

        connection.read_response = read_and_keep
        try:
            await begin(connection, *args, **kwargs)
        finally:
            del connection.read_response

    return type(kind.__name__, (kind,), {name: greet})
