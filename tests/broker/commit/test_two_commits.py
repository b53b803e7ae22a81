"""A large commit begins beside the one under way: both are written and end in their order, and a fault ends both."""

import asyncio

import pytest

from miniqueue.broker.commit.journal import LARGE_BYTES
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import InternalError, OutcomeUnknownError, UnavailableError
from tests.broker.support import World, world_with
from tests.fakes import settle_down

LARGE = bytes(LARGE_BYTES)
LATER = PublishOptions(delay_seconds=60.0)
UNIQUE = PublishOptions(unique_key=b"k")


def hold(world: World) -> asyncio.Event:
    """Make the next write wait, and later ones until this is called again; return the event that lets them continue."""
    world.store.may_write = asyncio.Event()
    return world.store.may_write


async def under_way(world: World, *payloads: bytes, topic: bytes = b"t"):
    """Publish, and return the commit when it is under way."""
    write_count = world.store.write_count
    commit = world.broker.publish(topic, list(payloads)).commit
    await settle_down()
    assert world.store.write_count == write_count + 1
    return commit


async def test_a_large_commit_does_not_wait_for_the_one_under_way(world):
    may_write = hold(world)
    first = await under_way(world, b"a")
    second = await under_way(world, LARGE)
    assert not first.is_done
    may_write.set()
    await second.wait()
    assert first.is_done
    assert await world.drain(b"t") == [b"a", LARGE]


async def test_a_third_one_waits(world):
    may_write = hold(world)
    await under_way(world, b"a")
    await under_way(world, LARGE)
    third = world.broker.publish(b"t", [LARGE]).commit
    await settle_down()
    assert world.store.write_count == 2
    may_write.set()
    await third.wait()
    assert await world.drain(b"t") == [b"a", LARGE, LARGE]


async def test_a_third_one_that_is_large_begins_when_the_first_is_done(world):
    ends_first = hold(world)
    first = await under_way(world, b"a")
    ends_others = hold(world)
    second = await under_way(world, LARGE)
    world.broker.publish(b"t", [LARGE])
    ends_first.set()
    await settle_down()
    assert (first.is_done, second.is_done, world.store.write_count) == (True, False, 3)
    ends_others.set()


async def test_a_small_one_waits(world):
    may_write = hold(world)
    await under_way(world, b"a")
    second = world.broker.publish(b"t", [LARGE[1:]]).commit
    await settle_down()
    assert world.store.write_count == 1
    assert world.broker.publish(b"t", [b"b"]).commit is second
    await settle_down()
    assert world.store.write_count == 2
    may_write.set()


async def test_what_is_done_in_one_turn_is_in_one_commit_however_large(world):
    commits = {world.broker.publish(topic, [LARGE]).commit for topic in (b"t", b"u", b"t")}
    assert len(commits) == 1
    await settle_down()
    assert world.store.write_count == 1


async def test_messages_are_readable_when_their_own_commit_is_done(world):
    ends_first = hold(world)
    await under_way(world, b"a")
    ends_second = hold(world)
    await under_way(world, LARGE)
    ends_first.set()
    await settle_down()
    consumer = world.consumer(b"t")
    assert await consumer.drain_all() == [b"a"]
    ends_second.set()
    await settle_down()
    assert consumer.payloads == [b"a", LARGE]


@pytest.mark.parametrize("applies", [False, True])
async def test_when_the_first_fails_the_outcome_of_both_is_unknown(applies, world):
    world.store.fail_writes, world.store.applies_failed = {1}, applies
    may_write = hold(world)
    first = await under_way(world, b"a")
    second = await under_way(world, LARGE)
    third = world.broker.publish(b"t", [b"never written"]).commit
    may_write.set()
    for commit, error in ((first, OutcomeUnknownError), (second, OutcomeUnknownError), (third, UnavailableError)):
        with pytest.raises(error):
            await commit.wait()
    await settle_down()
    await world.publish(b"t", b"after")
    assert (await world.drain(b"t"))[-1] == b"after"


async def test_when_only_the_second_fails_the_first_was_written(world):
    world.store.fail_writes = {2}
    may_write = hold(world)
    first = await under_way(world, b"a")
    second = await under_way(world, LARGE)
    may_write.set()
    await first.wait()
    with pytest.raises(OutcomeUnknownError):
        await second.wait()
    await settle_down()
    assert await world.drain(b"t") == [b"a"]


async def test_a_bug_in_the_beginning_of_the_second_leaves_nobody_waiting(world):
    may_write = hold(world)
    await under_way(world, b"a")

    def fail(_commit: object) -> None:
        raise ZeroDivisionError

    world.broker._engine.journal.committer._begin = fail
    second = world.broker.publish(b"t", [LARGE]).commit
    await settle_down()
    may_write.set()
    with pytest.raises(UnavailableError):
        await second.wait()
    await settle_down()
    assert isinstance(world.broker.failed.result(), InternalError)


async def test_nothing_is_written_behind_a_commit_that_could_not_begin(world):
    """A third one was, without what the second had taken: what had been acknowledged in front was not handed out."""
    may_write = hold(world)
    await under_way(world, b"a")
    begin = world.broker._engine.journal.committer._begin

    def fail_once(_commit: object) -> None:
        world.broker._engine.journal.committer._begin = begin
        raise MemoryError

    world.broker._engine.journal.committer._begin = fail_once
    second = world.broker.publish(b"t", [LARGE]).commit
    await settle_down()
    assert isinstance(second.error, OutcomeUnknownError)
    with pytest.raises(UnavailableError):
        world.broker.publish(b"t", [LARGE])
    may_write.set()
    await settle_down()
    assert isinstance(world.broker.failed.result(), InternalError)
    assert world.store.write_count == 1


async def test_delayed_messages_are_counted_when_their_own_commit_is_done(world):
    def delayed_count() -> int:
        return world.broker.stats()[b"t"].delayed

    await world.publish(b"t", b"made")
    ends_first = hold(world)
    world.broker.publish_with(b"t", b"a", LATER)
    await settle_down()
    ends_second = hold(world)
    world.broker.publish_with(b"t", b"b", LATER)
    await under_way(world, LARGE)
    assert delayed_count() == 0
    ends_first.set()
    await settle_down()
    assert delayed_count() == 1
    ends_second.set()
    await settle_down()
    assert delayed_count() == 2


async def test_a_unique_key_is_known_while_its_commit_is_the_first_of_two_under_way(world):
    may_write = hold(world)
    first = world.broker.publish_with(b"t", b"a", UNIQUE)
    await settle_down()
    await under_way(world, LARGE)
    again = world.broker.publish_with(b"t", b"b", UNIQUE)
    assert (again.message_id, again.is_duplicate) == (first.message_id, True)
    assert not again.commit.is_done
    may_write.set()
    await again.commit.wait()
    assert first.commit.is_done


@world_with(limits=BrokerLimits(max_uncommitted_bytes=2 * LARGE_BYTES))
async def test_all_that_waits_for_commits_counts_as_uncommitted(world):
    may_write = hold(world)
    await under_way(world, b"a")
    await under_way(world, LARGE)
    assert not world.broker.backpressure.must_wait
    world.broker.publish(b"t", [LARGE[1:]])
    assert not world.broker.backpressure.must_wait
    world.broker.publish(b"t", [b"b"])
    assert world.broker.backpressure.must_wait
    may_write.set()
    await settle_down()
    assert not world.broker.backpressure.must_wait


async def test_what_is_prepared_waits_for_both(world):
    """Else it would look at a store that lacks what is under way."""
    may_write = hold(world)
    first = await under_way(world, b"a")
    second = await under_way(world, LARGE)
    done: list[bool] = []

    async def prepare() -> None:
        done.extend((first.is_done, second.is_done))

    world.broker._engine.events.before_commit = prepare
    world.broker._engine.journal.committer.must_prepare = True
    third = world.broker.publish(b"t", [LARGE]).commit
    await settle_down()
    may_write.set()
    await third.wait()
    assert done == [True, True]


async def test_a_stop_waits_for_both(world):
    may_write = hold(world)
    commits = [await under_way(world, b"a"), await under_way(world, LARGE)]
    stopping = asyncio.create_task(world.broker.stop())
    await settle_down()
    assert not stopping.done()
    may_write.set()
    await stopping
    assert all(commit.is_done and commit.error is None for commit in commits)
    await world.start()
    assert await world.drain(b"t") == [b"a", LARGE]


async def test_a_sync_asked_for_during_a_commit_is_made_behind_the_next(world):
    """It was made behind the one under way, so that the last commit before a stop was not synced in other modes."""
    writes_when_synced: list[int] = []

    async def sync() -> None:
        writes_when_synced.append(world.store.write_count)

    world.store.sync = sync
    may_write = hold(world)
    await under_way(world, b"a")
    last = world.broker.publish(b"t", [b"b"]).commit
    draining = asyncio.create_task(world.broker._engine.journal.drain())
    await settle_down()
    may_write.set()
    await draining
    assert last.is_done
    assert writes_when_synced == [2]
