"""How the machine speaks to a broker: what both ways have in common, and the way through the core alone.

A driver is a process that can be stopped, crashed and started again, with peers that consume and requests that
publish and delete. Their replies are reported in the same words, whatever the protocol:

    Delivery          a message, with the causes of its returns as far as this peer is shown them
    "OK", "NOLEASE"   the reply to a settle
    answers           of a request: "OK", "UNKNOWN", "READONLY", or the ids of the messages
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, repeat, starmap
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from miniqueue.broker import Broker, Published
from miniqueue.broker.acts.orders import MessageAct, Order
from miniqueue.broker.acts.task import Task, selection_of
from miniqueue.broker.leases.receive import ReceiveResult
from miniqueue.broker.leases.receive_any import ReceivedAny
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.notices import Listener, parse_kinds
from miniqueue.broker.transactions.acts import Publish, Refused, Settle
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.message.attributes import decode
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.options.consume import ReceiveOptions, StreamOptions
from miniqueue.core.options.filter import Filter
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.settle import NackOptions
from miniqueue.core.options.start import Edge
from miniqueue.core.options.topic_choice import TopicChoice
from miniqueue.core.settings.group_options import GroupOptions
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors import MiniqueueError
from tests.fakes import ManualClock
from tests.model.stores import Disk, FragileStore
from tests.model.virtual_loop import VirtualLoop

Result = TypeVar("Result")

#: The statistics of the broker that are compared; the others do not occur here, or depend on what is in memory.
EVENTS = ("topic-created", "topic-deleted", "store-failed", "store-recovered")


#: The key and the headers of a message.
Described = tuple[bytes, tuple[tuple[bytes, bytes], ...]]
PLAIN: Described = (b"", ())
SECOND_GROUP = b"g"


class Delivery(NamedTuple):
    payload: bytes
    receipt: int | None
    returns: dict[str, int]
    failure: bytes = b""
    described: Described | None = None  # None: not reported, or not compared


def deliveries_of(lease: Lease) -> list[Delivery]:
    counts = {cause: count for cause, count in lease.counts._asdict().items() if count}
    attributes = map(decode, lease.attributes or repeat(b""))  # only what was returned or scheduled has any
    messages = zip(count(lease.receipt), lease.payloads, attributes, strict=False)
    return [
        Delivery(payload, receipt, counts, described.failure, (described.key, described.headers))
        for receipt, payload, described in messages
    ]


def ids_of(published: Published, payloads: Sequence[bytes]) -> list[str]:
    return [f"{published.partition}-{published.first_seq + n}" for n in range(len(payloads))]


def reason_of(seconds: float) -> bytes:
    """Return the reason that a NACK with this delay gives."""
    return b"again in %g s" % seconds


class Peer(Protocol):
    """A consumer, somewhere. `shown_causes` of returns come with its deliveries; None stands for all.

    `shows_failures`: whether the reason of the last NACK does.
    `confirms`: whether it hears of a settle that went well.
    """

    shown_causes: tuple[str, ...] | None
    shows_failures: bool
    confirms: bool

    def hear(self) -> list[Delivery | str]:
        """Return what came since the last call."""

    def settle(self, act: str, receipts: Sequence[int] | None, seconds: float) -> None: ...

    def leave(self) -> None: ...


@dataclass
class Answers:
    """The replies to a request, one word for each message; `has_ids`: they contain ids."""

    has_ids: bool = False
    words: list[str] = field(default_factory=list)


class Driver:
    """A broker on a disk, with the clock and the loop of its process.

    Args:
      disk: outlives the process.
      hooks: those of `FragileStore`.
    """

    KINDS: tuple[str, ...]  # the kinds of peers
    WAYS: tuple[str, ...]  # to publish
    SETTINGS: Mapping[str, object] = MappingProxyType({})  # the settings of every topic

    def __init__(self, disk: Disk, **hooks: Callable[..., None]) -> None:
        self.clock = ManualClock()
        self.store = FragileStore(disk, **hooks)
        self.loop = VirtualLoop(self.store.is_busy)
        self.tasks: set[asyncio.Task[None]] = set()  # held on to: the loop alone would let them go
        self.broken: Exception | None = None  # what no client is ever told
        self.large_bytes = 1  # each commit that publishes begins beside the one under way
        self.broker: Broker

    def start(self) -> None:
        self.loop.run(self._start())

    async def _start(self) -> None:
        self.broker = Broker(self.store.open, clock=self.clock, period_seconds=1e9, limits=BrokerLimits(rest_seconds=0))
        engine = self.broker._engine
        engine.journal.committer.large_bytes = self.large_bytes
        # However long something takes in truth: the same run does the same.
        engine.journal.committer.clock = engine.share.clock = self.clock.monotonic
        await self.broker.start()
        self._listener = Listener(parse_kinds(map(str.encode, EVENTS)), lambda _: True, None, lambda: None)
        self.broker.notices.listen(self._listener)

    def take_events(self) -> list[tuple[str, bytes]]:
        """Return what the broker told of itself since the last call, each with its topic."""
        return [(notice.kind.value, notice.topic) for notice in self._listener.take(self.clock.now_ms())]

    def stop(self) -> None:
        self.loop.run(self.broker.stop())
        self.loop.abandon()

    def crash(self, *, is_kept: bool) -> None:
        self.loop.abandon()
        self.loop.run(self.store.crash(is_kept=is_kept))

    def close(self) -> None:
        self.loop.abandon()
        self.loop.close()

    def do(self, act: Callable[..., Result], *arguments: object) -> Result:
        """Call something on the running loop, and let all follow that it brings about."""

        async def call() -> Result:
            return act(*arguments)

        return self.loop.run(call())

    def commit(self) -> None:
        """Commit all that was done; nothing may hold that up."""
        self.loop.run(self.broker._engine.journal.commit_settles())

    def evict(self) -> None:
        for topic in self.broker._engine.topics.by_name.values():
            topic.evict()

    def connect(self, kind: str, topic: bytes, options: StreamOptions) -> Peer:
        raise NotImplementedError

    def publish(self, way: str, topic: bytes, payloads: list[bytes]) -> Answers:
        raise NotImplementedError

    def delete(self, way: str, topic: bytes) -> Answers:
        raise NotImplementedError

    def publish_unique(self, topic: bytes, payload: bytes, options: PublishOptions) -> Answers:
        """Publish with a unique key."""

        async def publish() -> list[str]:
            self._make(topic)
            accepted = await self.broker.publish_unique(topic, payload, options)
            await accepted.commit.wait()
            return [accepted.message_id.decode() + " again" * accepted.is_duplicate]

        return self._ask(publish(), Answers(has_ids=True), 1)

    def _make(self, topic: bytes) -> None:
        """Create a topic whose settings are not those of any."""
        if self.SETTINGS and topic not in self.broker.topics():
            self.broker.admin.create(topic, self.SETTINGS)

    def administer(self, act: MessageAct, topic: bytes, payload: bytes) -> Answers:
        """Act on the one message with a payload."""

        async def administer() -> list[str]:
            page = await self.broker.inspect.search(topic, Filter(contains=payload), count=1000)
            messages = [message for message in page.messages if message.stored.payload == payload]
            assert len(messages) == 1, f"{payload!r} is there {len(messages)} times"
            message = messages[0]
            await self.broker.by_id.act(topic, message.id, Order(act))
            return ["OK"]

        return self._ask(administer(), Answers(), 1)

    def pause(self, topic: bytes, is_paused: bool) -> Answers:
        """Pause the group that reads a topic, or resume it."""

        async def change() -> list[str]:
            admin = self.broker.admin
            await (admin.pause_group if is_paused else admin.resume_group)(topic, DEFAULT_GROUP_NAME).wait()
            return ["OK"]

        return self._ask(change(), Answers(), 1)

    def create_group(self, topic: bytes, idle_seconds: float | None) -> Answers:
        """Create a second group, which ends after a time without a consumer, or with its last one."""

        async def create() -> list[str]:
            options = GroupOptions(Edge.LATEST, is_ephemeral=idle_seconds is None, idle_seconds=idle_seconds)
            await self.broker.groups.create(topic, SECOND_GROUP, options.start, options.own_settings)
            return ["OK"]

        return self._ask(create(), Answers(), 1)

    def has_second_group(self, name: bytes) -> bool:
        topic = self.broker._engine.topics.by_name[name]
        return any(group.name == SECOND_GROUP for group in topic.existing_groups)

    def read_with_group(self, topic: bytes, count: int) -> list[ReceiveResult]:
        """Receive and acknowledge with the second group; the answer is in the list when it has come."""
        answers: list[ReceiveResult] = []
        errors: list[MiniqueueError] = []
        options = ReceiveOptions(count, group=SECOND_GROUP, is_acked=True)
        self.broker.leases.receive(topic, options, answers.append, errors.append)
        assert not errors
        return answers

    def set_schedule(self, name: bytes, schedule: Schedule) -> Answers:
        async def change() -> list[str]:
            await self.broker.scheduler.set(name, schedule)[0].wait()
            return ["OK"]

        return self._ask(change(), Answers(), 1)

    def begin_task(self, act: MessageAct, topic: bytes, part: bytes) -> Answers:
        """Begin an act on all messages that contain `part`."""

        async def begin() -> list[str]:
            selection = selection_of(act, None, Filter(contains=part or None), self.clock.now_ms())
            await self.broker.tasks.begin(Task(topic, Order(act), selection))
            return ["OK"]

        return self._ask(begin(), Answers(), 1)

    def receive(self, topics: tuple[bytes, ...], options: ReceiveOptions) -> list[ReceivedAny]:
        """Receive from several topics; the answer is in the list when it has come."""
        answers: list[ReceivedAny] = []
        errors: list[MiniqueueError] = []
        self.broker.several.receive(TopicChoice(topics), options, list, answers.append, errors.append)
        assert not errors
        return answers

    def transact(self, parts: Sequence[tuple[bytes, list[bytes]]], settle: Settle | None) -> Answers:
        """Publish to some topics and settle, in one transaction."""
        acts = [*(Publish(topic, payloads) for topic, payloads in parts), *([settle] if settle else [])]

        async def transact() -> list[str]:
            result = await self.broker.transactions.execute(acts)
            if isinstance(result, Refused):
                raise result.error
            await result.commit.wait()
            published = [(outcome, payloads) for outcome, (_, payloads) in zip(result.outcomes, parts, strict=False)]
            return list(chain.from_iterable(starmap(ids_of, published))) or ["OK"]

        message_count = sum(len(payloads) for _, payloads in parts)
        return self._ask(transact(), Answers(has_ids=bool(parts)), message_count or 1)

    def _ask(self, work: Coroutine[Any, Any, list[str]], answers: Answers, count: int) -> Answers:
        async def ask() -> None:
            try:
                answers.words += await work
            except MiniqueueError as exc:
                answers.words += [exc.code] * count
            except Exception as exc:
                self.broken = exc

        self.tasks.add(task := asyncio.get_running_loop().create_task(ask()))
        task.add_done_callback(self.tasks.discard)
        return answers

    def listen(self) -> None:
        """Bring the answers up to date."""


class CorePeer:
    """A consumer of the broker itself, which asks for the next message as both protocols do."""

    shown_causes = None
    shows_failures = True
    confirms = True

    def __init__(self, broker: Broker, topic: bytes, options: StreamOptions) -> None:
        self._heard: list[Delivery | str] = []
        self._consumer = broker.stream(topic, options, self._deliver, self._fail)
        self._has_receipts = options.prefetch is not None
        self._consumer.request()

    def hear(self) -> list[Delivery | str]:
        heard, self._heard = self._heard, []
        return heard

    def _deliver(self, leases: list[Lease]) -> None:
        for delivery in chain.from_iterable(map(deliveries_of, leases)):
            self._heard.append(delivery if self._has_receipts else delivery._replace(receipt=None))

    def _fail(self, error: MiniqueueError) -> None:
        self._heard.append(error.code)

    def settle(self, act: str, receipts: Sequence[int] | None, seconds: float) -> None:
        arguments = [seconds] if act == "dack" else []
        options = [NackOptions(seconds, reason_of(seconds))] if act == "nack later" else []
        try:
            getattr(self._consumer, act.removesuffix(" later"))(*arguments, receipts, *options)
        except MiniqueueError as exc:
            self._heard.append(exc.code)
        else:
            self._heard.append("OK")
        self._consumer.refill()

    def leave(self) -> None:
        self._consumer.close()


class CoreDriver(Driver):
    """Calls the broker."""

    KINDS = ("core",)
    WAYS = ("core",)

    def connect(self, kind: str, topic: bytes, options: StreamOptions) -> Peer:
        return CorePeer(self.broker, topic, options)

    def publish(self, way: str, topic: bytes, payloads: list[bytes]) -> Answers:
        async def publish() -> list[str]:
            self._make(topic)
            published = self.broker.publish(topic, payloads)
            await published.commit.wait()
            return ids_of(published, payloads)

        return self._ask(publish(), Answers(has_ids=True), len(payloads))

    def delete(self, way: str, topic: bytes) -> Answers:
        async def delete() -> list[str]:
            await self.broker.delete_topic(topic)
            return ["OK"]

        return self._ask(delete(), Answers(), 1)


class WaitingDriver(CoreDriver):
    """Has what failed wait, the longer the more often it did."""

    SETTINGS = MappingProxyType({"retry_delays": [0.5, 2]})
