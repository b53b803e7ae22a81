"""What clients can do beside publishing, consuming and settling; each run has one or two kinds of it, or none.

leases           RECEIVEANY, and transactions that publish, and settle what was received
timed streams    streams whose leases end
pauses           a group is paused, and goes on
groups           a second group, which ends with its last reader, or after a time without one
schedules        that have one tick, a key and headers
tasks            an act on many messages that a crash, a fault or a stop interrupts
"""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from miniqueue.broker.acts.orders import MessageAct
from miniqueue.broker.transactions.acts import Settle, Way
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.settle import PLAIN_NACK, NackOptions
from miniqueue.core.settings import schedule as schedules
from tests.model.comparing import NAMES, Comparison
from tests.model.drivers import PLAIN, CoreDriver, deliveries_of, reason_of
from tests.model.model import Entry, Group, Request, Schedule, Topic

_KIND = st.sampled_from(["", "", "", "leases", "timed streams", "pauses", "groups", "schedules", "tasks"])
KINDS_OF_RUNS = st.tuples(_KIND, _KIND)
#: The leases of what is received.
RECEIVED_SECONDS = 2.583
#: How long a request waits for what is not in memory; nothing else takes that long.
LOADING_SECONDS = 0.1
NOT_A_RECEIPT = b"5f0c-1"

TOPICS = st.sampled_from([NAMES, NAMES, NAMES[::-1], NAMES[:1], NAMES[1:]])
PART = st.tuples(st.sampled_from(NAMES), st.integers(1, 3))
PARTS = st.lists(PART, max_size=1) | st.lists(PART, min_size=1, max_size=2)


def in_runs_with(kind: str):
    """Return what limits a rule to runs of a kind."""
    return precondition(lambda machine: kind in machine.more)


class Received:
    """A message that was received: its topic, its receipt, and what the model says of it."""

    def __init__(self, topic: bytes, receipt: bytes, entry: Entry) -> None:
        self.topic = topic
        self.receipt = receipt
        self.entry = entry


class MoreRules(Comparison):
    """`more` are the kinds of this run; `retry_seconds` are how long what failed waits."""

    retry_seconds: tuple[float, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.more: tuple[str, ...] = ()
        self.received: list[Received] = []  # in their order, also what has ended
        self.latest_ms = self.driver.clock.now_ms()  # the latest time of the clock so far

    @property
    def is_at_rest(self) -> bool:
        """Whether what is done now is durable at once."""
        return not (self.is_held_up or self.driver.store.fails_next or self.model.writing)

    @property
    def must_tick(self) -> bool:
        """Whether something is measured in this run that begins and ends with ticks."""
        return bool({"timed streams", "leases", "groups"} & {*self.more})

    def payloads(self, count: int) -> list[bytes]:
        """Make some that never were before."""
        self.published_count += count
        return [b"%d" % n for n in range(self.published_count - count, self.published_count)]

    # --- settling -------------------------------------------------------------------------------------------------

    def settle_all(self, name: bytes, entries: list[Entry], act: str, seconds: float) -> None:
        """Settle what is held, together."""
        waits = bool(self.retry_seconds) if act in ("nack", "timeout") else act in ("dack", "nack later")
        if waits:  # whenever the clock has been set back, delays begin with the new time
            self.model.horizon_ms = min(self.model.horizon_ms, self.driver.clock.now_ms())
        for entry in reversed(entries) if act in ("nack", "timeout") and not waits else entries:
            self._settle_one(self.model.topics[name], entry, act, seconds)

    def _settle_one(self, topic: Topic, entry: Entry, act: str, seconds: float) -> None:
        if act in ("nack", "timeout") and self.retry_seconds:
            failure_count = entry.returns["nacks"] + entry.returns["timeouts"]
            seconds = self.retry_seconds[min(failure_count, len(self.retry_seconds) - 1)]
        due_at_ms = max(self.driver.clock.now_ms() + round(1000 * seconds), self.model.horizon_ms + 1)
        if act == "ack":
            topic.held.remove(entry)
        else:
            failed = "delayed" if self.retry_seconds else "front"
            places = {"nack": failed, "timeout": failed, "back": "back", "dack": "delayed", "nack later": "delayed"}
            reason = reason_of(seconds) if act == "nack later" else b""
            topic.put_back(entry, places[act], f"{act.removesuffix(' later')}s", due_at_ms, reason)

    # --- leases that end ------------------------------------------------------------------------------------------

    @property
    def lease_ends(self) -> list[float]:
        """When the leases end, also of what has ended before."""
        entries = [entry for worker in self.present for _, entry in worker.held]
        return [entry.ends_at for entry in entries + [received.entry for received in self.received]]

    def end_leases(self) -> None:
        """Return what is leased for too long, mostly by one."""
        now = self.driver.clock.monotonic()
        all_late: list[list[Entry]] = []
        for name in NAMES:
            all_late.append([one.entry for one in self.received if one.topic == name and one.entry.ends_at <= now])
            self._time_out(name, all_late[-1])
        self.received = [received for received in self.received if received.entry.ends_at > now]
        for worker in self.present:
            late = [entry for _, entry in worker.held if entry.ends_at <= now]
            all_late.append(late)
            if late:
                self._time_out(worker.topic, late)
                worker.held = [(receipt, entry) for receipt, entry in worker.held if entry not in late]
                if worker.has_receipts:  # others go on after their next command, which is refused
                    self.waiting.setdefault(worker, self.step)
        are_several = sum(map(bool, all_late)) > 1
        self.came_back = {entry.payload for late in all_late for entry in late} if are_several else set()

    def _time_out(self, name: bytes, late: list[Entry]) -> None:
        held = self.model.topics[name].held if name in self.model.topics else []
        if live := [entry for entry in late if entry in held]:
            self.settle_all(name, live, "timeout", 0)

    # --- receiving, and transactions ------------------------------------------------------------------------------

    @in_runs_with("leases")
    @rule(names=TOPICS, count=st.integers(1, 4))
    def receive(self, names, count):
        """Receive from several topics."""
        self.receive_some(names, count)

    def receive_some(self, names: tuple[bytes, ...], count: int) -> None:
        """What comes next in each topic is given, and nothing only if there is nothing."""
        if not self.is_at_rest:
            return
        options = ReceiveOptions(count, lease_seconds=RECEIVED_SECONDS)
        answers = self.driver.do(self.driver.receive, names, options)
        self.driver.loop.pass_time(LOADING_SECONDS)
        (answer,) = answers
        for name, (prefix, leases) in answer:
            for delivery in [delivery for _, lease in leases for delivery in deliveries_of(lease)]:
                topic = self.model.topics[name]
                entry = topic.next(self.model.horizon_ms)
                assert entry is not None, f"{delivery} was given out of nowhere"
                assert delivery.payload == entry.payload, f"{entry} comes next"
                assert (delivery.returns, delivery.failure) == (entry.returns, entry.failure)
                assert delivery.described == self.model.described.get(entry.payload, PLAIN)
                taken = topic.take(entry)
                taken.ends_at = self.driver.clock.monotonic() + RECEIVED_SECONDS
                self.received.append(Received(name, b"%b%d" % (prefix, delivery.receipt), taken))
        received_count = sum(lease.count for _, (_, leases) in answer for _, lease in leases)
        assert received_count <= count
        topics = [self.model.topics.get(name, Topic()) for name in names]
        assert received_count or not any(topic.next(self.model.horizon_ms) for topic in topics)

    @in_runs_with("leases")
    @rule(
        parts=PARTS,
        act=st.sampled_from(["ack", "ack", "nack", "back", "dack", "nack later"]),
        picks=st.lists(st.sampled_from([0, 0, 1, 2, -1, -2, -3]), min_size=1, max_size=3),
        seconds=st.sampled_from([0.5, 1, 2]),
        write_count=st.sampled_from([None, None, 0, 1]),
    )
    def transact(self, parts, act, picks, seconds, write_count):
        """Publish to some topics, and settle some of what was received from one; all of it or nothing.

        If nothing else is in progress, the process may die after some writes of it.
        """
        if not self.received:
            self.receive_some(NAMES, 2)
        dies = write_count is not None and self.is_at_rest
        self.driver.store.writes_left = write_count if dies else None
        parts = [part for part in parts if part[0] in self.model.topics or not self.retry_seconds]  # it has settings
        parts = [(name, self.payloads(count)) for name, count in parts]
        name = self.received[0].topic if self.received else NAMES[0]
        held = [received for received in self.received if received.topic == name]
        chosen = list({id(one): one for one in (held[pick % len(held)] for pick in picks if held)}.values())
        receipts = [received.receipt for received in chosen] + [NOT_A_RECEIPT] * (len(picks) == 3 and picks[0] == -3)
        live = self.model.topics[name].held if name in self.model.topics else []
        is_possible = NOT_A_RECEIPT not in receipts and all(received.entry in live for received in chosen)
        if is_possible or self.model.is_read_only:
            request = self.model.publish(*parts)
        else:
            request = Request(range(sum(len(payloads) for _, payloads in parts)), "NOLEASE")
        if is_possible and chosen:
            self.settle_all(name, [received.entry for received in chosen], act, seconds)
            self.received = [received for received in self.received if received not in chosen]
        settle = _settle_of(name, receipts, act, seconds) if receipts else None
        if parts or settle:
            self.requests.append((request, self.driver.do(self.driver.transact, parts, settle)))
        if dies:
            self.crash("dropped", (0,) * len(self.workers))

    # --- pauses ---------------------------------------------------------------------------------------------------

    @in_runs_with("pauses")
    @rule(name=st.sampled_from(NAMES), is_paused=st.booleans())
    def pause_or_resume(self, name, is_paused):
        if name in self.model.topics:
            self.pause(name, is_paused=is_paused)

    def pause(self, name: bytes, *, is_paused: bool) -> None:
        request = self.model.pause(name, is_paused=is_paused)
        self.requests.append((request, self.driver.do(self.driver.pause, name, is_paused)))

    # --- groups that end ------------------------------------------------------------------------------------------

    @in_runs_with("groups")
    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4), idle_seconds=st.sampled_from([None, 2.5]))
    def read_with_a_group(self, name, count, idle_seconds):
        """Take what comes next in the second group; create it, at the end of the log, if it is not there."""
        if name not in self.model.topics or not self.is_at_rest:
            return
        topic = self.model.topics[name]
        if topic.group is None:
            is_ephemeral = idle_seconds is None
            topic.group = Group([], idle_seconds, is_expected=is_ephemeral, was_read=not is_ephemeral)
            assert self.driver.do(self.driver.create_group, name, idle_seconds).words == ["OK"]
            return
        expected, topic.group.unread = topic.group.unread[:count], topic.group.unread[count:]
        topic.group.was_read = True
        answers = self.driver.do(self.driver.read_with_group, name, count)
        self.driver.loop.pass_time(LOADING_SECONDS)
        (answer,) = answers
        assert [payload for _, lease in answer.leases for payload in lease.payloads] == expected

    # --- schedules ------------------------------------------------------------------------------------------------

    @in_runs_with("schedules")
    @rule(name=st.sampled_from(NAMES), seconds=st.integers(1, 3))
    def set_a_schedule(self, name, seconds):
        """Set one that ends with its first tick; where topics have settings, it would create them without."""
        is_told = issubclass(self.driver_class, CoreDriver) and not self.retry_seconds
        if not self.is_at_rest or not is_told or self.must_tick:
            return
        (payload,) = self.payloads(1)
        due_at_ms, schedule = self.driver.clock.now_ms() + 1000 * seconds, b"s%04d" % int(payload)
        own = ((b"number", payload),)
        self.model.described[payload] = (
            b"key",
            ((b"schedule", schedule), (b"schedule-at-ms", b"%d" % due_at_ms), *own),
        )
        self.model.schedules.append(Schedule(due_at_ms, schedule, name, payload))
        options = PublishOptions(headers=own, key=b"key")
        wanted = schedules.Schedule(name, payload, every_ms=1000 * seconds, options=options, until_ms=due_at_ms)
        assert self.driver.do(self.driver.set_schedule, schedule, wanted).words == ["OK"]

    # --- tasks ----------------------------------------------------------------------------------------------------

    @in_runs_with("tasks")
    @rule(
        name=st.sampled_from(NAMES),
        act=st.sampled_from([MessageAct.DELETE, MessageAct.FRONT]),
        part=st.sampled_from([b"", b"", b"1", b"2"]),
        write_count=st.integers(0, 4),
        trouble=st.sampled_from(["crash kept", "crash dropped", "fail kept", "fail dropped", "restart"]),
        kinds=st.tuples(*[st.integers(0, 3)] * 4),
    )
    def interrupt_a_task(self, name, act, part, write_count, trouble, kinds):
        """Begin an act on many messages, and interrupt it after some writes."""
        is_in_past = self.driver.clock.now_ms() < self.latest_ms  # the task would leave out what was published later
        if name not in self.model.topics or not self.is_at_rest or is_in_past:
            return
        self.leave_all()
        self.driver.commit()  # so that the next write is that of the task
        topic = self.model.topics[name]
        is_delayed = any(entry.place == "delayed" for entry in topic.entries)
        if topic.held or (act is MessageAct.FRONT and is_delayed):
            return
        request = self.model.begin_task(name, act, part)
        self.driver.store.writes_left = write_count
        self.requests.append((request, self.driver.do(self.driver.begin_task, act, name, part)))
        what, _, outcome = trouble.partition(" ")
        if what == "crash":
            self.crash(outcome, kinds)
        elif what == "fail":
            self.fail(outcome, refused_openings=0)
        self.driver.do(self.driver.store.release)
        self.model.end_tasks()
        if what == "restart":
            self.restart(kinds, is_told=True)


def _settle_of(name: bytes, receipts: list[bytes], act: str, seconds: float) -> Settle:
    """Return the act of a transaction."""
    nack = NackOptions(seconds, reason_of(seconds)) if act == "nack later" else PLAIN_NACK
    return Settle(name, receipts, Way(act.removesuffix(" later")), seconds=seconds, nack=nack)
