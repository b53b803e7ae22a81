"""Compares what a broker does with what the model says.

All tasks run until they wait. Then each consumer was given what comes next in the model, in its turn; no consumer waits
while there is a message for it; every settle and every request was answered as it should be, and not before that was
durable; the counts agree.
"""

from collections.abc import Callable
from math import inf

from hypothesis.stateful import RuleBasedStateMachine

from miniqueue.core.log.partition import DEFAULT_GROUP
from miniqueue.core.options.consume import StreamOptions
from miniqueue.storage.format import keys, values
from tests.model.drivers import PLAIN, Answers, CoreDriver, Delivery, Described, Driver, Peer
from tests.model.model import Entry, Model, Request, Topic
from tests.model.stores import Disk, MemoryDisk

NAMES = (b"t", b"t-ack")


class Worker:
    """A consumer beside what the model says that it holds.

    `is_sure`: whether it is known how much room it has. Messages that have ended with their topic or their store take
    up room until one is named that came together with them; so, once there were some, all that is known is that those
    still held are not too many.
    """

    peer: Peer

    def __init__(self, topic: bytes, options: StreamOptions) -> None:
        self.topic = topic
        self.has_receipts = options.prefetch is not None
        self.prefetch = options.prefetch or 1
        self.lease_seconds = options.lease_seconds or inf
        self.is_sure = True
        self.held: list[tuple[int | None, Entry]] = []  # even leases that ended with their topic or store
        self.receipts: set[int] = set()  # all that there ever were
        self.replies: list[str] = []  # expected
        self.told: list[str] = []  # received
        self.news: list[Delivery] = []  # not compared yet

    @property
    def has_room(self) -> bool:
        return len(self.held) < self.prefetch

    def hear(self) -> None:
        for told in self.peer.hear():
            (self.told if isinstance(told, str) else self.news).append(told)

    def take(self, entry: Entry, described: Described) -> None:
        delivery = self.news.pop(0)
        shown = entry.returns if self.peer.shown_causes is None else self.peer.shown_causes
        assert delivery.returns == {cause: entry.returns[cause] for cause in shown if entry.returns[cause]}
        assert delivery.failure == (entry.failure if self.peer.shows_failures else b"")
        assert delivery.described in (None, described)
        assert (delivery.receipt is not None) == self.has_receipts
        assert delivery.receipt not in self.receipts
        if delivery.receipt is not None:
            self.receipts.add(delivery.receipt)
        self.held.append((delivery.receipt, entry))


class Comparison(RuleBasedStateMachine):
    """A broker, the model, and the consumers and requests that both know of."""

    driver_class: type[Driver] = CoreDriver
    disk_class: Callable[[], Disk] = MemoryDisk

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.workers: list[Worker | None] = []
        self.waiting: dict[Worker, int] = {}  # the step since which each waits: first come, first served
        self.step = 0
        self.requests: list[tuple[Request, Answers]] = []
        self.published_count = 0
        self.found: AssertionError | None = None  # a finding where none could be raised
        self.is_sound = False  # set when every check of the last step has passed
        self.came_back: set[bytes] = set()  # at the same time, from several: it may be given one by one
        self.disk = self.disk_class()
        self.driver = self.driver_class(
            self.disk,
            began=self.model.begin_write,
            ended=self.model.end_write,
            failed=self.write_failed,
            opened=self.store_opened,
        )

    # --- what the store tells ---

    def write_failed(self, is_kept):
        """Memory is about to be lost: what was given by now is measured by what was true by now."""
        try:
            self.match_all_deliveries()
        except AssertionError as exc:
            self.found = exc
        self.model.fail_write(is_kept=is_kept)
        self.driver.store.release()

    def store_opened(self):
        """A start, or the end of a fault."""
        self.model.open(self.driver.clock.now_ms(), self.driver.clock.monotonic())

    # --- what must hold ---

    def compare(self):
        self.is_sound = False
        if self.driver.broken is not None:
            raise self.driver.broken
        for worker in self.present:
            worker.is_sure = worker.is_sure and (worker.prefetch == 1 or len(self.live(worker)) == len(worker.held))
        self.match_all_deliveries()
        if self.found is not None:
            raise self.found
        for worker in self.present:
            assert worker.told == [reply for reply in worker.replies if reply != "OK" or worker.peer.confirms]
            worker.told, worker.replies = [], []
        for name in NAMES if not self.is_held_up else ():
            assert not self.line(name) or self.model.topics.get(name, Topic()).next(self.model.horizon_ms) is None
        self.answers_are_right()
        assert self.driver.take_events() == self.model.events
        self.model.events = []
        if not self.model.is_read_only:
            self.counts_are_right()
        self.step += 1
        self.is_sound = True

    @property
    def present(self) -> list[Worker]:
        return [worker for worker in self.workers if worker is not None]

    def match_all_deliveries(self):
        for worker in self.present:
            worker.hear()
        for name in NAMES:
            self.match_deliveries(name, [worker for worker in self.present if worker.topic == name])

    def match_deliveries(self, name, workers):
        """Whoever is first in the line is given as many as are at hand; with room left he goes behind the others."""
        topic, current = self.model.topics.get(name, Topic()), None
        while given := {worker.news[0].payload: worker for worker in workers if worker.news}:
            entry = topic.next(self.model.horizon_ms)
            assert entry is not None, f"{given} were given out of nowhere"
            if entry.payload not in given and (early := self.came_back & given.keys()):
                entry = next(entry for entry in topic.entries if entry.payload in early)
            assert entry.payload in given, f"{entry} comes next, but {given} were given"
            worker = given[entry.payload]
            if worker is not current:
                self.go_behind(current)
                if worker.is_sure:
                    assert worker in self.waiting
                    assert self.waiting[worker] == min(self.waiting[other] for other in self.line(name))
                current = worker
            assert worker.has_room if worker.is_sure else len(self.live(worker)) < worker.prefetch
            taken = topic.take(entry)
            taken.ends_at = self.driver.clock.monotonic() + worker.lease_seconds
            worker.take(taken, self.model.described.get(taken.payload, PLAIN))
        self.go_behind(current)

    @property
    def is_held_up(self) -> bool:
        store = self.driver.store
        return self.model.is_read_only or not (store.may_write.is_set() and store.may_scan.is_set())

    def line(self, name: bytes) -> list[Worker]:
        return [worker for worker in self.waiting if worker.topic == name and worker.is_sure]

    def live(self, worker: Worker) -> list[Entry]:
        """What it holds that it may settle."""
        topic = self.model.topics.get(worker.topic, Topic())
        return [entry for _, entry in worker.held if entry in topic.held]

    def go_behind(self, worker: Worker | None) -> None:
        if worker is not None:
            self.waiting.pop(worker, None)
            if worker.has_room:
                self.waiting[worker] = self.step

    def answers_are_right(self):
        """Replies wait until what they confirm is durable, and no longer."""
        self.model.rest()
        self.driver.listen()
        for request, answers in self.requests:
            words = [request.answer] * max(1, len(request.numbers)) if request.answer else []
            if request.answer == "OK" and answers.has_ids:
                words = [f"0-{number}" for number in request.numbers]
            assert answers.words == words
        self.requests = [(request, answers) for request, answers in self.requests if request.answer is None]

    def counts_are_right(self):
        broker = self.driver.broker
        assert broker.topics() == sorted(self.model.topics)
        assert broker.faults() == {}
        for name, topic in self.model.topics.items():
            stats = broker.stats()[name]
            delayed = sum(entry.place == "delayed" for entry in topic.entries)
            counts = len(topic.entries) - delayed, len(topic.held), delayed
            if topic.group is not None and len(topic.group.unread) > sum(counts):
                counts = len(topic.group.unread), 0, 0  # those of the slowest group
            assert (stats.ready, stats.leased, stats.delayed, stats.published) == (*counts, topic.tail)
            assert self.driver.has_second_group(name) == (topic.group is not None)
            if all(worker.is_sure for worker in self.present if worker.topic == name):
                assert stats.waiting == len(self.line(name))

    # --- the store ---

    async def left_over(self) -> list[bytes]:
        """What is stored beside the registry, and a head, a cursor and the settings of each topic that exists."""
        limits = {"max_items": 10_000, "max_bytes": 1 << 30}
        topics = await self.driver.store.scan(*keys.topics(), **limits)
        ids = [values.decode_topic(value)[0] for _, value in topics]
        needed = {
            key for id_ in ids for key in (keys.head(id_, 0), keys.cursor(id_, 0, DEFAULT_GROUP), keys.settings(id_))
        }
        stored = await self.driver.store.scan(keys.purges()[0], b"\xff", **limits)
        return [key for key, _ in stored if key not in needed]
