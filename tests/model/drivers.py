"""How the machine speaks to a broker: what both ways have in common, and the way through the core alone.

A driver is a process that can be stopped, crashed and started again, with peers that consume and requests that
publish and delete. What they heard is told in the same words whatever they speak:

    Delivery          a message, with the causes of its returns as far as this peer is shown them
    "OK", "NOLEASE"   the reply to a settle
    answers           of a request: "OK", "UNKNOWN", "READONLY", or the ids of the messages
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from miniqueue.broker import Broker
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.cursor.lease import Lease
from miniqueue.errors import MiniqueueError
from tests.fakes import ManualClock
from tests.model.stores import Disk, FragileStore
from tests.model.virtual_loop import VirtualLoop

Result = TypeVar("Result")


class Delivery(NamedTuple):
    payload: bytes
    receipt: int | None
    returns: dict[str, int]


class Peer(Protocol):
    """A consumer, somewhere. `shown_causes` of returns come with its deliveries; None stands for all.

    `confirms`: whether it hears of a settle that went well.
    """

    shown_causes: tuple[str, ...] | None
    confirms: bool

    def hear(self) -> list[Delivery | str]:
        """Return what came since the last call."""

    def settle(self, act: str, receipts: Sequence[int] | None, seconds: float) -> None: ...

    def leave(self) -> None: ...


@dataclass
class Answers:
    """What a request is told, one word for each message; `has_ids` when it is told ids."""

    has_ids: bool = False
    words: list[str] = field(default_factory=list)


class Driver:
    """A broker on a disk, with the clock and the loop of its process.

    Args:
      disk: outlives the process.
      hooks: of `FragileStore`.
    """

    KINDS: tuple[str, ...]  # of peers
    WAYS: tuple[str, ...]  # to publish

    def __init__(self, disk: Disk, **hooks: Callable[..., None]) -> None:
        self.clock = ManualClock()
        self.store = FragileStore(disk, **hooks)
        self.loop = VirtualLoop(self.store.is_busy)
        self.tasks: set[asyncio.Task[None]] = set()  # held on to: the loop alone would let them go
        self.large_bytes = 1  # each commit that publishes begins beside the one under way
        self.broker: Broker

    def start(self) -> None:
        self.loop.run(self._start())

    async def _start(self) -> None:
        self.broker = Broker(self.store.open, clock=self.clock, period_seconds=1e9, limits=BrokerLimits(rest_seconds=0))
        self.broker._engine.journal.committer.large_bytes = self.large_bytes
        await self.broker.start()

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

    def evict(self) -> None:
        for topic in self.broker._engine.topics.by_name.values():
            topic.evict()

    def connect(self, kind: str, topic: bytes, prefetch: int | None) -> Peer:
        raise NotImplementedError

    def publish(self, way: str, topic: bytes, payloads: list[bytes]) -> Answers:
        raise NotImplementedError

    def delete(self, way: str, topic: bytes) -> Answers:
        raise NotImplementedError

    def listen(self) -> None:
        """Bring the answers up to date."""


class CorePeer:
    """A consumer of the broker itself, which asks for the next message as both protocols do."""

    shown_causes = None
    confirms = True

    def __init__(self, broker: Broker, topic: bytes, prefetch: int | None) -> None:
        self._heard: list[Delivery | str] = []
        self._consumer = broker.consumer(topic, self._deliver, self._fail, prefetch or 1)
        self._has_receipts = prefetch is not None
        self._consumer.request()

    def hear(self) -> list[Delivery | str]:
        heard, self._heard = self._heard, []
        return heard

    def _deliver(self, leases: list[Lease]) -> None:
        for lease in leases:
            counts = {cause: count for cause, count in lease.counts._asdict().items() if count}
            for receipt, payload in enumerate(lease.payloads, lease.receipt):
                self._heard.append(Delivery(payload, receipt if self._has_receipts else None, counts))

    def _fail(self, error: MiniqueueError) -> None:
        self._heard.append(error.code)

    def settle(self, act: str, receipts: Sequence[int] | None, seconds: float) -> None:
        arguments = [seconds] if act == "dack" else []
        try:
            getattr(self._consumer, act)(*arguments, receipts)
        except MiniqueueError as exc:
            self._heard.append(exc.code)
        else:
            self._heard.append("OK")
        self._consumer.refill()

    def leave(self) -> None:
        self._consumer.close()


class CoreDriver(Driver):
    """Calls the broker; `SETTINGS` are those of every topic."""

    KINDS = ("core",)
    WAYS = ("core",)
    SETTINGS: Mapping[str, object] = MappingProxyType({})

    def connect(self, kind: str, topic: bytes, prefetch: int | None) -> Peer:
        return CorePeer(self.broker, topic, prefetch)

    def publish(self, way: str, topic: bytes, payloads: list[bytes]) -> Answers:
        async def publish() -> list[str]:
            if self.SETTINGS and topic not in self.broker.topics():
                self.broker.admin.create(topic, self.SETTINGS)
            published = self.broker.publish(topic, payloads)
            await published.commit.wait()
            return [f"{published.partition}-{published.first_seq + n}" for n in range(len(payloads))]

        return self._ask(publish(), Answers(has_ids=True), len(payloads))

    def delete(self, way: str, topic: bytes) -> Answers:
        async def delete() -> list[str]:
            await self.broker.delete_topic(topic)
            return ["OK"]

        return self._ask(delete(), Answers(), 1)

    def _ask(self, work: Coroutine[Any, Any, list[str]], answers: Answers, count: int) -> Answers:
        async def ask() -> None:
            try:
                answers.words += await work
            except MiniqueueError as exc:
                answers.words += [exc.code] * count

        self.tasks.add(task := asyncio.get_running_loop().create_task(ask()))
        task.add_done_callback(self.tasks.discard)
        return answers


class WaitingDriver(CoreDriver):
    """Has what failed wait, the longer the more often it did."""

    SETTINGS = MappingProxyType({"retry_delays": [0.5, 2]})
