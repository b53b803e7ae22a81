"""The blocking client over RESP: one method for each call, which returns when the broker has replied.

    with Client("redis://localhost:6379") as client:
        client.publish("orders", b"one", key="42")
        for message in client.receive("orders", count=10, wait_seconds=20):
            client.ack("orders", message)

Does not know commands; the modules of `calls` define them.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from miniqueue_client.address import DEFAULT_RETRIES, DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, Address
from miniqueue_client.calls import answers, chosen, logs
from miniqueue_client.calls import groups as group_calls
from miniqueue_client.calls import messages as message_calls
from miniqueue_client.calls import schedules as schedule_calls
from miniqueue_client.calls import topics as topic_calls
from miniqueue_client.calls.call import Call, Seconds, seconds_of
from miniqueue_client.calls.errors import RefusedError
from miniqueue_client.calls.methods import blocking
from miniqueue_client.calls.tracing import receiving, sending
from miniqueue_client.calls.transaction import Transaction, pipeline_of, results_of
from miniqueue_client.calls.values import Event, Message
from miniqueue_client.link import Link

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

#: Wait of each receive of `consume`: long enough to cost almost nothing, shorter than the idle limits of proxies.
POLL_SECONDS = 20.0


def ignore_error(_error: Exception) -> None:
    """Ignore an error that a retry follows: the default of `Client.of`."""


class Client:
    """A client of one broker over RESP; threads may share it, and so may processes forked from its own.

    Every method can raise RefusedError, with the broker's error code; ConnectError, if nothing was done; and
    DisconnectedError, if the command may have been carried out. A call that can be repeated was retried before.

    Args:
      url: `redis://[user[:secret]@]host[:port]`, or `rediss://` for TLS.
      timeout_seconds: maximum time for connecting, and for a reply in addition to the wait of the call itself.
      retries: maximum number of retries; the default takes about 10 s; negative: unlimited.
      deduplicates: whether each publish gets an id, so that a retry stores nothing twice.
      options: options of redis-py's connections: `username`, `password`, `ssl_ca_certs`, `client_name`, …
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
        return f"Client({str(self.address)!r})"

    def __getstate__(self) -> Address:
        return self.address

    def __setstate__(self, address: Address) -> None:
        self._start(address)

    def _start(self, address: Address, tell: Callable[[Exception], None] = ignore_error) -> None:
        self.address = address
        self._link = Link(address, tell)

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The client remains usable: the next call connects again."""
        self._link.close()

    def execute(self, call: Call[T]) -> T:
        """Carry out a call that a function of `calls` returned; raises ClientError."""
        return self._link.execute(call.kept_from_doubling(self.address.deduplicates))

    def execute_all(self, calls: Sequence[Call[T]]) -> list[T | RefusedError]:
        """Carry out at most about 10,000 calls as one pipeline on one connection; return their results in order.

        The result of a refused call is its RefusedError; the other calls are carried out. Raises other errors as
        `execute` does.
        """
        return self._link.execute_all([call.kept_from_doubling(self.address.deduplicates) for call in calls])

    def span_attributes(self) -> Mapping[str, object]:
        """Return the attributes of the broker in traces."""
        return self.address.span_attributes()

    def transaction(self) -> Transaction:
        """Return a transaction: what its block publishes and settles is one commit, all or none."""
        return Transaction(self._carry_out, deduplicates=self.address.deduplicates)

    def _carry_out(self, calls: Sequence[Call[Any]]) -> list[Any]:
        return results_of(calls, self._link.execute_all(pipeline_of(calls)))

    publish = blocking(message_calls.publish, sending)
    publish_json = blocking(message_calls.publish_json, sending)
    publish_many = blocking(message_calls.publish_many, sending)
    publish_each = blocking(message_calls.publish_each, sending)
    cancel = blocking(message_calls.cancel)
    request = blocking(message_calls.request, sending)
    receive = blocking(message_calls.receive, receiving)
    receive_any = blocking(message_calls.receive_any, receiving)
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
    search = blocking(chosen.search)
    delete_message = blocking(chosen.delete_message)
    move_to_front = blocking(chosen.move_to_front)
    redrive_message = blocking(chosen.redrive_message)
    reschedule = blocking(chosen.reschedule)
    act_on = blocking(chosen.act_on)
    begin_task = blocking(chosen.begin_task)
    tasks = blocking(chosen.tasks)
    find_task = blocking(chosen.find_task)
    cancel_task = blocking(chosen.cancel_task)
    leases = blocking(topic_calls.leases)
    usage = blocking(topic_calls.usage)
    trace = blocking(topic_calls.trace)
    redrive = blocking(topic_calls.redrive)
    redrive_report = blocking(topic_calls.redrive_report)
    purge = blocking(topic_calls.purge)
    pause = blocking(topic_calls.pause)
    resume = blocking(topic_calls.resume)

    partitions = blocking(logs.partitions)
    read = blocking(logs.read)
    read_from = blocking(logs.read_from)

    create_group = blocking(group_calls.create_group)
    groups = blocking(group_calls.groups)
    members = blocking(group_calls.members)
    holders = blocking(group_calls.holders)
    seek_group = blocking(group_calls.seek_group)
    delete_group = blocking(group_calls.delete_group)

    set_schedule = blocking(schedule_calls.set_schedule)
    find_schedule = blocking(schedule_calls.find_schedule)
    schedules = blocking(schedule_calls.schedules)
    fire_schedule = blocking(schedule_calls.fire_schedule)
    delete_schedule = blocking(schedule_calls.delete_schedule)

    def events(self, *types: str) -> Generator[Event, None, None]:
        """Yield what happens in the broker from now on, until the caller stops; raises ClientError.

        Args:
          types: the types of events, such as `topic-created`; without any, all types.
        """
        for reply in self._link.listen(topic_calls.events(*types)):
            yield answers.event(reply)

    def consume(
        self,
        topic: str,
        *,
        group: str | None = None,
        member: str | None = None,
        count: int = 1,
        lease_seconds: Seconds | None = None,
        autoack: bool = False,
        idle_seconds: Seconds | None = None,
    ) -> Iterator[Message]:
        """Yield messages as they arrive; the caller settles each of them.

        Args:
          topic: the topic; it need not exist yet.
          group: the group to read as; None: the default group.
          member: the member of the group, see `receive`.
          count: maximum number of messages for each receive; all are leased while the caller handles the first.
          lease_seconds: how long each message is leased, see `receive`.
          autoack: whether messages are acknowledged when they are delivered, see `receive`.
          idle_seconds: stop after no message has arrived for this long; None: never stop.
        """
        max_idle_seconds = max_idle(idle_seconds)
        ends_at = monotonic() + max_idle_seconds
        while True:
            messages = self.receive(
                topic,
                group=group,
                member=member,
                count=count,
                wait_seconds=min(max_idle_seconds, POLL_SECONDS),
                lease_seconds=lease_seconds,
                autoack=autoack,
            )
            yield from messages
            if messages:
                ends_at = monotonic() + max_idle_seconds
            elif monotonic() >= ends_at:
                return


def max_idle(idle_seconds: Seconds | None) -> float:
    """Return the number of seconds after which an idle `consume` stops; infinity if it never does."""
    return float("inf") if idle_seconds is None else seconds_of(idle_seconds)
