"""The whole broker against plain lists, over restarts and crashes, on both stores.

A longer run: MINIQUEUE_MODEL_RUNS=20000 pytest tests/broker/test_against_model.py
"""

import asyncio
import copy
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from miniqueue.broker import Broker, reading
from miniqueue.broker import commit as commit_module
from miniqueue.core import cursor as cursor_limits
from miniqueue.core import partition as partition_limits
from miniqueue.errors import MessageOutstandingError, NothingOutstandingError
from miniqueue.storage.leveldb import LevelDBStore
from miniqueue.storage.sync_mode import SyncMode
from tests.broker.model import Entry, ModelTopic
from tests.fakes import FakeConsumer, FaultyStore, ManualClock

RUNS = int(os.environ.get("MINIQUEUE_MODEL_RUNS", "200"))
TOPICS = (b"t", b"t-ack")
TOPIC = st.sampled_from(TOPICS)
NUMBER = st.integers(0, 4)  # of a consumer
DISTURBANCES = ["commit", "commit", "evict", "evict", "disconnect", "disconnect", "restart", "crash", "delete"]
BACKGROUND_TASKS = 3  # the committer, the ticker, and the watch of the disk


@pytest.fixture(scope="module", autouse=True)
def small_limits():
    """Make every window, page and chunk tiny; let settles wait for a commit that the test makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cursor_limits, "LOG_WINDOW_BYTES", 400)
        patch.setattr(cursor_limits, "RECORD_WINDOW_BYTES", 400)
        patch.setattr(reading, "PAGE_ITEMS", 3)
        patch.setattr(partition_limits, "MAX_CHUNK_MESSAGES", 2)
        patch.setattr(commit_module, "SETTLE_DELAY_SECONDS", 1e6)
        yield


class Worker:
    """A consumer beside what the model says that it holds."""

    def __init__(self, broker: Broker, topic: bytes) -> None:
        self.topic = topic
        self.real = FakeConsumer(broker, topic)
        self.entry: Entry | None = None
        self.is_waiting = False


class BrokerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.horizon_ms = self.clock.now_ms()
        self.topics: dict[bytes, ModelTopic] = {}
        self.committed: dict[bytes, ModelTopic] = {}
        self.published = 0
        self.waiting: list[Worker] = []  # first come, first served
        self.write_count = 0
        self.noted_write_count = 0  # those that `committed` is the state behind
        self.is_sound = False  # set when every check of the last step has passed

    # --- the store: overridden for LevelDB ---

    async def open_store(self):
        return self.store

    def prepare_store(self) -> None:
        self.store = FaultyStore()

    def crash_store(self) -> None:
        self.store = self.loop.run_until_complete(self.store.as_of(len(self.store.batches)))

    def remove_stores(self) -> None:
        pass

    # --- running ---

    @initialize()
    def begin(self):
        self.prepare_store()
        self.start()

    def start(self) -> None:
        async def start() -> Broker:
            broker = Broker(self.open_counted_store, clock=self.clock, period_seconds=1e6)
            await broker.start()
            return broker

        self.broker = self.loop.run_until_complete(start())
        self.horizon_ms = self.clock.now_ms()
        self.workers = [Worker(self.broker, TOPICS[n % 2]) for n in range(5)]
        self.waiting = []
        self.quiesce()

    async def open_counted_store(self):
        store = await self.open_store()
        vars(store).pop("write", None)  # counted before a restart
        write = store.write

        async def counted(batch):
            await write(batch)
            self.write_count += 1

        store.write = counted
        return store

    def quiesce(self) -> None:
        """Run until nothing is under way; note what is committed by now."""

        async def idle() -> None:
            while len(self.broker._tasks) > BACKGROUND_TASKS:  # noqa: ASYNC110 - loads and purges tell nobody
                await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0)

        self.loop.run_until_complete(idle())
        if self.write_count != self.noted_write_count:
            self.noted_write_count = self.write_count
            self.committed = copy.deepcopy(self.topics)

    def dispatch(self) -> None:
        """In the model, hand messages to those who wait."""
        for worker in list(self.waiting):
            topic = self.topics.get(worker.topic)
            entry = topic.take(self.horizon_ms) if topic else None
            if entry is not None:
                self.waiting.remove(worker)
                worker.entry = entry

    def finish(self) -> None:
        self.dispatch()
        self.quiesce()

    # --- rules ---

    @rule(topic=TOPIC, count=st.sampled_from([1, 1, 1, 2, 5]))
    def publish(self, topic, count):
        payloads = [b"%d" % n for n in range(self.published, self.published + count)]
        self.published += count

        async def publish() -> None:
            await self.broker.publish(topic, payloads).commit.wait()

        before = self.write_count
        self.loop.run_until_complete(publish())
        self.topics.setdefault(topic, ModelTopic()).publish(payloads)
        assert self.write_count > before
        self.finish()
        self.committed = copy.deepcopy(self.topics)

    @rule(number=NUMBER, count=st.integers(1, 6))
    def work(self, number, count):
        """Ask and acknowledge some times over."""
        worker = self.workers[number]
        for _ in range(count):
            if worker.entry is not None:
                self.settle(number, "ack", 0)
            elif worker not in self.waiting:
                self.request(number)

    @rule()
    def request_all(self):
        for number, worker in enumerate(self.workers):
            if worker.entry is None and worker not in self.waiting:
                self.request(number)

    @rule(number=NUMBER)
    def request(self, number):
        worker = self.workers[number]

        async def request() -> None:
            worker.real.consumer.request()

        if worker.entry is not None or worker in self.waiting:
            with pytest.raises(MessageOutstandingError):
                self.loop.run_until_complete(request())
            return
        self.waiting.append(worker)
        self.loop.run_until_complete(request())
        self.finish()

    @rule(number=NUMBER, act=st.sampled_from(["ack", "nack", "back", "dack"]), seconds=st.integers(0, 3))
    def settle(self, number, act, seconds):
        worker = self.workers[number]
        arguments = [seconds] if act == "dack" else []

        async def settle() -> None:
            getattr(worker.real.consumer, act)(*arguments)

        if worker.entry is None:
            with pytest.raises(NothingOutstandingError):
                self.loop.run_until_complete(settle())
            return
        topic = self.topics.get(worker.topic)
        entry, worker.entry = worker.entry, None
        if topic is None or entry not in topic.held:
            with pytest.raises(NothingOutstandingError):
                self.loop.run_until_complete(settle())
            return
        self.loop.run_until_complete(settle())
        if act == "ack":
            topic.ack(entry)
        else:
            due_at_ms = max(self.clock.now_ms() + 1000 * seconds, self.horizon_ms + 1)
            topic.put_back(entry, {"nack": "front", "back": "back", "dack": "delayed"}[act], due_at_ms)
        self.finish()

    @rule(number=NUMBER, what=st.sampled_from(DISTURBANCES), topic=TOPIC)
    def disturb(self, number, what, topic):
        match what:
            case "disconnect":
                self.disconnect(number)
            case "delete":
                self.delete(topic)
            case _:
                getattr(self, what)()

    def disconnect(self, number):
        worker = self.workers[number]

        async def close() -> None:
            worker.real.consumer.close()

        self.loop.run_until_complete(close())
        topic = self.topics.get(worker.topic)
        if worker in self.waiting:
            self.waiting.remove(worker)
        if topic is not None and worker.entry in topic.held:
            topic.put_back(worker.entry, "front")
        self.workers[number] = Worker(self.broker, worker.topic)
        self.finish()

    @rule(seconds=st.integers(-1, 3))
    def tick(self, seconds):
        self.clock.advance(seconds)
        self.horizon_ms = self.clock.now_ms()

        async def tick() -> None:
            self.broker.tick()

        self.loop.run_until_complete(tick())
        self.finish()

    def delete(self, topic):
        existed = self.loop.run_until_complete(self.broker.delete_topic(topic))
        assert existed == (topic in self.topics)
        self.topics.pop(topic, None)
        self.finish()
        if existed:
            self.committed = copy.deepcopy(self.topics)

    def commit(self):
        async def flush() -> None:
            await self.broker._committer.flush()

        self.loop.run_until_complete(flush())
        self.finish()
        self.committed = copy.deepcopy(self.topics)

    def evict(self):
        for topic in self.broker._topics.values():
            topic.evict()

    def restart(self):
        self.loop.run_until_complete(self.broker.stop())
        self.begin_anew(self.topics)

    def crash(self):
        self.crash_store()
        self.loop.run_until_complete(_cancel(self.broker))
        self.begin_anew(copy.deepcopy(self.committed))

    def begin_anew(self, topics: dict[bytes, ModelTopic]) -> None:
        self.topics = topics
        for topic in topics.values():
            topic.restart()
        self.start()
        self.committed = copy.deepcopy(self.topics)

    # --- what must hold ---

    def everything_comes_in_order_after_a_restart(self):
        self.restart()
        self.clock.advance(3600)
        self.horizon_ms = self.clock.now_ms()
        for name, topic in self.topics.items():
            expected = []
            while entry := topic.take(self.horizon_ms):
                expected.append(entry.payload)
            assert self.loop.run_until_complete(self.drain(name)) == expected

    async def drain(self, name: bytes) -> list[bytes]:
        self.broker.tick()
        real = FakeConsumer(self.broker, name)
        real.consumer.request()
        while len(self.broker._tasks) > BACKGROUND_TASKS or not real.consumer.is_waiting:
            if not real.consumer.is_waiting:
                real.consumer.ack()
                real.consumer.request()
            await asyncio.sleep(0)
        return real.payloads

    @invariant()
    def every_consumer_has_what_the_model_says(self):
        self.is_sound = False
        for worker in self.workers:
            assert worker.real.errors == []
            assert worker.real.consumer.is_waiting == (worker in self.waiting)
            if worker.entry is not None:
                lease = worker.real.leases[-1]
                assert (lease.payloads, sum(lease.counts)) == ([worker.entry.payload], worker.entry.returns)

    @invariant()
    def topics_and_counts_agree(self):
        assert self.broker.topics() == sorted(self.topics)
        assert self.broker.faults() == {}
        for name, topic in self.topics.items():
            stats = self.broker.stats()[name]
            delayed = sum(entry.place == "delayed" for entry in topic.entries)
            assert (stats.ready, stats.leased) == (len(topic.entries) - delayed, len(topic.held))
            assert (stats.published, stats.delayed) == (topic.tail, delayed)
        self.is_sound = True

    def teardown(self):
        try:
            if self.is_sound:
                self.everything_comes_in_order_after_a_restart()
        finally:
            if hasattr(self, "broker"):
                self.loop.run_until_complete(self.broker.stop())
            self.remove_stores()
            self.loop.close()


async def _cancel(broker: Broker) -> None:
    for task in broker._tasks:
        task.cancel()
    await asyncio.gather(*broker._tasks, return_exceptions=True)


class LevelDBMachine(BrokerMachine):
    """The same on LevelDB; a crash is a copy of the directory, opened while the old one is still in use."""

    def prepare_store(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "0"
        self.stores: list[LevelDBStore] = []

    async def open_store(self):
        self.stores.append(await LevelDBStore.open(self.path, sync=SyncMode.NEVER))
        return self.stores[-1]

    def crash_store(self) -> None:
        old, self.path = self.path, self.path.with_name(f"{int(self.path.name) + 1}")
        shutil.copytree(old, self.path)

    def remove_stores(self) -> None:
        for store in getattr(self, "stores", ()):
            self.loop.run_until_complete(store.close())
        if hasattr(self, "directory"):
            self.directory.cleanup()


BrokerMachine.TestCase.settings = settings(max_examples=RUNS, stateful_step_count=50, deadline=None)
LevelDBMachine.TestCase.settings = settings(max_examples=RUNS // 20, stateful_step_count=40, deadline=None)
TestBrokerOnMemoryStore = pytest.mark.slow(BrokerMachine.TestCase)
TestBrokerOnLevelDB = pytest.mark.slow(LevelDBMachine.TestCase)
