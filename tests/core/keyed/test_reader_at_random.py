"""Random publishes, settles, restarts and changes of the rules, against a list: nothing is lost or out of order."""

import random
from dataclasses import replace

import pytest

from miniqueue.core.cursor import returning
from miniqueue.core.cursor.holding import split
from miniqueue.core.cursor.lease import Range
from miniqueue.core.group import removing, view
from miniqueue.core.keyed import log_index, returns_index
from miniqueue.core.keyed.key_queue import QUEUE_BYTES
from miniqueue.core.keyed.reader import keyed_of
from tests.core.keyed.stored_keys import FAIR, ORDERED, StoredKeys

SETTLES = ("ack", "ack", "nack", "back", "dack", "timeout")


class Machine:
    """Acts at random, and knows what must hold."""

    def __init__(self, seed: int, rules) -> None:
        self.random = random.Random(seed)
        self.some = StoredKeys(rules)
        self.some.acked = self.acked = []
        self.leases: list = []
        self.now_ms = 0
        self.published: dict[bytes, str] = {}  # key by payload
        self.was_always_ordered = rules is ORDERED

    def publish(self) -> None:
        keys = "".join(self.random.choices("abcdefA", (8, 4, 2, 1, 1, 1, 3), k=self.random.randint(1, 6)))
        first = self.some.tail_seq
        self.some.publish_keys(keys)
        self.published |= {f"{key}{seq}".encode(): key for seq, key in enumerate(keys, first)}

    def take(self) -> None:
        lease = self.some.take(self.random.randint(1, 4), self.now_ms)
        if lease is not None:
            self.leases.append(lease)
            self.check(lease)

    def check(self, lease) -> None:
        """One at a time of a key, and none while an older one is not settled."""
        if not self.was_always_ordered:
            return
        held = [self.published[payload] for one in self.leases for payload in one.payloads]
        keys = [key for key in held if key.islower()]
        assert len(keys) == len(set(keys)), held
        for payload in lease.payloads:
            key, seq = self.published[payload], int(payload[1:])
            if key.islower():
                older = [p for p, k in self.published.items() if k == key and int(p[1:]) < seq]
                assert set(older) <= set(self.acked), (payload, older)

    def settle(self) -> None:
        if not self.leases:
            return
        lease = self.leases.pop(self.random.randrange(len(self.leases)))
        cursor = self.some.cursor
        if lease.count > 1 and self.random.random() < 0.5:
            wanted, others = split(cursor, lease, lease.receipt, lease.receipt + 1)
            self.leases += others
            lease = wanted
        match self.random.choice(SETTLES):
            case "ack":
                cursor.ack(lease)
                self.acked += lease.payloads
            case "nack":
                returning.nack(cursor, lease)
            case "timeout":
                returning.nack(cursor, lease, "timeouts")
            case "back":
                returning.back(cursor, lease)
            case "dack":
                returning.dack(cursor, lease, self.now_ms + self.random.randint(1, 5))

    def drop(self) -> None:
        """For want of room, or by a purge."""
        cursor = self.some.cursor
        if self.random.random() < 0.5:
            lease = removing.take_oldest(cursor, self.random.randint(1, 3), 0, max_count=8)
        else:
            lease = removing.take_log(cursor, self.random.randint(0, self.some.tail_seq), 1)
        if lease is not None:
            cursor.drop(lease)
            self.acked += lease.payloads
        elif cursor.blocked_on is not None:
            self.some.load(cursor.blocked_on)

    def purge(self) -> None:
        """What came back, by what the store has of it."""
        self.some.commit()
        place = self.random.choice((Range.FRONT, Range.DELAYED, Range.BACK))
        stored = {order: record for (one, order), record in self.some.records.items() if one is place}
        some = self.random.sample(sorted(stored), min(2, len(stored)))
        waiting = [order for order in some if view.is_waiting(self.some.cursor, place, order)]
        removing.drop_records(
            self.some.cursor, place, [(order, stored[order][0], *stored[order][3:5]) for order in some]
        )
        self.acked += [stored[order].payload for order in waiting]

    def restart(self) -> None:
        self.some.commit()
        self.some.restart()
        self.leases.clear()

    def crash(self) -> None:
        """What was done since the last commit is undone."""
        self.some.restart()
        self.leases.clear()
        del self.acked[self.some.committed :]

    def step(self) -> None:
        acts = {self.publish: 2, self.take: 6, self.settle: 5, self.tick: 2, self.some.commit: 1}
        acts |= {self.restart: 0.2, self.crash: 0.2, self.some.cursor.evict: 0.3, self.drop: 0.2, self.purge: 0.1}
        self.random.choices(list(acts), list(acts.values()))[0]()

    def tick(self) -> None:
        self.now_ms += 1

    def finish(self) -> None:
        """Everything comes, once."""
        for lease in self.leases:
            returning.nack(self.some.cursor, lease)
        self.leases.clear()
        self.now_ms += 1000
        while (lease := self.some.take(3, self.now_ms)) is not None:
            self.leases = [lease]
            self.check(lease)
            self.some.cursor.ack(lease)
            self.acked += lease.payloads
        assert sorted(self.acked) == sorted(self.published)
        assert (self.some.cursor.depth, self.some.cursor.leased_count, self.some.cursor.delayed_count) == (0, 0, 0)
        self.some.commit()
        assert (self.some.chunks, self.some.records, self.some.bitmaps, self.some.gaps) == ({}, {}, {}, {})
        reader = keyed_of(self.some.cursor)
        if reader is not None:
            assert (reader.ahead.size_bytes, reader.returns.size_bytes, reader.ahead.waiting_count) == (0, 0, 0)
            assert reader.turns.index_bytes <= QUEUE_BYTES
            assert len(reader.turns.queues) <= 1


@pytest.fixture(params=["much", "little"])
def memory(request, monkeypatch):
    if request.param == "little":
        monkeypatch.setattr(log_index, "MAX_AHEAD_BYTES", 600)
        monkeypatch.setattr(returns_index, "MAX_RETURNED_BYTES", 300)


@pytest.mark.parametrize("rules", [ORDERED, FAIR, replace(FAIR, max_leased=2)], ids=["ordered", "fair", "capped"])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_stuck_or_out_of_order(seed, rules, memory):
    machine = Machine(seed, rules)
    for _ in range(300):
        machine.step()
    machine.finish()


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_or_stuck_when_the_rules_change(seed, is_late, memory):
    machine = Machine(seed, None)
    arrange = machine.some.arrange_late if is_late else machine.some.arrange
    for step in range(300):
        if step % 20 == 10:
            arrange(machine.random.choice([None, ORDERED, FAIR, replace(FAIR, max_leased=2)]))
        machine.step()
    machine.finish()
