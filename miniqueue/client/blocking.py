"""The client that most programs use: one method for each thing to ask, which returns when it is answered.

    with Client("redis://localhost:6379") as client:
        client.publish("orders", b"one", key="42")
        for message in client.receive("orders", count=10, wait_seconds=20):
            client.ack("orders", message)

Knows no command: what there is to ask stands in `message_calls` and its neighbours.
"""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

from miniqueue.client import group_calls, log_calls, message_calls, schedule_calls, topic_calls
from miniqueue.client.address import DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, Address
from miniqueue.client.call import Call
from miniqueue.client.link import Link
from miniqueue.client.message import Message
from miniqueue.client.methods import blocking
from miniqueue.client.refusals import RefusedError

T = TypeVar("T")

#: How long a receive of `consume` waits: long enough to cost nothing, short enough for a proxy on the way.
POLL_SECONDS = 20.0


def tell_nobody(_error: Exception) -> None:
    """Let nobody know of an error after which there is another try."""


class Client:
    """A client of one broker over RESP; threads may share it, and so may processes forked from its own.

    Every method may raise RefusedError, with the code word of the broker; ConnectError, when nothing was done; and
    DisconnectedError, when it may have been done. What may be asked twice was tried again before.

    Args:
      url: `redis://[user[:secret]@]host[:port]`, or `rediss://` for TLS.
      timeout_seconds: how long a connection may take, and a reply beyond the time that the call itself may take.
      retries: tries after the first, some 10 s together; negative for no end.
      deduplicates: whether each publish gets an id, so that a retry stores nothing twice.
      options: for redis-py's connections, by its names: `username`, `password`, `ssl_ca_certs`, `client_name`, …
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
        return f"Client({str(self.address)!r})"

    def __getstate__(self) -> Address:
        return self.address

    def __setstate__(self, address: Address) -> None:
        self._start(address)

    def _start(self, address: Address, tell: Callable[[Exception], None] = tell_nobody) -> None:
        self.address = address
        self._link = Link(address, tell)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections; it may be used again, and then connects anew."""
        self._link.close()

    def execute(self, call: Call[T]) -> T:
        """Carry out a call that a function of `message_calls` or its neighbours has made."""
        return self._link.execute(call.kept_from_doubling(self.address.deduplicates))

    def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out calls, up to some 10,000, in one go, on one connection, with their results in order.

        A refusal is the result of its call; the others are carried out. Other errors are those of `execute`.
        """
        return self._link.execute_all([call.kept_from_doubling(self.address.deduplicates) for call in calls])

    publish = blocking(message_calls.publish)
    publish_many = blocking(message_calls.publish_many)
    publish_each = blocking(message_calls.publish_each)
    cancel = blocking(message_calls.cancel)
    request = blocking(message_calls.request)
    receive = blocking(message_calls.receive)
    ack = blocking(message_calls.ack)
    nack = blocking(message_calls.nack)
    back = blocking(message_calls.back)
    dack = blocking(message_calls.dack)
    reject = blocking(message_calls.reject)
    extend = blocking(message_calls.extend)
    reply = blocking(message_calls.reply)

    ping = blocking(topic_calls.ping)
    topics = blocking(topic_calls.topics)
    create_topic = blocking(topic_calls.create_topic)
    set_topic = blocking(topic_calls.set_topic)
    topic_settings = blocking(topic_calls.topic_settings)
    delete_topic = blocking(topic_calls.delete_topic)
    length = blocking(topic_calls.length)
    stats = blocking(topic_calls.stats)
    peek = blocking(topic_calls.peek)
    find = blocking(topic_calls.find)
    trace = blocking(topic_calls.trace)
    redrive = blocking(topic_calls.redrive)
    redrive_report = blocking(topic_calls.redrive_report)
    purge = blocking(topic_calls.purge)
    pause = blocking(topic_calls.pause)
    resume = blocking(topic_calls.resume)

    partitions = blocking(log_calls.partitions)
    read = blocking(log_calls.read)
    read_from = blocking(log_calls.read_from)

    create_group = blocking(group_calls.create_group)
    groups = blocking(group_calls.groups)
    members = blocking(group_calls.members)
    seek_group = blocking(group_calls.seek_group)
    delete_group = blocking(group_calls.delete_group)

    set_schedule = blocking(schedule_calls.set_schedule)
    find_schedule = blocking(schedule_calls.find_schedule)
    schedules = blocking(schedule_calls.schedules)
    delete_schedule = blocking(schedule_calls.delete_schedule)

    def consume(
        self,
        topic: str,
        *,
        group: str | None = None,
        member: str | None = None,
        count: int = 1,
        lease_seconds: float | None = None,
        autoack: bool = False,
        idle_seconds: float | None = None,
    ) -> Iterator[Message]:
        """Yield messages as they come; the caller settles each.

        Args:
          topic: it need not exist yet.
          group: who reads; without it the default group.
          member: as with `receive`.
          count: how many are received at once; all of them are leased while the first is worked on.
          lease_seconds: as with `receive`.
          autoack: as with `receive`.
          idle_seconds: how long nothing may come before it ends; without it, it never ends.
        """
        poll_seconds = POLL_SECONDS if idle_seconds is None else min(idle_seconds, POLL_SECONDS)
        ends_at = end_of(idle_seconds)
        while True:
            messages = self.receive(
                topic,
                group=group,
                member=member,
                count=count,
                wait_seconds=poll_seconds,
                lease_seconds=lease_seconds,
                autoack=autoack,
            )
            yield from messages
            if messages:
                ends_at = end_of(idle_seconds)
            elif monotonic() >= ends_at:
                return


def end_of(idle_seconds: float | None) -> float:
    """Return when it is over that nothing has come for so long, by `monotonic`."""
    return float("inf") if idle_seconds is None else monotonic() + idle_seconds
