"""Drives a broker and the model side by side: all that clients, time and the disk can do, in any order.

After every step all that can be seen is compared (`comparing`). The store is held up, fails, and is cut off by
crashes; a commit of which nobody knows the outcome is kept or dropped, as Hypothesis likes.
"""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from miniqueue.broker.commit import journal
from tests.model.comparing import NAMES, Comparison, Worker
from tests.model.drivers import CoreDriver, WaitingDriver
from tests.model.model import Topic, as_stored
from tests.model.protocols import ProtocolDriver
from tests.model.stores import LevelDBDisk

FIRST_CONSUMERS = ((NAMES[0], None), (NAMES[0], 5), (NAMES[1], None), (NAMES[0], 1))
SLOT_COUNT = len(FIRST_CONSUMERS)
NO_RECEIPT = 10**12
LONG_SECONDS = 1 + sum(journal.REOPEN_DELAYS_SECONDS)  # in which a store that can be opened is opened

NAME = st.sampled_from([NAMES[0], *NAMES])
SLOT = st.integers(0, SLOT_COUNT - 1)
CHOICE = st.integers(0, 3)  # of a driver's kinds of peers or ways to publish
KINDS = st.tuples(*[CHOICE] * SLOT_COUNT)
PREFETCH = st.sampled_from([None, None, 1, 2, 5])
PICKS = st.lists(st.sampled_from([0, 0, 1, 2, 3, 4, -1]), min_size=1, max_size=4)
TROUBLE = ["evict", "evict", "delete", "delete", "fail", "crash", "restart"]
OUTCOME = st.sampled_from(["kept", "dropped"])
STEP_SECONDS = st.sampled_from([-3600, -1, 0, 0.001, 0.5, 1, 1, 2, 3, 3600])


class BrokerMachine(Comparison):
    """Through the core alone, on a store in memory; `retry_seconds` are how long what failed waits."""

    retry_seconds: tuple[float, ...] = ()

    @initialize(kinds=KINDS)
    def begin(self, kinds):
        self.start(kinds)
        self.publish(NAMES[0], 5, kinds[0])

    def start(self, kinds):
        self.model.is_read_only = False
        self.workers, self.waiting, self.requests = [None] * SLOT_COUNT, {}, []
        self.driver.start()
        for slot, kind in enumerate(kinds):
            self.connect(slot, *FIRST_CONSUMERS[slot], kind)
            self.compare()  # for who comes next may be too late

    # --- publishing and deleting ---

    @rule(name=NAME, count=st.sampled_from([1, 1, 1, 2, 5]), choice=CHOICE)
    def publish_some(self, name, count, choice):
        self.publish(name, count, choice)

    def publish(self, name, count, choice):
        payloads = [b"%d" % n for n in range(self.published_count, self.published_count + count)]
        self.published_count += count
        request = self.model.publish(name, payloads)
        way = self.driver.WAYS[choice % len(self.driver.WAYS)]
        self.requests.append((request, self.driver.do(self.driver.publish, way, name, payloads)))

    def delete(self, name, choice):
        request = self.model.delete(name)
        way = self.driver.WAYS[choice % len(self.driver.WAYS)]
        self.requests.append((request, self.driver.do(self.driver.delete, way, name)))

    # --- consuming ---

    @rule(slot=SLOT, name=NAME, choice=CHOICE, prefetch=PREFETCH)
    def come_or_go(self, slot, name, choice, prefetch):
        if self.workers[slot] is None:
            self.connect(slot, name, prefetch, choice)
        else:
            self.leave(slot)

    def connect(self, slot, name, prefetch, choice):
        kind = self.driver.KINDS[choice % len(self.driver.KINDS)]
        worker = self.workers[slot] = Worker(name, prefetch)
        self.waiting[worker] = self.step
        self.driver.do(lambda: setattr(worker, "peer", self.driver.connect(kind, name, prefetch)))

    def leave(self, slot):
        worker, self.workers[slot] = self.workers[slot], None
        self.waiting.pop(worker, None)
        for entry in reversed(self.live(worker)):
            self.model.topics[worker.topic].put_back(entry, "front", "disconnects")
        self.driver.do(worker.peer.leave)

    @rule(slot=SLOT, count=st.integers(1, 6))
    def work(self, slot, count):
        """Acknowledge all that is held, some times over."""
        for _ in range(count):
            worker = self.pick_worker(slot)
            if worker is not None and worker.held:
                self.settle_some(worker, "ack", [receipt for receipt, _ in worker.held], 0)
                self.compare()

    @rule(
        slot=SLOT,
        act=st.sampled_from(["ack", "nack", "back", "dack"]),
        picks=PICKS,
        seconds=st.sampled_from([0, 0.5, 1, 1, 1, 2]),
    )
    def settle(self, slot, act, picks, seconds):
        """Settle the one that is held, or some of them, in any order, also twice, also one that never was."""
        worker = self.pick_worker(slot)
        if worker is not None:
            held = [receipt for receipt, _ in worker.held]
            receipts = [held[pick % len(held)] if held and pick >= 0 else NO_RECEIPT for pick in picks]
            self.settle_some(worker, act, receipts, seconds)

    def pick_worker(self, slot: int) -> Worker | None:
        """One that holds something, if there is any."""
        workers = [worker for worker in self.workers if worker is not None]
        busy = [worker for worker in workers if worker.held] or workers
        return busy[slot % len(busy)] if busy else None

    def settle_some(self, worker, act, receipts, seconds):
        wanted = list(dict.fromkeys(receipts)) if worker.has_receipts else [None]
        named, can_be_settled, was_holding = dict(worker.held), self.live(worker), bool(worker.held)
        worker.held = [(receipt, entry) for receipt, entry in worker.held if receipt not in wanted]
        live = [named[receipt] for receipt in wanted if named.get(receipt) in can_be_settled]
        waits = bool(live and self.retry_seconds) if act == "nack" else act == "dack"
        if waits:  # whenever the clock has been set back, delays begin with the new time
            self.model.horizon_ms = min(self.model.horizon_ms, self.driver.clock.now_ms())
        for entry in reversed(live) if act == "nack" and not waits else live:
            self.settle_one(self.model.topics[worker.topic], entry, act, seconds)
        asked_count = len(receipts) if worker.has_receipts else 1
        is_done = len(live) == asked_count
        if act == "ack" and was_holding and not worker.has_receipts and not worker.peer.confirms:
            is_done = True  # over HTTP, the ACK of a message that has ended with its topic is no error
        worker.replies.append("OK" if is_done else "NOLEASE")
        if worker.has_room:
            self.waiting.setdefault(worker, self.step)
        self.driver.do(worker.peer.settle, act, receipts if worker.has_receipts else None, seconds)

    def settle_one(self, topic, entry, act, seconds):
        if act == "nack" and self.retry_seconds:
            seconds = self.retry_seconds[min(entry.returns["nacks"], len(self.retry_seconds) - 1)]
        due_at_ms = max(self.driver.clock.now_ms() + round(1000 * seconds), self.model.horizon_ms + 1)
        if act == "ack":
            topic.held.remove(entry)
        else:
            nacked = "delayed" if self.retry_seconds else "front"
            place = {"nack": nacked, "back": "back", "dack": "delayed"}[act]
            topic.put_back(entry, place, f"{act}s", due_at_ms)

    # --- time, and what goes wrong ---

    @rule(seconds=STEP_SECONDS, has_tick=st.sampled_from([True, True, True, False]))
    def step_clock(self, seconds, has_tick):
        self.driver.clock.advance(seconds)
        if has_tick:
            self.tick()

    @rule(early_ms=st.integers(0, 1))
    def step_clock_to_what_is_due_next(self, early_ms):
        now_ms = self.driver.clock.now_ms()
        entries = [entry for topic in self.model.topics.values() for entry in topic.entries]
        due_ms = min(
            (entry.key[0] for entry in entries if entry.place == "delayed" and entry.key[0] > now_ms), default=0
        )
        self.driver.clock.time_ms = max(now_ms, due_ms - early_ms)
        self.tick()

    def tick(self):
        self.model.horizon_ms = self.driver.clock.now_ms()
        self.driver.do(self.driver.broker.tick)

    @rule(seconds=st.sampled_from([0.005, 0.005, LONG_SECONDS]))
    def pass_time(self, seconds):
        """Settles are committed within 5 ms; a store that failed is opened again after a while."""
        self.driver.loop.pass_time(seconds)
        assert not (seconds == LONG_SECONDS and self.model.is_read_only)

    @rule(what=st.sampled_from(["write", "write", "scan"]))
    def hold_up_or_release(self, what):
        store = self.driver.store
        if self.is_held_up:
            self.driver.do(store.release)
        else:
            (store.may_write if what == "write" else store.may_scan).clear()

    @rule(act=st.sampled_from(TROUBLE), name=NAME, choice=CHOICE, outcome=OUTCOME, kinds=KINDS)
    def trouble(self, act, name, choice, outcome, kinds):
        match act:
            case "evict":
                self.driver.do(self.driver.evict)
            case "delete":
                self.delete(name, choice)
            case "fail":
                self.fail(outcome, refused_openings=max(0, choice - 1))
            case "crash":
                self.crash(outcome, kinds)
            case "restart":
                self.restart(kinds, is_told=choice > 0)

    def fail(self, outcome, refused_openings):
        """Let the write under way fail, or the next one."""
        if not self.model.is_read_only:
            self.driver.store.fails_next = outcome
            self.driver.store.refused_openings = refused_openings
            self.driver.do(self.driver.store.release)

    def crash(self, outcome, kinds):
        self.model.lose_memory(self.model.writing if outcome == "kept" else ())
        self.driver.crash(is_kept=outcome == "kept")
        self.start(kinds)

    def restart(self, kinds, *, is_told):
        """Stop in good order; with all peers told to leave before, as the servers do."""
        self.driver.store.fails_next = None
        self.driver.do(self.driver.store.release)
        self.compare()
        if is_told or not issubclass(self.driver_class, CoreDriver):
            self.leave_all()
        if not self.model.is_read_only:
            self.model.stored = as_stored(self.model.topics)
        self.driver.stop()
        self.answers_are_right()
        self.model.lose_memory()
        self.driver.store.refused_openings = 0
        self.start(kinds)

    def leave_all(self):
        for slot in range(SLOT_COUNT):
            if self.workers[slot] is not None:
                self.leave(slot)
                self.compare()

    @invariant()
    def everything_seen_is_what_the_model_says(self):
        self.compare()

    # --- the end ---

    def teardown(self):
        try:
            if self.is_sound:
                self.everything_comes_in_order_and_nothing_is_left()
        finally:
            self.driver.close()
            self.disk.remove()

    def everything_comes_in_order_and_nothing_is_left(self):
        self.restart((), is_told=False)
        for name in NAMES:
            self.driver.clock.advance(1e6)
            self.tick()
            self.connect(0, name, 5, 0)
            self.compare()
            while self.workers[0].held:
                self.work(0, 1)
            assert self.model.topics.get(name, Topic()).entries == []
            self.leave(0)
        self.restart((), is_told=False)
        self.compare()
        assert self.driver.loop.run(self.left_over()) == []


class ProtocolMachine(BrokerMachine):
    """Through RESP and HTTP at once."""

    driver_class = ProtocolDriver


class WaitingMachine(BrokerMachine):
    """Where what failed waits."""

    driver_class = WaitingDriver
    retry_seconds = (0.5, 2)


class LevelDBMachine(BrokerMachine):
    """Through the core, on the store that is used."""

    disk_class = LevelDBDisk
