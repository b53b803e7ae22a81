"""A request for messages of several topics: answered once, from any of them; nothing of it stays in the others."""

import asyncio
import gc
from random import Random

import pytest

from miniqueue.broker.leases import receive_any
from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.topic_choice import MAX_TOPICS, parse_choice
from miniqueue.errors import (
    CorruptionError,
    DrainingError,
    InvalidPrefetchError,
    LimitReachedError,
    OutcomeUnknownError,
)
from miniqueue.errors.requests import MembersOnlyError
from tests.broker.support import World
from tests.fakes import settle_down
from tests.loops import LeapingLoop, on_loop


class Asked:
    """One request, and what came of it."""

    def __init__(self, world: World, *names: bytes, patterns=(), count=1, wait=60.0, reach=list, **options) -> None:
        self.answers: list = []
        self.errors: list = []
        wanted = ReceiveOptions(max_count=count, wait_seconds=wait, **options)
        self.receiving = world.broker.several.receive(
            parse_choice(names, patterns), wanted, reach, self.answers.append, self.errors.append
        )

    @property
    def is_answered(self) -> bool:
        assert len(self.answers) + len(self.errors) <= 1
        return bool(self.answers or self.errors)

    @property
    def found(self) -> dict[bytes, list[bytes]]:
        assert not self.errors
        [answer] = self.answers
        assert len({topic for topic, _ in answer}) == len(answer)
        return {topic: [one for _, lease in got.leases for one in lease.payloads] for topic, got in answer}

    @property
    def receipts(self) -> dict[bytes, list[bytes]]:
        [answer] = self.answers
        return {
            topic: [b"%b%d" % (got.prefix, lease.receipt + n) for _, lease in got.leases for n in range(lease.count)]
            for topic, got in answer
        }


def waiters(world: World) -> dict[bytes, int]:
    topics = world.broker._engine.topics.by_name
    counts = {name: sum(len(group.waiters) for group in topic.groups.values()) for name, topic in topics.items()}
    return {name: count for name, count in counts.items() if count}


async def test_messages_that_are_there_come_at_once_from_several_topics(world):
    await world.publish(b"a", b"1", b"2")
    await world.publish(b"c", b"3")
    asked = Asked(world, b"a", b"b", b"c", count=10)
    assert asked.found == {b"a": [b"1", b"2"], b"c": [b"3"]}
    assert waiters(world) == {}
    for topic, receipts in asked.receipts.items():
        assert world.broker.leases.ack(topic, receipts) == [True] * len(receipts)
    assert world.broker.topics() == [b"a", b"c"], "waiting in a topic does not create it"


async def test_no_more_come_than_were_asked_for_and_the_rest_is_not_leased(world):
    for topic in (b"a", b"b", b"c"):
        await world.publish(topic, b"1", b"2", b"3")
    asked = Asked(world, b"a", b"b", b"c", count=4)
    assert sum(map(len, asked.found.values())) == 4
    assert sum(stats.leased for stats in world.broker.stats().values()) == 4
    assert waiters(world) == {}


async def test_the_first_message_answers_and_the_other_topics_are_left(world):
    await world.publish(b"b", b"old")
    await world.drain(b"b")
    asked = Asked(world, b"a", b"b")
    assert (asked.is_answered, waiters(world)) == (False, {b"a": 1, b"b": 1})
    await world.publish(b"b", b"x")
    assert asked.found == {b"b": [b"x"]}
    assert waiters(world) == {}
    await world.publish(b"a", b"y")
    assert world.broker.stats()[b"a"].leased == 0
    assert await world.drain(b"a") == [b"y"]


async def test_messages_of_one_commit_in_two_topics_lease_no_more_than_the_answer_has(world):
    asked = Asked(world, b"a", b"b", count=1)
    first, second = world.broker.publish(b"a", [b"x"]), world.broker.publish(b"b", [b"y"])
    await first.commit.wait()
    await second.commit.wait()
    await settle_down()
    assert sum(map(len, asked.found.values())) == 1
    leased = {name: stats.leased for name, stats in world.broker.stats().items()}
    assert sum(leased.values()) == 1
    counts = [lease.counts for _, got in asked.answers[0] for _, lease in got.leases]
    assert [sum(count) for count in counts] == [0]


async def test_no_topic_starves_another(world):
    await world.publish(b"a", *(b"%d" % n for n in range(300)))
    await world.publish(b"b", *(b"%d" % n for n in range(300)))
    from_topics = [next(iter(Asked(world, b"a", b"b").found)) for _ in range(200)]
    assert 60 < from_topics.count(b"b") < 140


async def test_messages_in_the_store_are_waited_for_even_without_a_wait(world):
    await world.publish(b"a", b"x")
    await world.restart()
    asked = Asked(world, b"a", b"b", wait=0.0)
    for _ in range(20):
        await settle_down()
    assert asked.found == {b"a": [b"x"]}


@on_loop(LeapingLoop)
async def test_without_messages_the_answer_is_empty_when_the_wait_is_over(world):
    asked = Asked(world, b"a", b"b", patterns=[b"c*"], wait=5.0)
    await asyncio.sleep(4.9)
    assert not asked.is_answered
    await asyncio.sleep(0.2)
    assert (asked.found, waiters(world)) == ({}, {})
    assert world.broker.several._waiting == {}


async def test_without_a_wait_an_empty_answer_comes_at_once(world):
    assert Asked(world, b"a", b"b", patterns=[b"c*"], wait=0.0).found == {}


async def test_one_that_leaves_or_waits_no_longer_is_answered_with_nothing(world):
    for end in ("give_up", "wait_no_longer", "take_back"):
        asked = Asked(world, b"a", b"b", patterns=[b"c*"])
        getattr(asked.receiving, end)()
        assert (asked.found, waiters(world), world.broker.several._waiting) == ({}, {}, {})
        getattr(asked.receiving, end)()
        assert asked.is_answered


async def test_messages_of_a_client_that_left_before_the_answer_return_to_all_topics(world):
    await world.publish(b"a", b"1", b"2")
    await world.publish(b"b", b"3")
    asked = Asked(world, b"a", b"b", count=10)
    asked.receiving.take_back()
    assert sum(stats.leased for stats in world.broker.stats().values()) == 0
    assert (await world.drain(b"a"), await world.drain(b"b")) == ([b"1", b"2"], [b"3"])


async def test_messages_are_acknowledged_at_once_if_the_options_say_so(world):
    await world.publish(b"a", b"1")
    await world.publish(b"b", b"2")
    assert Asked(world, b"a", b"b", count=10, is_acked=True).found == {b"a": [b"1"], b"b": [b"2"]}
    assert (await world.drain(b"a"), await world.drain(b"b")) == ([], [])


# --- patterns ------------------------------------------------------------------------------------------------


async def test_a_pattern_stands_for_the_topics_that_exist(world):
    for topic in (b"jobs.eu", b"jobs.us", b"other"):
        await world.publish(topic, topic)
    asked = Asked(world, patterns=[b"jobs.*"], count=10)
    assert asked.found == {b"jobs.eu": [b"jobs.eu"], b"jobs.us": [b"jobs.us"]}


async def test_a_topic_that_is_created_during_the_wait_is_received_from(world):
    asked = Asked(world, b"a", patterns=[b"jobs.*"])
    await world.publish(b"other", b"x")
    assert not asked.is_answered
    await world.publish(b"jobs.eu", b"y")
    await settle_down()
    assert asked.found == {b"jobs.eu": [b"y"]}
    assert (waiters(world), world.broker.several._waiting) == ({}, {})


async def test_a_topic_that_is_created_empty_is_waited_for(world):
    asked = Asked(world, patterns=[b"jobs.*"])
    await world.broker.admin.create(b"jobs.eu", {}).wait()
    await settle_down()
    assert waiters(world) == {b"jobs.eu": 1}
    await world.broker.admin.change(b"jobs.eu", {"lease_seconds": 5}).wait()
    assert waiters(world) == {b"jobs.eu": 1}
    await world.publish(b"jobs.eu", b"y")
    assert asked.found == {b"jobs.eu": [b"y"]}


async def test_topics_that_the_client_may_not_consume_are_left_out(world):
    await world.publish(b"jobs.eu", b"1")
    asked = Asked(world, patterns=[b"jobs.*"], reach=lambda names: [name for name in names if name == b"jobs.us"])
    await world.publish(b"jobs.de", b"2")
    await settle_down()
    assert not asked.is_answered
    await world.publish(b"jobs.us", b"3")
    await settle_down()
    assert asked.found == {b"jobs.us": [b"3"]}


async def test_more_topics_than_one_may_wait_for_are_refused(world):
    for number in range(MAX_TOPICS + 1):
        await world.publish(b"jobs.%d" % number, b"x")
    with pytest.raises(LimitReachedError, match="101 topics fit the patterns; at most 100"):
        Asked(world, patterns=[b"jobs.*"])
    assert Asked(world, patterns=[b"jobs.1*"], count=1000).is_answered
    assert world.broker.several._waiting == {}


async def test_parts_begin_in_turns_and_the_answer_has_messages_of_all(world):
    names = [b"%d" % number for number in range(MAX_TOPICS)]
    for name in names:
        await world.publish(name, b"x")
    asked = Asked(world, *names, count=1000)
    assert not asked.is_answered
    await settle_down()
    assert asked.found == {name: [b"x"] for name in names}
    assert sum(waiters(world).values()) == 0


async def test_one_that_leaves_before_all_parts_have_begun_begins_no_more(world):
    names = [b"%d" % number for number in range(MAX_TOPICS)]
    asked = Asked(world, *names)
    asked.receiving.give_up()
    await settle_down()
    assert asked.found == {}
    assert sum(waiters(world).values()) == 0


async def test_one_that_waits_no_longer_before_all_parts_have_begun_has_messages_of_the_others(world):
    names = [b"%d" % number for number in range(MAX_TOPICS)]
    for name in names:
        await world.publish(name, b"x")
    asked = Asked(world, *names, count=1000)
    asked.receiving.wait_no_longer()
    await settle_down()
    assert len(asked.found) == MAX_TOPICS


async def test_a_topic_that_is_created_before_all_parts_have_begun_is_received_from(world):
    names = [b"%d" % number for number in range(MAX_TOPICS)]
    asked = Asked(world, *names, patterns=[b"jobs.*"], count=1000)
    await world.publish(b"jobs.new", b"x")
    await settle_down()
    assert asked.found == {b"jobs.new": [b"x"]}


async def test_a_new_topic_is_offered_to_many_requests_in_turns_and_first_to_the_first(world):
    asked = [Asked(world, patterns=[b"*"]) for _ in range(100)]
    await world.publish(b"jobs", *[b"x"] * 5)
    await settle_down()
    assert [each.is_answered for each in asked] == [True] * 5 + [False] * 95
    assert waiters(world)[b"jobs"] == 95
    for each in asked[5:]:
        each.receiving.give_up()


async def test_topics_are_offered_when_they_are_new_and_never_again(world, monkeypatch):
    """After a store fault, each topic was offered to each request, and so it was after each change of its settings."""
    await world.publish(b"jobs.old", b"x")
    offered = []
    accept = receive_any.ReceiveAny.accept

    def noting(receiving, name):
        offered.append(name)
        return accept(receiving, name)

    monkeypatch.setattr(receive_any.ReceiveAny, "accept", noting)
    asked = Asked(world, patterns=[b"mails.*"])
    await world.publish(b"jobs.new", b"x")
    await world.broker.admin.change(b"jobs.new", {"max_messages": 5}).wait()
    await settle_down()
    assert offered == [b"jobs.new"]
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"jobs.new", b"y")
    await settle_down()
    assert offered == [b"jobs.new"]
    await world.publish(b"mails.new", b"z")
    await settle_down()
    assert offered == [b"jobs.new", b"mails.new"]
    assert asked.found == {b"mails.new": [b"z"]}


async def test_more_requests_with_patterns_than_may_wait_are_refused(world, monkeypatch):
    monkeypatch.setattr(receive_any, "MAX_WAITING_BY_PATTERN", 2)
    asked = [Asked(world, patterns=[b"jobs.*"]) for _ in range(2)]
    with pytest.raises(LimitReachedError, match="as many requests wait with patterns as may, 2"):
        Asked(world, patterns=[b"jobs.*"])
    assert not Asked(world, b"jobs.eu").is_answered
    asked[0].receiving.give_up()
    assert not Asked(world, patterns=[b"jobs.*"]).is_answered


# --- refusals and faults -------------------------------------------------------------------------------------


async def test_what_one_topic_refuses_is_refused_as_a_whole(world):
    await world.broker.admin.create(b"b", {"partitions": 2}).wait()
    world.broker.consumer(b"b", print, print, 1, b"default", b"m")
    asked = Asked(world, b"a", b"b")
    assert (list(map(type, asked.errors)), waiters(world)) == ([MembersOnlyError], {})
    await world.publish(b"a", b"x")
    assert Asked(world, b"a", b"b").found == {b"a": [b"x"]}, "there is a message"
    assert not Asked(world, patterns=[b"*"]).is_answered, "a topic that only fits a pattern is left out"


async def test_a_topic_that_becomes_unreadable_ends_the_wait_if_it_is_named(world):
    await world.publish(b"b", b"x")
    await world.drain(b"b")
    named, fitting = Asked(world, b"a", b"b"), Asked(world, b"a", patterns=[b"b*"])
    topic = world.broker._engine.topics.by_name[b"b"]
    fault = CorruptionError("damaged")
    for group in topic.groups.values():
        group.fail(fault)
    assert named.errors == [fault]
    assert (fitting.is_answered, waiters(world)) == (False, {b"a": 1})
    fitting.receiving.give_up()


async def test_too_many_messages_and_a_broker_that_stops_are_refused(world):
    asked = Asked(world, b"a", count=10_001)
    assert list(map(type, asked.errors)) == [InvalidPrefetchError]
    world.broker._engine.journal.admission.drain()
    assert list(map(type, Asked(world, b"a").errors)) == [DrainingError]


async def test_a_deleted_topic_is_waited_for_as_before(world):
    await world.publish(b"a", b"x")
    await world.drain(b"a")
    asked = Asked(world, b"a", patterns=[b"b*"])
    await world.broker.delete_topic(b"a")
    await world.publish(b"a", b"next")
    assert asked.found == {b"a": [b"next"]}


async def test_what_a_request_keeps_is_charged_to_its_client_as_long_as_it_waits(world):
    class Actor:
        account = Memory().connect("peer")
        user = ""

    CURRENT_ACTOR.set(Actor())
    asked = Asked(world, *(b"%d" % n for n in range(50)), patterns=[b"jobs.*"])
    CURRENT_ACTOR.set(b"another client")
    await settle_down()
    assert Actor.account.amounts()[Purpose.REQUESTS] == 50 * receive_any.PART_BYTES
    await world.broker.admin.create(b"jobs.eu", {}).wait()
    await settle_down()
    assert Actor.account.amounts()[Purpose.REQUESTS] == 51 * receive_any.PART_BYTES
    await world.publish(b"7", b"x")
    assert asked.is_answered
    assert Actor.account.amounts().get(Purpose.REQUESTS, 0) == 0


async def test_a_request_leaves_no_cycle(world):
    await world.publish(b"a", b"x", b"y")
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            Asked(world, b"a", b"b").receiving.take_back()
            Asked(world, b"b", b"c", patterns=[b"d*"]).receiving.give_up()
            Asked(world, b"b", b"c", wait=0.0)
            await settle_down()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("seed", range(5))
async def test_at_random_every_message_is_in_one_answer_and_none_is_leaked(seed, world):
    chance, names = Random(seed), [b"a", b"b", b"c", b"d"]
    published: list[bytes] = []
    received: list[bytes] = []
    waiting: list[Asked] = []
    for number in range(150):
        for topic in chance.sample(names, chance.randint(0, 2)):
            payloads = [b"%b%d.%d" % (topic, number, n) for n in range(chance.randint(1, 3))]
            published += payloads
            world.broker.publish(topic, payloads)
        chosen = chance.sample(names, chance.randint(1, 4))
        patterns = [b"*"] if chance.random() < 0.2 else []
        waiting.append(Asked(world, *chosen, patterns=patterns, count=chance.randint(1, 4), is_acked=True))
        if chance.random() < 0.3:
            await settle_down()
        if chance.random() < 0.1:
            chance.choice(waiting).receiving.give_up()
        for asked in [asked for asked in waiting if asked.is_answered]:
            waiting.remove(asked)
            received += [payload for payloads in asked.found.values() for payload in payloads]
        if not waiting:
            continue
    await settle_down()
    for asked in waiting:
        asked.receiving.give_up()
        received += [payload for payloads in asked.found.values() for payload in payloads]
    assert (waiters(world), world.broker.several._waiting) == ({}, {})
    assert sum(stats.leased for stats in world.broker.stats().values()) == 0
    for topic in names:
        received += await world.drain(topic)
    assert sorted(received) == sorted(published)
