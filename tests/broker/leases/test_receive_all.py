"""A request for messages gets as many as it asks for of those that are ready, wherever they lie."""

import asyncio

import pytest

from miniqueue.broker.leases import receive
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from tests.broker.support import World, started_world
from tests.fakes import settle_down
from tests.serving import eventually

T = b"t"
COUNT = 40


class Asked:
    """One request, and what came of it."""

    def __init__(self, world: World, count: int = COUNT, **options: object) -> None:
        self.answers: list = []
        self.errors: list = []
        wanted = ReceiveOptions(max_count=count, **options)
        self.receiving = world.broker.leases.receive(T, wanted, self.answers.append, self.errors.append)

    @property
    def is_answered(self) -> bool:
        assert len(self.answers) + len(self.errors) <= 1
        return bool(self.answers or self.errors)

    @property
    def payloads(self) -> list[bytes]:
        assert not self.errors
        return [payload for _, lease in self.answers[0].leases for payload in lease.payloads]

    @property
    def receipts(self) -> list[bytes]:
        prefix, leases = self.answers[0]
        return [b"%b%d" % (prefix, lease.receipt + n) for _, lease in leases for n in range(lease.count)]


async def received(world: World, count: int = COUNT, **options: object) -> list[bytes]:
    """Return what a request gets that does not wait for new messages."""
    asked = Asked(world, count, **options)
    await eventually(lambda: asked.is_answered)
    return asked.payloads


async def create(world: World, **settings: object) -> None:
    await world.broker.admin.create(T, settings).wait()


async def fill(world: World, partitions: int = 8, count: int = COUNT) -> list[bytes]:
    """Publish to partitions by turns, a commit each; return the payloads."""
    payloads = [b"%d" % number for number in range(count)]
    for number, payload in enumerate(payloads):
        await world.broker.publish(T, [payload], None, number % partitions).commit.wait()
    return payloads


@pytest.mark.parametrize("options", [{}, {"group": b"g"}, {"is_acked": True}, {"group": b"g", "member": b"m"}])
async def test_first_receive_after_a_restart_gets_what_all_partitions_have(options, world):
    await create(world, partitions=8)
    if group := options.get("group"):
        await world.broker.groups.create(T, group)
    payloads = await fill(world)
    await world.restart()
    assert sorted(await received(world, **options)) == sorted(payloads)


async def test_first_use_of_a_group_gets_what_all_partitions_have(world):
    await create(world, partitions=8)
    payloads = await fill(world)
    assert sorted(await received(world, group=b"new")) == sorted(payloads)


@pytest.mark.parametrize("settings", [{"ordered": True}, {"fair": True}, {"ordered": True, "partitions": 8}])
async def test_first_receive_of_keyed_messages_gets_them_all(settings, world):
    await create(world, **settings)
    payloads = [b"%d" % number for number in range(COUNT)]
    for payload in payloads:
        options = PublishOptions(key=b"key-%b" % payload)
        await world.broker.publish_with(T, payload, options).commit.wait()
    await world.restart()
    assert sorted(await received(world)) == sorted(payloads)


async def test_first_receive_of_all_priorities_gets_them_all(world):
    await create(world, partitions=2)
    for number in range(COUNT):
        options = PublishOptions(priority=[*Priority][number % 3])
        await world.broker.publish_with(T, b"%d" % number, options).commit.wait()
    await world.restart()
    payloads = await received(world)
    assert sorted(payloads) == sorted(b"%d" % number for number in range(COUNT))


async def test_what_came_back_and_what_is_in_the_log_is_received_together(world):
    await create(world, partitions=2)
    payloads = await fill(world, 2, 10)
    first = Asked(world, 4)
    world.broker.leases.nack(T, first.receipts)
    await world.commit()
    await world.restart()
    assert sorted(await received(world)) == sorted(payloads)


async def test_large_messages_are_received_over_several_reads(world):
    payloads = [b"%d" % number * 300_000 for number in range(9)]
    for payload in payloads:
        await world.publish(T, payload)
    await world.restart()
    assert await received(world) == payloads


async def test_who_asks_first_gets_all_that_it_asks_for(world):
    await create(world, partitions=8)
    await fill(world)
    await world.restart()
    first, second = Asked(world, 30, wait_seconds=60.0), Asked(world, 30, wait_seconds=60.0)
    await eventually(lambda: first.is_answered and second.is_answered)
    assert (len(first.payloads), len(second.payloads)) == (30, 10)


async def test_receive_does_not_wait_for_what_it_cannot_have(world):
    await create(world, partitions=8, max_concurrency=3)
    await fill(world)
    await world.restart()
    assert len(await received(world, wait_seconds=60.0)) == 3


async def test_receive_does_not_wait_for_what_is_only_read_ahead(world):
    for _ in range(3):
        await world.publish(T, *[b"x" * 1000] * 1000)
    await world.restart()
    assert len(await received(world, 10)) == 10
    await settle_down()
    world.store.may_scan.clear()
    assert len(await received(world, 10)) == 10
    world.store.may_scan.set()


async def half_received(world: World, **options: object) -> Asked:
    """Return a request that has some of its messages, and waits for others to be read."""
    await create(world, partitions=2)
    await fill(world, 2, 10)
    await world.restart()
    asked = Asked(world, wait_seconds=60.0, **options)
    while not world.broker.stats()[T].leased:  # noqa: ASYNC110 - the loader brings it about
        await asyncio.sleep(0)
    world.store.may_scan.clear()
    await settle_down()
    assert not asked.is_answered
    return asked


@pytest.mark.parametrize("is_acked", [False, True])
async def test_who_gives_up_half_way_leaves_everything(is_acked, world):
    asked = await half_received(world, is_acked=is_acked)
    asked.receiving.give_up()
    world.store.may_scan.set()
    assert asked.payloads == []
    assert len(await received(world)) == 10


async def test_who_is_gone_half_way_leaves_everything(world):
    asked = await half_received(world)
    asked.receiving.take_back()
    world.store.may_scan.set()
    assert len(await received(world)) == 10


async def test_receive_answers_with_what_it_has_if_the_rest_cannot_be_read(world):
    asked = await half_received(world)
    world.store.fail_scans = {*range(world.store.scan_count, world.store.scan_count + 2)}
    world.store.may_scan.set()
    await eventually(lambda: asked.is_answered)
    assert len(asked.payloads) == 5
    world.store.fail_scans = set()
    assert world.broker.leases.ack(T, asked.receipts) == [True] * 5
    assert len(await received(world)) == 5


@pytest.mark.parametrize("is_acked", [False, True])
async def test_what_is_deleted_half_way_is_not_received(is_acked, world):
    asked = await half_received(world, is_acked=is_acked)
    await world.broker.delete_topic(T)
    world.store.may_scan.set()
    await settle_down()
    assert not asked.is_answered
    await world.publish(T, b"new")
    await eventually(lambda: asked.is_answered)
    assert asked.payloads == [b"new"]


async def test_what_is_not_read_for_long_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(receive, "MAX_LOADING_SECONDS", 0.01)

    async with started_world() as world:
        asked = await half_received(world)
        await eventually(lambda: asked.is_answered)
        assert len(asked.payloads) == 5
        world.store.may_scan.set()
