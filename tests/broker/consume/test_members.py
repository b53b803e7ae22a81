"""Members of a group: each reads partitions of its own, in order, also while others come and go."""

import asyncio
from functools import partial
from itertools import chain

import pytest

from miniqueue.broker.consume.members import LOOK_SECONDS
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import LimitReachedError
from miniqueue.errors.requests import InvalidMemberError, MembersOnlyError, NoMembersError
from tests.broker.support import World, started_world
from tests.fakes import settle_down


class Reader:
    """A stream of a member that keeps what it is handed."""

    def __init__(self, world: World, name: bytes, prefetch: int = 1, group: bytes = b"default") -> None:
        self.leases: list = []
        self.consumer = world.broker.consumer(b"t", self.leases.extend, self.leases.append, prefetch, group, name)
        self.consumer.request()

    @property
    def payloads(self) -> list[bytes]:
        return [payload for lease in self.leases for payload in lease.payloads]

    def settle(self) -> None:
        """Acknowledge what it holds, one at a time, and all that comes then."""
        while not self.consumer.is_waiting:
            self.consumer.ack()
            self.consumer.refill()


async def members_of(world: World, group: bytes = b"default") -> dict[bytes, list[int]]:
    await settle_down()
    return (await world.broker.groups.figures_of(b"t", group)).members


async def moving_of(world: World) -> dict[int, bytes]:
    return (await world.broker.groups.figures_of(b"t", b"default")).moving


async def create(world: World, partitions: int, **settings: object) -> None:
    await world.broker.admin.create(b"t", {"partitions": partitions, **settings}).wait()


async def fill(world: World, count: int, partitions: int) -> None:
    """Publish `count` numbered messages to each partition."""
    for number in range(count):
        for partition in range(partitions):
            world.broker.publish(b"t", [b"%d-%d" % (partition, number)], None, partition)
        await world.commit()


async def wait_for_move() -> None:
    for _ in range(3):
        await asyncio.sleep(LOOK_SECONDS)
    await settle_down()


async def test_partitions_are_shared_out_evenly_and_few_move(world):
    await create(world, 8)
    one = Reader(world, b"a")
    assert await members_of(world) == {b"a": [0, 1, 2, 3, 4, 5, 6, 7]}
    two = Reader(world, b"b")
    assert await members_of(world) == {b"a": [0, 1, 2, 3], b"b": [4, 5, 6, 7]}
    three = Reader(world, b"c")
    assert await members_of(world) == {b"a": [0, 1, 2], b"b": [4, 5, 6], b"c": [3, 7]}
    one.consumer.close()
    assert await members_of(world) == {b"b": [0, 4, 5, 6], b"c": [1, 2, 3, 7]}
    two.consumer.close()
    three.consumer.close()
    assert await members_of(world) == {}


async def test_each_partition_is_read_by_one_member_in_order(world):
    await create(world, 4)
    await fill(world, 5, 4)
    readers = [Reader(world, name) for name in (b"a", b"b")]
    readers[0].settle()
    await wait_for_move()
    for reader in readers:
        reader.settle()
    await settle_down()
    for reader in readers:
        reader.settle()
    seen = readers[0].payloads, readers[1].payloads
    assert sorted(seen[0] + seen[1]) == sorted(b"%d-%d" % (p, n) for p in range(4) for n in range(5))
    for partition in range(4):
        for payloads in seen:
            own = [payload for payload in payloads if payload.startswith(b"%d-" % partition)]
            assert own == sorted(own)


async def test_a_partition_moves_when_what_its_last_member_holds_is_settled_and_others_go_on(world):
    await create(world, 2)
    await fill(world, 2, 2)
    one = Reader(world, b"a", prefetch=2)
    assert one.payloads == [b"0-0", b"1-0"]
    two = Reader(world, b"b")
    assert await moving_of(world) == {1: b"b"}
    assert await members_of(world) == {b"a": [0], b"b": []}
    one.consumer.ack([one.leases[0].receipt])
    one.consumer.refill()
    assert one.payloads == [b"0-0", b"1-0", b"0-1"]
    assert two.payloads == []
    one.consumer.ack([one.leases[1].receipt])
    await wait_for_move()
    assert await members_of(world) == {b"a": [0], b"b": [1]}
    assert two.payloads == [b"1-1"]


async def test_what_is_not_settled_in_time_returns_counted_and_goes_to_the_next_member_first(world):
    await create(world, 2, handover_seconds=5)
    await fill(world, 2, 2)
    one = Reader(world, b"a", prefetch=3)
    assert one.payloads == [b"0-0", b"1-0", b"0-1"]
    two = Reader(world, b"b")
    world.clock.advance(4.9)
    await wait_for_move()
    assert two.payloads == []
    world.clock.advance(0.2)
    await wait_for_move()
    assert two.payloads == [b"1-0"]
    assert two.leases[0].counts.timeouts == 1
    with pytest.raises(Exception, match="1 of 1 receipts"):
        one.consumer.ack([one.leases[1].receipt])
    one.consumer.ack([one.leases[0].receipt])
    two.settle()
    assert two.payloads == [b"1-0", b"1-1"]


async def test_a_member_that_is_cut_off_leaves_its_messages_to_the_others(world):
    await create(world, 2)
    one, two = Reader(world, b"a"), Reader(world, b"b")
    await fill(world, 2, 2)
    await settle_down()
    assert (one.payloads, two.payloads) == ([b"0-0"], [b"1-0"])
    one.consumer.close()
    await settle_down()
    two.settle()
    assert sorted(two.payloads) == [b"0-0", b"0-1", b"1-0", b"1-1"]
    assert [payload for payload in two.payloads if payload.startswith(b"0")] == [b"0-0", b"0-1"]


async def receive(world: World, member: bytes, count: int = 10) -> list[bytes]:
    answer = asyncio.get_running_loop().create_future()
    options = ReceiveOptions(count, member=member)
    world.broker.leases.receive(b"t", options, answer.set_result, answer.set_exception)
    received = await answer
    return [
        (b"%b%d" % (received.prefix, receipt), payload)
        for _, lease in received.leases
        for receipt, payload in enumerate(lease.payloads, lease.receipt)
    ]


async def test_a_member_that_receives_is_there_until_its_session_is_over(world):
    await create(world, 2, session_seconds=3, handover_seconds=0.5)
    await fill(world, 3, 2)
    first = await receive(world, b"a", 1)
    assert await members_of(world) == {b"a": [0, 1]}
    await receive(world, b"b")
    assert await members_of(world) == {b"a": [0], b"b": [1]}
    world.clock.advance(2)
    assert world.broker.leases.ack(b"t", [first[0][0]]) == [True]
    world.clock.advance(2)
    world.broker.tick()
    assert sorted(await members_of(world)) == [b"a"]
    world.clock.advance(0.5)  # what the other had leased returns
    await wait_for_move()
    assert await members_of(world) == {b"a": [0, 1]}
    world.clock.advance(3)
    world.broker.tick()
    assert await members_of(world) == {}


async def test_what_a_dead_receiver_has_leased_comes_again_when_its_partition_has_moved(world):
    await create(world, 1, session_seconds=3, handover_seconds=1)
    await world.publish(b"t", b"x")
    ((receipt, _),) = await receive(world, b"a")
    world.clock.advance(3)
    world.broker.tick()
    two = Reader(world, b"b")
    world.clock.advance(1)
    await wait_for_move()
    assert two.payloads == [b"x"]
    assert two.leases[0].counts.timeouts == 1
    assert world.broker.leases.ack(b"t", [receipt]) == [False]


async def test_members_and_others_do_not_mix(world):
    await create(world, 2)
    member = Reader(world, b"a")
    with pytest.raises(MembersOnlyError):
        world.consumer(b"t")
    with pytest.raises(MembersOnlyError):
        await receive(world, b"")
    member.consumer.close()
    plain = world.consumer(b"t")
    with pytest.raises(NoMembersError):
        Reader(world, b"a")
    plain.consumer.close()
    other = Reader(world, b"a", group=b"other")
    await settle_down()
    assert await members_of(world, b"other") == {b"a": [0, 1]}
    other.consumer.close()
    with pytest.raises(InvalidMemberError):
        Reader(world, b"a b")


async def test_a_name_may_have_many_consumers_that_compete(world):
    await create(world, 2)
    readers = [Reader(world, b"a"), Reader(world, b"a")]
    assert await members_of(world) == {b"a": [0, 1]}
    await fill(world, 1, 2)
    await settle_down()
    assert sorted(readers[0].payloads + readers[1].payloads) == [b"0-0", b"1-0"]
    readers[0].consumer.close()
    assert await members_of(world) == {b"a": [0, 1]}


async def test_members_wait_for_a_topic_that_does_not_exist_and_keep_their_partitions_in_a_fault(world):
    readers = [Reader(world, b"a"), Reader(world, b"b")]
    await create(world, 4)
    before = await members_of(world)
    assert before == {b"a": [0, 1], b"b": [2, 3]}
    world.store.fail_writes.add(world.store.write_count + 1)
    with pytest.raises(Exception, match="may or may not"):
        await world.publish(b"t", b"lost")
    await settle_down()
    await fill(world, 1, 4)
    assert await members_of(world) == before
    for reader in readers:
        reader.settle()
    assert sorted(readers[0].payloads + readers[1].payloads) == [b"0-0", b"1-0", b"2-0", b"3-0"]


async def test_a_topic_that_is_deleted_while_a_partition_moves_has_nothing_to_wait_for(world):
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    await create(world, 2, handover_seconds=60)
    await fill(world, 2, 2)
    first = Reader(world, b"first", prefetch=4)
    Reader(world, b"second")
    await settle_down()
    assert len(first.payloads) == 4
    assert len(await moving_of(world)) == 1
    await world.broker.delete_topic(b"t")
    await wait_for_move()
    await create(world, 2)
    assert sorted(map(len, (await members_of(world)).values())) == [1, 1]
    assert faults == []


async def test_partitions_that_are_added_go_to_who_has_fewest(world):
    await create(world, 2)
    readers = [Reader(world, b"a"), Reader(world, b"b"), Reader(world, b"c")]
    assert await members_of(world) == {b"a": [0], b"b": [1], b"c": []}
    await world.broker.admin.change(b"t", {"partitions": 6}).wait()
    after = await members_of(world)
    assert {name: len(numbers) for name, numbers in after.items()} == {b"a": 2, b"b": 2, b"c": 2}
    assert 0 in after[b"a"]
    assert 1 in after[b"b"]
    await fill(world, 1, 6)
    for reader in readers:
        reader.settle()
    assert sum(len(reader.payloads) for reader in readers) == 6


async def test_there_are_not_too_many_members(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.consume.members.MAX_MEMBERS", 2)

    async with started_world() as world:
        await create(world, 2)
        one = Reader(world, b"a")
        Reader(world, b"b")
        Reader(world, b"b")
        with pytest.raises(LimitReachedError, match="members"):
            Reader(world, b"c")
        assert sorted(await members_of(world)) == [b"a", b"b"]
        one.consumer.close()
        Reader(world, b"c")
        assert sorted(await members_of(world)) == [b"b", b"c"]


@pytest.mark.parametrize("is_lane", [False, True], ids=["partition", "lane"])
async def test_who_works_goes_on_when_there_is_one_more(is_lane, world):
    await create(world, 2)
    readers = [Reader(world, b"a"), Reader(world, b"b")]
    before = await members_of(world)
    await fill(world, 3, 2)
    assert [reader.payloads for reader in readers] == [[b"0-0"], [b"1-0"]]
    if is_lane:
        world.broker.publish_with(b"t", b"high", PublishOptions(key=b"k", priority=Priority.HIGH))
        await world.commit()
    else:
        await world.broker.admin.change(b"t", {"partitions": 3}).wait()
    assert await moving_of(world) == {}
    after = await members_of(world)
    assert all({*before[name]} <= {*after[name]} for name in before)
    world.clock.advance(5)
    await wait_for_move()
    for reader in readers:
        reader.settle()
    payloads = readers[0].payloads + readers[1].payloads
    assert len(payloads) == len({*payloads}) == 6 + is_lane  # nothing came twice


async def test_a_key_is_in_order_through_rebalances(world):
    await create(world, 4, handover_seconds=0)
    keys = [b"key-%d" % number for number in range(12)]
    for number in range(10):
        for key in keys:
            world.broker.publish_with(b"t", b"%b %d" % (key, number), PublishOptions(key=key))
        await world.commit()
    seen: list[bytes] = []
    readers: dict[bytes, Reader] = {}
    for turn in range(60):
        name = b"m%d" % (turn % 5)
        if turn % 3 == 0:
            if name in readers:
                readers.pop(name).consumer.close()
            else:
                readers[name] = Reader(world, name)
            await wait_for_move()
        for reader in readers.values():
            if not reader.consumer.is_waiting:
                payload = reader.payloads[-1]
                try:
                    reader.consumer.ack()
                except Exception:
                    continue
                finally:
                    reader.consumer.refill()
                seen.append(payload)
    for reader in readers.values():
        reader.consumer.close()
    await settle_down()
    rest = await world.drain(b"t")
    by_key: dict[bytes, list[int]] = {}
    for payload in seen + rest:
        key, number = payload.split()
        by_key.setdefault(key, []).append(int(number))
    assert by_key == {key: list(range(10)) for key in keys}


async def test_all_members_of_a_topic_with_as_many_partitions_as_one_may_have_get_their_messages(world):
    await world.broker.admin.carry_out(partial(world.broker.admin.create, b"wide", {"partitions": MAX_PARTITIONS}))
    had: dict[bytes, list[bytes]] = {name: [] for name in (b"a", b"b", b"c")}

    def keep(name: bytes, leases) -> None:
        had[name].extend(payload for lease in leases for payload in lease.payloads)

    consumers = [world.broker.consumer(b"wide", partial(keep, name), pytest.fail, 100, member=name) for name in had]
    for consumer in consumers:
        consumer.request()
    await settle_down()
    for number in range(60):
        world.broker.publish_with(b"wide", b"%d" % number, PublishOptions(key=b"%d" % number))
        await world.commit()
        await settle_down()
    assert sorted(map(int, chain(*had.values()))) == [*range(60)]
    assert all(had.values())
    for consumer in consumers:
        consumer.close()
