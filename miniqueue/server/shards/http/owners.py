"""Asks the owners of shards for whole replies, and charges what is gathered to the client.

    ask_all ─┬─▶ shard 0, through its back, even if this process has it ─▶ Answer ─┐
             ├─▶ shard 1                                                ─▶ Answer ─┼─▶ one reply
             └─▶ …                                                                 ┘

There is one way to all shards, this one included, so that all answer alike.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from starlette.types import Message, Receive, Scope, Send

from miniqueue.broker.runtime.accounts import Memory, MemoryAccount, Purpose
from miniqueue.core.settings.placing import Placing
from miniqueue.errors import MemoryLimitError, MiniqueueError
from miniqueue.server.asgi.replies import EMPTY_REPLY, Headers, Reply
from miniqueue.server.asgi.request import HttpActor
from miniqueue.server.shards.http.scopes import MONITOR
from miniqueue.server.shards.http.tunnel import Passing, Tunnels, pass_on

#: How much memory a gathered byte costs: as part of an answer, and of the reply that is made of all.
GATHERED_FACTOR: Final = 2
_OWN_HEADERS: Final = frozenset({b"content-length", b"content-type", b"x-content-type-options"})

ResultT = TypeVar("ResultT")


class Answer(NamedTuple):
    """The whole reply of a shard."""

    status: int
    headers: Headers
    body: bytes

    @property
    def is_error(self) -> bool:
        """Whether the request was refused."""
        return self.status >= 400

    def reply(self, body: bytes | None = None) -> Reply:
        """Return the answer as a reply, with another body if one is given."""
        content_type = next((value for name, value in self.headers if name == b"content-type"), b"")
        headers = [(name, value) for name, value in self.headers if name not in _OWN_HEADERS]
        return Reply(self.status, self.body if body is None else body, content_type, headers)


class Gathering:
    """What one request gathers of shards, charged to its client.

    Args:
      account: the account of the client.
      is_monitoring: whether the process may be over its limit: monitoring always works.
    """

    def __init__(self, account: MemoryAccount, *, is_monitoring: bool = False) -> None:
        self._account = account
        self._is_monitoring = is_monitoring
        self._size_bytes = 0

    def add(self, size_bytes: int) -> None:
        """Charge bytes; raises MemoryLimitError."""
        self._size_bytes += GATHERED_FACTOR * size_bytes
        self._account.add(Purpose.OUTPUT, GATHERED_FACTOR * size_bytes)
        process = self._account.process
        over = self._account.first_over() if process.over_count else None
        if over is not None and not (self._is_monitoring and over is process):
            raise MemoryLimitError(over.name, over.limit_bytes, over.setting)

    def give_back(self) -> None:
        """Give everything back."""
        self._account.add(Purpose.OUTPUT, -self._size_bytes)
        self._size_bytes = 0


class Owners:
    """The owners of all shards, for one port.

    Args:
      tunnels: leads to them.
      placing: the place of this process among them.
      memory: the accounts of the memory that clients use.
      port: the port for which requests are passed on; see `scopes`.
    """

    def __init__(self, tunnels: Tunnels, placing: Placing, memory: Memory, port: str) -> None:
        self.placing = placing
        self._tunnels = tunnels
        self._memory = memory
        self._port = port

    @property
    def numbers(self) -> range:
        """The numbers of all shards."""
        return range(self.placing.shard_count)

    @contextmanager
    def gathering(self, scope: Scope) -> Iterator[Gathering]:
        """Yield what charges the client of a request while the block runs."""
        gathering = Gathering(HttpActor(scope, self._memory).account, is_monitoring=self._port == MONITOR)
        try:
            yield gathering
        finally:
            gathering.give_back()

    def check(self, shard: int) -> None:
        """Raise ShardAwayError if a shard is known not to answer."""
        self._tunnels.check(shard)

    def check_all(self) -> None:
        """Raise ShardAwayError if any shard is known not to answer."""
        for shard in self.numbers:
            self.check(shard)

    async def pass_on(
        self, shard: int, scope: Scope, receive: Receive, send: Send, take: Callable[[], bool] | None = None
    ) -> None:
        """Pass a request on to a shard, and its reply back; raises as `tunnel.pass_on`."""
        user = scope.get("user")
        passing = Passing(self._port, None if user is None else user.name, take)
        await pass_on(self._tunnels, shard, scope, receive, send, passing)

    async def ask(
        self,
        shard: int,
        scope: Scope,
        gathering: Gathering,
        body: bytes = b"",
        take: Callable[[], bool] | None = None,
    ) -> Answer:
        """Return the answer of a shard to a request with this body; raises as `pass_on`, and MemoryLimitError.

        `take` is called if the shard offers messages; it returns whether they are taken.
        """
        parts: list[bytes] = []
        starts: list[Message] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                gathering.add(len(message["body"]))
                parts.append(message["body"])
            else:
                starts.append(message)

        await self.pass_on(shard, {**scope, "extensions": {EMPTY_REPLY: {}}}, replaying(body), send, take)
        return Answer(starts[0]["status"], starts[0]["headers"], b"".join(parts))

    async def ask_all(self, scope: Scope, gathering: Gathering) -> list[Answer]:
        """Return the answers of all shards, by number; raises as `ask`."""
        return await together(self.ask(shard, scope, gathering) for shard in self.numbers)

    async def try_all(self, scope: Scope, gathering: Gathering) -> list[Answer | MiniqueueError]:
        """Return the answers of all shards, by number, or the errors of those that do not answer."""
        return await together(self._try(shard, scope, gathering) for shard in self.numbers)

    async def _try(self, shard: int, scope: Scope, gathering: Gathering) -> Answer | MiniqueueError:
        try:
            return await self.ask(shard, scope, gathering)
        except MemoryLimitError:
            raise
        except MiniqueueError as exc:
            return exc


async def together(works: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """Run coroutines concurrently, and return their results; if one raises, end the others and raise its error."""
    tasks = [asyncio.get_running_loop().create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def replaying(body: bytes, receive: Receive | None = None) -> Receive:
    """Return a `receive` for a body that has been read; after it comes what `receive` reports, without one nothing."""
    is_read = False

    async def receive_again() -> Message:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}
        if receive is None:
            await asyncio.Event().wait()
        assert receive is not None  # otherwise it waits for as long as the task runs
        return await receive()

    return receive_again


def first_error(answers: Sequence[Answer]) -> Answer | None:
    """Return the first answer that is an error."""
    return next((answer for answer in answers if answer.is_error), None)
