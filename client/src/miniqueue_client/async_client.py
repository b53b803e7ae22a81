"""The client over RESP for asyncio: the methods of `Client` as coroutines.

    async with AsyncClient("redis://localhost:6379") as client:
        await client.publish("orders", b"one", key="42")
        for message in await client.receive("orders", count=10, wait_seconds=20):
            await client.ack("orders", message)

Does not know commands; the modules of `calls` define them.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from miniqueue_client.address import DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, Address
from miniqueue_client.async_link import AsyncLink
from miniqueue_client.calls import answers, chosen, logs
from miniqueue_client.calls import groups as group_calls
from miniqueue_client.calls import messages as message_calls
from miniqueue_client.calls import schedules as schedule_calls
from miniqueue_client.calls import topics as topic_calls
from miniqueue_client.calls.call import Call, Seconds, seconds_of
from miniqueue_client.calls.errors import RefusedError
from miniqueue_client.calls.methods import awaitable
from miniqueue_client.calls.tracing import receiving, sending
from miniqueue_client.calls.transaction import AsyncTransaction, pipeline_of, results_of
from miniqueue_client.calls.values import Event, Message
from miniqueue_client.client import POLL_SECONDS, ignore_error, max_idle

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class AsyncClient:
    """A client of one broker over RESP for the tasks of one event loop; arguments and errors as for `Client`.

    If a task is cancelled while it waits, no other task gets its reply. Messages that it was about to receive can
    remain leased until their leases expire.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_seconds: Seconds = DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        deduplicates: bool = True,
        **options: Any,  # noqa: ANN401 - they are redis-py's
    ) -> None:
        self._start(Address(url, seconds_of(timeout_seconds), retries, deduplicates, options))

    @classmethod
    def of(cls, address: Address, tell: Callable[[Exception], None] = ignore_error) -> "Self":
        """Return a client for an address, such as the address of another client.

        Args:
          address: the address of the broker.
          tell: called with each error that permits a retry: before each retry, and after the last one.
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

    def _start(self, address: Address, tell: Callable[[Exception], None] = ignore_error) -> None:
        self.address = address
        self._link = AsyncLink(address, tell)

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. The client remains usable: the next call connects again."""
        await self._link.close()

    async def execute(self, call: Call[T]) -> T:
        """Carry out a call that a function of `calls` returned; raises ClientError."""
        return await self._link.execute(call.kept_from_doubling(self.address.deduplicates))

    async def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out at most about 10,000 calls as one pipeline on one connection; return their results in order.

        The result of a refused call is its RefusedError; the other calls are carried out. Raises other errors as
        `execute` does.
        """
        return await self._link.execute_all([call.kept_from_doubling(self.address.deduplicates) for call in calls])

    def span_attributes(self) -> Mapping[str, object]:
        """Return the attributes of the broker in traces."""
        return self.address.span_attributes()

    def transaction(self) -> AsyncTransaction:
        """Return a transaction: what its block publishes and settles is one commit, all or none."""
        return AsyncTransaction(self._carry_out, deduplicates=self.address.deduplicates)

    async def _carry_out(self, calls: Sequence[Call[Any]]) -> list[Any]:
        return results_of(calls, await self._link.execute_all(pipeline_of(calls)))

    publish = awaitable(message_calls.publish, sending)
    publish_json = awaitable(message_calls.publish_json, sending)
    publish_many = awaitable(message_calls.publish_many, sending)
    publish_each = awaitable(message_calls.publish_each, sending)
    cancel = awaitable(message_calls.cancel)
    request = awaitable(message_calls.request, sending)
    receive = awaitable(message_calls.receive, receiving)
    receive_any = awaitable(message_calls.receive_any, receiving)
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
    search = awaitable(chosen.search)
    delete_message = awaitable(chosen.delete_message)
    move_to_front = awaitable(chosen.move_to_front)
    redrive_message = awaitable(chosen.redrive_message)
    reschedule = awaitable(chosen.reschedule)
    act_on = awaitable(chosen.act_on)
    begin_task = awaitable(chosen.begin_task)
    tasks = awaitable(chosen.tasks)
    find_task = awaitable(chosen.find_task)
    cancel_task = awaitable(chosen.cancel_task)
    leases = awaitable(topic_calls.leases)
    usage = awaitable(topic_calls.usage)
    trace = awaitable(topic_calls.trace)
    redrive = awaitable(topic_calls.redrive)
    redrive_report = awaitable(topic_calls.redrive_report)
    purge = awaitable(topic_calls.purge)
    pause = awaitable(topic_calls.pause)
    resume = awaitable(topic_calls.resume)

    partitions = awaitable(logs.partitions)
    read = awaitable(logs.read)
    read_from = awaitable(logs.read_from)

    create_group = awaitable(group_calls.create_group)
    groups = awaitable(group_calls.groups)
    members = awaitable(group_calls.members)
    holders = awaitable(group_calls.holders)
    seek_group = awaitable(group_calls.seek_group)
    delete_group = awaitable(group_calls.delete_group)

    set_schedule = awaitable(schedule_calls.set_schedule)
    find_schedule = awaitable(schedule_calls.find_schedule)
    schedules = awaitable(schedule_calls.schedules)
    fire_schedule = awaitable(schedule_calls.fire_schedule)
    delete_schedule = awaitable(schedule_calls.delete_schedule)

    async def events(self, *types: str) -> AsyncGenerator[Event, None]:
        """Yield what happens in the broker from now on, until the caller stops; see `Client.events`."""
        async with aclosing(self._link.listen(topic_calls.events(*types))) as replies:
            async for reply in replies:
                yield answers.event(reply)

    async def consume(
        self,
        topic: str,
        *,
        group: str | None = None,
        member: str | None = None,
        count: int = 1,
        lease_seconds: Seconds | None = None,
        autoack: bool = False,
        idle_seconds: Seconds | None = None,
    ) -> AsyncIterator[Message]:
        """Yield messages as they arrive; the caller settles each of them; see `Client.consume`."""
        max_idle_seconds = max_idle(idle_seconds)
        ends_at = monotonic() + max_idle_seconds
        while True:
            messages = await self.receive(
                topic,
                group=group,
                member=member,
                count=count,
                wait_seconds=min(max_idle_seconds, POLL_SECONDS),
                lease_seconds=lease_seconds,
                autoack=autoack,
            )
            for message in messages:
                yield message
            if messages:
                ends_at = monotonic() + max_idle_seconds
            elif monotonic() >= ends_at:
                return
