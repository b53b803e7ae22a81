"""Notices: subscribers learn of events through bounded buffers; without subscribers, an event costs nothing."""

import asyncio

import pytest

from miniqueue.broker.model.limits import Limit
from miniqueue.broker.runtime import notices
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.broker.runtime.notices import Listener, NoticeKind, parse_kinds
from miniqueue.core.options.start import Edge
from miniqueue.errors import InternalError, LimitReachedError
from miniqueue.errors.requests import InvalidOptionError
from tests.broker.groups.test_groups import receive
from tests.fakes import settle_down

ALL = parse_kinds(())


class Ear:
    """A client that listens, and reads whenever it is called."""

    def __init__(self, world, kinds=ALL, *, sees=lambda _topic: True, account=None) -> None:
        self.heard = []
        self.reads = True
        self._notices = world.broker.notices
        self.listener = Listener(kinds, sees, account, self._hear)
        self._notices.listen(self.listener)

    def _hear(self) -> None:
        if self.reads:
            self.heard += self.listener.take(0)

    def leave(self) -> None:
        self._notices.leave(self.listener)

    async def take(self) -> list[tuple[str, bytes, dict]]:
        await settle_down()
        heard, self.heard = self.heard, []
        return [(notice.kind.value, notice.topic, dict(notice.details)) for notice in heard]


async def test_what_happens_to_topics_and_groups_is_told(world):
    ear, admin, groups = Ear(world), world.broker.admin, world.broker.groups
    await admin.create(b"t", {"max_deliveries": 5, "lease_seconds": 9}).wait()
    await admin.change(b"t", {"lease_seconds": 9, "ttl_seconds": 9}).wait()
    assert await ear.take() == [
        ("topic-created", b"t", {}),
        ("topic-changed", b"t", {"settings": ["ttl_seconds"]}),
    ]
    await groups.create(b"t", b"g")
    await admin.pause(b"t").wait()
    await admin.resume(b"t").wait()
    await admin.pause_group(b"t", b"g", 5).wait()
    world.clock.advance(6)
    world.broker.tick()
    await groups.delete(b"t", b"g")
    await world.broker.delete_topic(b"t")
    assert await ear.take() == [
        ("group-created", b"t", {"group": "g"}),
        ("paused", b"t", {"side": "in"}),
        ("paused", b"t", {"side": "out"}),
        ("resumed", b"t", {"side": "in"}),
        ("resumed", b"t", {"side": "out"}),
        ("paused", b"t", {"group": "g"}),
        ("resumed", b"t", {"group": "g"}),
        ("group-deleted", b"t", {"group": "g"}),
        ("topic-deleted", b"t", {}),
    ]


async def test_a_group_that_stays_paused_is_not_told_of_again(world):
    """It was, whenever it was moved, its topic woke, or the store was opened again."""
    await world.broker.groups.create(b"t", b"g")
    await world.broker.admin.pause_group(b"t", b"g").wait()
    ear = Ear(world, parse_kinds([b"paused", b"resumed"]))
    await world.broker.groups.seek(b"t", b"g", Edge.LATEST)
    world.broker._engine.journal.distrust(InternalError("a bug"))
    await settle_down()
    world.broker.tick()
    await world.broker.groups.seek(b"t", b"g", Edge.EARLIEST)
    assert await ear.take() == []
    assert [group.paused async for group in world.broker.groups.figures(b"t")] == [True]
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"x")
    assert await ear.take() == []


async def test_dead_letters_and_limits_are_counted_and_told_once_a_second(world):
    ear = Ear(world, parse_kinds([b"dead-letter", b"LIMIT-REACHED"]))
    await world.publish(b"t", b"a", b"b", b"c")
    for receipt, _ in await receive(world, b"default"):
        assert world.broker.leases.reject(b"t", [receipt], b"bad") == [True]
    for _ in range(3):
        world.broker.limit_counts.reached(Limit.TOPICS)
    assert await ear.take() == []
    world.broker.tick()
    assert await ear.take() == [
        ("dead-letter", b"t", {"count": 3, "group": "default", "reason": "bad"}),
        ("limit-reached", b"", {"count": 3, "limit": "max-topics"}),
    ]
    world.broker.tick()
    assert await ear.take() == []


async def test_members_that_join_and_leave_are_told(world):
    ear = Ear(world, parse_kinds([b"member-joined", b"member-left"]))
    first = world.broker.consumer(b"t", print, print, member=b"a")
    second = world.broker.consumer(b"t", print, print, member=b"b")
    assert await ear.take() == [("member-joined", b"t", {"group": "default", "member": name}) for name in "ab"]
    first.close()
    second.close()
    assert await ear.take() == [("member-left", b"t", {"group": "default", "member": name}) for name in "ab"]


async def test_a_store_that_fails_and_recovers_is_told(world):
    ear = Ear(world, parse_kinds([b"store-failed", b"store-recovered"]))
    world.store.fail_writes.add(world.store.write_count + 1)
    publishing = world.broker.publish(b"t", [b"a"]).commit
    await settle_down()
    assert publishing.is_done
    (failed, *_) = await ear.take()
    assert failed[0] == "store-failed"


async def test_memory_that_is_dropped_is_reported_as_a_failure_of_the_store(world):
    """Clients heard that the store had recovered, but not that it had failed."""
    ear = Ear(world, parse_kinds([b"store-failed", b"store-recovered"]))
    world.broker._engine.journal.distrust(InternalError("a bug"))
    assert await ear.take() == [("store-failed", b"", {"error": "a bug"}), ("store-recovered", b"", {})]


async def test_a_client_that_does_not_read_loses_notices_and_hears_how_many(world, monkeypatch):
    monkeypatch.setattr(notices, "MAX_WAITING", 2)
    account = world.broker.memory.connect("192.0.2.1")
    ear = Ear(world, account=account)
    ear.reads = False
    for name in (b"a", b"b", b"c", b"d"):
        await world.publish(name, b"x")
    assert account.amounts()[Purpose.EVENTS] > 2 * notices.NOTICE_BYTES
    ear.reads = True
    world.broker.tick()
    assert await ear.take() == [
        ("topic-created", b"a", {}),
        ("topic-created", b"b", {}),
        ("lost", b"", {"count": 2}),
    ]
    assert Purpose.EVENTS not in account.amounts()
    account.close()


async def test_not_too_many_clients_can_listen(world, monkeypatch):
    monkeypatch.setattr(notices, "MAX_LISTENERS", 2)
    first, _second = Ear(world), Ear(world)
    with pytest.raises(LimitReachedError, match="too many clients listen to events; at most 2"):
        Ear(world)
    first.leave()
    Ear(world)


async def test_what_was_counted_is_reported_in_bounded_turns(world, monkeypatch):
    """Before, one iteration passed on all counts to all listeners: a million reports, with a thousand of each."""
    monkeypatch.setattr(notices, "MAX_PASSED_IN_TURN", 4)
    ears = [Ear(world), Ear(world)]
    for ear in ears:
        ear.reads = False
    for number in range(5):
        world.broker.notices.count(NoticeKind.DEAD_LETTER, b"t%d" % number, 1)
    world.broker.notices.tick()
    counts = []
    for _ in range(6):
        counts.append([len(ear.listener.take(0)) for ear in ears])
        await asyncio.sleep(0)
    assert counts == [[2, 2], [2, 2], [1, 1], [0, 0], [0, 0], [0, 0]]


async def test_who_may_not_see_a_topic_is_not_told_of_it(world):
    ear = Ear(world, sees=lambda topic: topic == b"mine")
    await world.publish(b"mine", b"x")
    await world.publish(b"yours", b"x")
    world.broker.notices.report(NoticeKind.USERS_RELOADED)
    assert await ear.take() == [("topic-created", b"mine", {})]


async def test_nothing_is_kept_for_nobody(world):
    account = world.broker.memory.connect("192.0.2.1")
    ear = Ear(world, account=account)
    ear.reads = False
    await world.publish(b"t", b"x")
    ear.leave()
    assert not world.broker.notices.is_heard
    assert Purpose.EVENTS not in account.amounts()
    await world.publish(b"u", b"x")
    assert await ear.take() == []
    account.close()


def test_a_type_that_is_none_is_refused():
    with pytest.raises(InvalidOptionError, match="a type of event is one of topic-created, topic-changed"):
        parse_kinds([b"topic-created", b"rain"])
