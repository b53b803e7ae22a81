"""The client for asyncio: the methods of `Client`, to be awaited.

    async with AsyncClient("redis://localhost:6379") as client:
        await client.publish("orders", b"one", key="42")
        for message in await client.receive("orders", count=10, wait_seconds=20):
            await client.ack("orders", message)

Knows no command: what there is to ask stands in `message_calls` and its neighbours.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

from miniqueue.client import group_calls, log_calls, message_calls, schedule_calls, topic_calls
from miniqueue.client.address import DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, Address
from miniqueue.client.async_link import AsyncLink
from miniqueue.client.blocking import POLL_SECONDS, end_of, tell_nobody
from miniqueue.client.call import Call
from miniqueue.client.message import Message
from miniqueue.client.methods import awaitable
from miniqueue.client.refusals import RefusedError

T = TypeVar("T")


class AsyncClient:
    """A client of one broker over RESP for the tasks of one event loop; arguments and errors are those of `Client`.

    A task that is cancelled while it waits leaves no reply behind for another. What it had received may be leased
    until the time of the lease is over.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        deduplicates: bool = True,
        **options: Any,  # noqa: ANN401 - they are redis-py's
    ) -> None:
        self._start(Address(url, timeout_seconds, retries, deduplicates, options))

    @classmethod
    def of(cls, address: Address, tell: Callable[[Exception], None] = tell_nobody) -> Self:
        """Return a client for an address, such as that of another client.

        Args:
          address: of the broker.
          tell: is told of each error after which another try may help, before that and after the last one.
        """
        client = cls.__new__(cls)
        client._start(address, tell)
        return client

    def __repr__(self) -> str:
        return f"AsyncClient({str(self.address)!r})"

    def __getstate__(self) -> Address:
        return self.address

    def __setstate__(self, address: Address) -> None:
        self._start(address)

    def _start(self, address: Address, tell: Callable[[Exception], None] = tell_nobody) -> None:
        self.address = address
        self._link = AsyncLink(address, tell)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections; it may be used again, and then connects anew."""
        await self._link.close()

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call that a function of `message_calls` or its neighbours has made."""
        return await self._link.execute(call.kept_from_doubling(self.address.deduplicates))

    async def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls, up to some 10,000, in one go, on one connection, with their results in order.

        A refusal is the result of its call; the others are carried out. Other errors are those of `execute`.
        """
        return await self._link.execute_all([call.kept_from_doubling(self.address.deduplicates) for call in calls])

    publish = awaitable(message_calls.publish)
    publish_many = awaitable(message_calls.publish_many)
    publish_each = awaitable(message_calls.publish_each)
    cancel = awaitable(message_calls.cancel)
    request = awaitable(message_calls.request)
    receive = awaitable(message_calls.receive)
    ack = awaitable(message_calls.ack)
    nack = awaitable(message_calls.nack)
    back = awaitable(message_calls.back)
    dack = awaitable(message_calls.dack)
    reject = awaitable(message_calls.reject)
    extend = awaitable(message_calls.extend)
    reply = awaitable(message_calls.reply)

    ping = awaitable(topic_calls.ping)
    topics = awaitable(topic_calls.topics)
    create_topic = awaitable(topic_calls.create_topic)
    set_topic = awaitable(topic_calls.set_topic)
    topic_settings = awaitable(topic_calls.topic_settings)
    delete_topic = awaitable(topic_calls.delete_topic)
    length = awaitable(topic_calls.length)
    stats = awaitable(topic_calls.stats)
    peek = awaitable(topic_calls.peek)
    find = awaitable(topic_calls.find)
    trace = awaitable(topic_calls.trace)
    redrive = awaitable(topic_calls.redrive)
    redrive_report = awaitable(topic_calls.redrive_report)
    purge = awaitable(topic_calls.purge)
    pause = awaitable(topic_calls.pause)
    resume = awaitable(topic_calls.resume)

    partitions = awaitable(log_calls.partitions)
    read = awaitable(log_calls.read)
    read_from = awaitable(log_calls.read_from)

    create_group = awaitable(group_calls.create_group)
    groups = awaitable(group_calls.groups)
    members = awaitable(group_calls.members)
    seek_group = awaitable(group_calls.seek_group)
    delete_group = awaitable(group_calls.delete_group)

    set_schedule = awaitable(schedule_calls.set_schedule)
    find_schedule = awaitable(schedule_calls.find_schedule)
    schedules = awaitable(schedule_calls.schedules)
    delete_schedule = awaitable(schedule_calls.delete_schedule)

    async def consume(
        self,
        topic: str,
        *,
        group: str | None = None,
        member: str | None = None,
        count: int = 1,
        lease_seconds: float | None = None,
        autoack: bool = False,
        idle_seconds: float | None = None,
    ) -> AsyncIterator[Message]:
        """Yield messages as they come; the caller settles each. As `Client.consume`."""
        poll_seconds = POLL_SECONDS if idle_seconds is None else min(idle_seconds, POLL_SECONDS)
        ends_at = end_of(idle_seconds)
        while True:
            messages = await self.receive(
                topic,
                group=group,
                member=member,
                count=count,
                wait_seconds=poll_seconds,
                lease_seconds=lease_seconds,
                autoack=autoack,
            )
            for message in messages:
                yield message
            if messages:
                ends_at = end_of(idle_seconds)
            elif monotonic() >= ends_at:
                return
