"""Drives a broker and the model side by side: all that clients, time and the disk can do, in any order.

After every step all that can be seen is compared (`comparing`). The store is held up, fails, and is cut off by
crashes; a commit whose outcome is unknown is kept or dropped, as Hypothesis chooses.

What else clients can do is done in some runs only (`more_rules`): with all of it in every run, there would be little of
each, and what takes five steps of a few kinds would hardly ever happen.
"""

from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from miniqueue.broker.acts.orders import MessageAct
from miniqueue.broker.commit import journal
from miniqueue.core.options.consume import StreamOptions
from miniqueue.core.options.publish import PublishOptions
from tests.model.comparing import NAMES, Worker
from tests.model.drivers import CoreDriver, WaitingDriver
from tests.model.model import Topic
from tests.model.more_rules import KINDS_OF_RUNS, MoreRules
from tests.model.protocols import ProtocolDriver
from tests.model.stores import LevelDBDisk

FIRST_CONSUMERS = ((NAMES[0], None), (NAMES[0], 5), (NAMES[1], None), (NAMES[0], 1))
SLOT_COUNT = len(FIRST_CONSUMERS)
NO_RECEIPT = 10**12
#: Of the streams of a slot, in runs in which leases end: seldom two at the same time.
LEASE_SECONDS = (2.0, 2.117, 2.259, 2.431)
#: How far the clock goes on at a time in such runs.
SHORT_SECONDS = 3
LONG_SECONDS = 1 + sum(journal.REOPEN_DELAYS_SECONDS)  # in which a store that can be opened is opened

NAME = st.sampled_from([NAMES[0], *NAMES])
SLOT = st.integers(0, SLOT_COUNT - 1)
CHOICE = st.integers(0, 3)  # chooses a driver's kind of peer, or a way to publish
KINDS = st.tuples(*[CHOICE] * SLOT_COUNT)
PREFETCH = st.sampled_from([None, None, 1, 2, 5])
PICKS = st.lists(st.sampled_from([0, 0, 1, 2, 3, 4, -1]), min_size=1, max_size=4)
TROUBLE = ["evict", "evict", "delete", "delete", "fail", "crash", "restart"]
OUTCOME = st.sampled_from(["kept", "dropped"])
STEP_SECONDS = st.sampled_from([-3600, -1, 0, 0.001, 0.5, 1, 1, 2, 3, 3600])


class BrokerMachine(MoreRules):
    """Through the core alone, on a store in memory."""

    @initialize(kinds=KINDS, more=KINDS_OF_RUNS)
    def begin(self, kinds, more):
        self.more = more
        self.start(kinds)
        self.publish(NAMES[0], 5, kinds[0])

    def start(self, kinds):
        self.model.is_read_only, self.model.events = False, []
        self.workers, self.waiting, self.requests, self.received = [None] * SLOT_COUNT, {}, [], []
        self.driver.start()
        for slot, kind in enumerate(kinds[:1] if "leases" in self.more else kinds):  # something is left to receive
            self.connect(slot, *FIRST_CONSUMERS[slot], kind)
            self.compare()  # the next comparison may be too late

    # --- publishing and deleting ---

    @rule(name=NAME, count=st.sampled_from([1, 1, 1, 2, 5]), choice=CHOICE)
    def publish_some(self, name, count, choice):
        self.publish(name, count, choice)

    def publish(self, name, count, choice):
        payloads = self.payloads(count)
        request = self.model.publish((name, payloads))
        way = self.driver.WAYS[choice % len(self.driver.WAYS)]
        self.requests.append((request, self.driver.do(self.driver.publish, way, name, payloads)))

    @rule(name=NAME, key=st.sampled_from([b"k", b"l"]), is_replacing=st.booleans())
    def publish_unique(self, name, key, is_replacing):
        """Publish with a unique key, while nothing holds the store up: so it is done at once."""
        if not self.is_at_rest or "groups" in self.more:  # a key is that of one group
            return
        (payload,) = self.payloads(1)
        request = self.model.publish_unique(name, payload, key, is_replacing=is_replacing)
        options = PublishOptions(unique_key=key, is_replacing=is_replacing)
        answers = self.driver.do(self.driver.publish_unique, name, payload, options)
        if isinstance(request, int):
            assert answers.words == [f"0-{request} again"]
        else:
            self.requests.append((request, answers))

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
        lease_seconds = LEASE_SECONDS[slot] if "timed streams" in self.more else None
        options = StreamOptions(prefetch, lease_seconds=lease_seconds)
        worker = self.workers[slot] = Worker(name, options)
        self.waiting[worker] = self.step
        self.driver.do(lambda: setattr(worker, "peer", self.driver.connect(kind, name, options)))

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
        act=st.sampled_from(["ack", "nack", "back", "dack", "nack later"]),
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
        if live or act in ("dack", "nack later"):
            self.settle_all(worker.topic, live, act, seconds)
        asked_count = len(receipts) if worker.has_receipts else 1
        is_done = len(live) == asked_count
        if act == "ack" and was_holding and not worker.has_receipts and not worker.peer.confirms:
            is_done = True  # over HTTP, the ACK of a message that has ended with its topic is no error
        worker.replies.append("OK" if is_done else "NOLEASE")
        if worker.has_room:
            self.waiting.setdefault(worker, self.step)
        self.driver.do(worker.peer.settle, act, receipts if worker.has_receipts else None, seconds)

    @rule(
        name=NAME,
        act=st.sampled_from([MessageAct.DELETE, MessageAct.FRONT, MessageAct.FRONT, MessageAct.DUE]),
        pick=st.integers(0, 9),
    )
    def administer(self, name, act, pick):
        """Act on one message that waits, while nothing holds the store up: so it is done at once."""
        topic = self.model.topics.get(name, Topic())
        entries = [entry for entry in topic.entries if act is not MessageAct.DUE or entry.place == "delayed"]
        if not (self.is_at_rest and entries):
            return
        entry = sorted(entries, key=lambda entry: entry.payload)[pick % len(entries)]
        if act is MessageAct.DUE and entry.key[0] <= self.model.horizon_ms:
            return  # it is ready
        if act is MessageAct.DELETE:
            topic.remove(entry)
        else:
            topic.move(entry, "front" if act is MessageAct.FRONT else "delayed", self.model.horizon_ms)
        assert self.driver.do(self.driver.administer, act, name, entry.payload).words == ["OK"]

    # --- time, and what goes wrong ---

    @rule(seconds=STEP_SECONDS, has_tick=st.sampled_from([True, True, True, False]))
    def step_clock(self, seconds, has_tick):
        has_leases = {"timed streams", "leases"} & {*self.more}
        self.driver.clock.advance(min(seconds, SHORT_SECONDS) if has_leases else seconds)
        self.latest_ms = max(self.latest_ms, self.driver.clock.now_ms())
        if has_tick or self.must_tick:
            self.tick()

    @rule(early_ms=st.integers(0, 1))
    def step_clock_to_what_is_due_next(self, early_ms):
        now_ms = self.driver.clock.now_ms()
        entries = [entry for topic in self.model.topics.values() for entry in topic.entries]
        due_ms = min(
            (entry.key[0] for entry in entries if entry.place == "delayed" and entry.key[0] > now_ms), default=0
        )
        self.driver.clock.time_ms = max(now_ms, due_ms - early_ms)
        self.latest_ms = max(self.latest_ms, self.driver.clock.time_ms)
        self.tick()

    def tick(self):
        """Leases end one after the other: so it can be told who is given what came back.

        Nothing happens if it is not known when a schedule would publish.
        """
        is_due = any(schedule.due_at_ms <= self.driver.clock.now_ms() for schedule in self.model.schedules)
        if is_due and not self.is_at_rest:
            return
        clock, now_ms = self.driver.clock, self.driver.clock.monotonic_ms
        while (ends_ms := [int(1000 * at) for at in self.lease_ends if at < inf]) and min(ends_ms) + 1 < now_ms:
            clock.monotonic_ms = min(ends_ms) + 1
            self.tick_once()
            self.compare()
        clock.monotonic_ms = now_ms
        self.tick_once()

    def tick_once(self):
        self.end_leases()
        self.model.tick(self.driver.clock.now_ms(), self.driver.clock.monotonic())
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
        """Make the write in progress fail, or the next one."""
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
            self.model.store_all()
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
        self.driver.clock.advance(3600)  # less than a day: at its end, there is a warning before a group ends
        self.tick()
        for name in NAMES:
            if name in self.model.topics:
                self.pause(name, is_paused=False)
                self.compare()
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
