"""Connections of the client for asyncio: like `link`, with redis-py's pool for asyncio.

That pool does not notice a fork. In a forked process a client makes a new pool and keeps the old one unused: closing
or releasing it would use the event loop of the parent process.

redis-py wraps each write of a connection that has a socket timeout in `asyncio.wait_for`. On Python 3.11 that loses a
cancellation that arrives when the write is done: `task.cancel()` would not end a receive that waits for an hour.
Connections therefore have no socket timeout here; `asyncio.timeout`, which loses no cancellation, limits each step.
"""

import asyncio
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import redis
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff

from miniqueue.client.address import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Address
from miniqueue.client.calls.call import NO_WORD, Call, Reply, Word, may_follow, raise_what_passes
from miniqueue.client.calls.errors import RefusedError
from miniqueue.client.link import pool_of, refusal_of, unconnected
from miniqueue.errors import ClientError, DisconnectedError, RequestError

T = TypeVar("T")


class _Connection(Protocol):
    """The methods of redis-py's connections that are used here; redis-py's own types do not declare them."""

    def pack_commands(self, commands: Sequence[tuple[Word, ...]]) -> list[bytes]: ...

    async def send_packed_command(self, packed: list[bytes], *, check_health: bool) -> None: ...

    async def read_response(self, *, timeout: float | None) -> Reply: ...  # noqa: ASYNC109 - its name for it

    async def disconnect(self, *, nowait: bool) -> None: ...


class _Pool(Protocol):
    """The members of redis-py's pool that are used here."""

    connection_kwargs: dict[str, Any]

    async def get_connection(self) -> _Connection: ...

    async def release(self, connection: _Connection) -> None: ...

    async def disconnect(self) -> None: ...


class AsyncLink:
    """A pool of connections to one broker; the tasks of one event loop may share it.

    Args:
      address: the address of the broker.
      tell: called with each error that permits a retry.
    """

    def __init__(self, address: Address, tell: Callable[[Exception], None]) -> None:
        self._address = address
        self._tell = tell
        self._pools_of_parents: list[_Pool] = []
        self._pid = os.getpid()
        self._pool = self._make_pool()
        self._retry = Retry(
            ExponentialWithJitterBackoff(base=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS),
            address.retries,
            (ClientError,),  # type: ignore[arg-type] # redis-py accepts any exception class
        )

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call, with retries if it can be repeated; raises ClientError."""
        [reply] = await self._ask([call])
        return call.result_of(reply)

    async def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls as one pipeline, as `execute`; the result of a refused call is its RefusedError."""
        replies = await self._ask(calls) if calls else []
        return [call.outcome_of(reply) for call, reply in zip(calls, replies, strict=True)]

    async def close(self) -> None:
        """Close all connections; safe to call twice."""
        if self._pid == os.getpid():
            await self._pool.disconnect()

    async def _ask(self, calls: Sequence[Call[T]]) -> list[Reply]:
        """Return the replies, RefusedError for refused calls, after as many attempts as are necessary."""
        return await self._retry.call_with_retry(
            lambda: self._exchange(calls),
            self._failed,
            is_retryable=lambda error: isinstance(error, ClientError) and may_follow(calls, error),
        )

    async def _failed(self, error: Exception) -> None:
        self._tell(error)

    async def _exchange(self, calls: Sequence[Call[T]]) -> list[Reply]:
        connection = await self._connection()
        try:
            packed = connection.pack_commands([call.words for call in calls])
            async with asyncio.timeout(self._address.timeout_seconds):
                await connection.send_packed_command(packed, check_health=False)
            replies = [await self._reply(connection, call.wait_seconds) for call in calls]
        except redis.DataError as exc:  # a word such as None, which cannot be encoded; nothing was sent
            raise RequestError(NO_WORD) from exc
        except (redis.RedisError, TimeoutError) as exc:
            await connection.disconnect(nowait=True)
            raise DisconnectedError(f"{self._address}: {str(exc) or 'no reply in time'}") from exc
        except BaseException:  # such as a cancellation; the next user of the connection would read these replies
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)
        raise_what_passes(calls, replies)
        return replies

    async def _reply(self, connection: "_Connection", wait_seconds: float) -> Reply:
        try:
            async with asyncio.timeout(
                None if math.isinf(wait_seconds) else wait_seconds + self._address.timeout_seconds
            ):
                return await connection.read_response(timeout=math.inf)
        except redis.RedisError as exc:
            if (refused := refusal_of(exc)) is None:
                raise
            return refused

    async def _connection(self) -> "_Connection":
        if self._pid != os.getpid():
            self._pools_of_parents.append(self._pool)
            self._pid, self._pool = os.getpid(), self._make_pool()
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._pool.get_connection()
        except (redis.RedisError, TimeoutError) as exc:
            raise refusal_of(exc) or unconnected(self._address, exc) from exc

    def _make_pool(self) -> "_Pool":
        pool: _Pool = pool_of(ConnectionPool, Retry(NoBackoff(), 0), self._address)
        limits = pool.connection_kwargs["socket_connect_timeout"], pool.connection_kwargs["socket_timeout"]
        self._connect_seconds = None if None in limits else sum(limits)  # to connect, and for the handshake
        pool.connection_kwargs["socket_timeout"] = None
        return pool
