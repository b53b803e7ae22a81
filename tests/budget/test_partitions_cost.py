"""What a publish costs does not grow with the partitions of its topic: a commit looks at those that have changed."""

import sys
from collections.abc import Awaitable, Callable

import pytest

from miniqueue.core.options.publish import PublishOptions
from tests.broker.steady_loop import SteadyLoop
from tests.broker.support import World, run
from tests.budget.counting import counting
from tests.fakes import settle_down

FEW, MANY, PUBLISHES = 16, 512, 10
#: Where the oldest message gives way, it is looked for in all partitions: so many instructions for each.
LOOK_FOR_OLDEST = 70

#: Instructions for each partition of each other group of a topic that is changed.
MOST_FOR_CURSOR = 2

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budgets are for CPython 3.11")


def cost_of_publishing(partitions: int, **settings: object) -> float:
    costs: list[float] = []

    async def publish(world: World) -> None:
        for number in range(PUBLISHES):
            world.broker.publish_with(b"t", b"x", PublishOptions(key=b"%d" % number))
            await world.commit()

    async def body(world: World) -> None:
        await world.broker.admin.create(b"t", {"partitions": partitions, **settings}).wait()
        await publish(world)
        with counting() as counter:
            await publish(world)
        costs.append(counter.count / PUBLISHES)

    run(body, loop=SteadyLoop)
    return costs[0]


def test_a_publish_costs_the_same_however_many_partitions_there_are():
    assert cost_of_publishing(MANY) == pytest.approx(cost_of_publishing(FEW), rel=0.05)


def test_to_find_what_is_oldest_is_all_that_a_full_topic_of_many_partitions_costs():
    full = {"max_messages": PUBLISHES, "limit_policy": "drop-oldest"}
    more = cost_of_publishing(MANY, **full) - cost_of_publishing(FEW, **full)
    assert more <= LOOK_FOR_OLDEST * (MANY - FEW)


def cost_of(act: Callable[[World], Awaitable[object]], groups: int) -> int:
    """Return the cost of what is done to a topic with 256 partitions and some groups."""
    costs: list[int] = []

    async def body(world: World) -> None:
        await world.broker.admin.create(b"t", {"partitions": 256}).wait()
        for number in range(groups):
            await world.broker.groups.create(b"t", b"g%d" % number)
        with counting() as counter:
            await act(world)
            await settle_down()
        costs.append(counter.count)

    run(body, loop=SteadyLoop)
    return costs[0]


async def change_settings(world: World) -> None:
    await world.broker.admin.change(b"t", {"max_messages": 100}).wait()


async def measure_rates(world: World) -> None:
    world.broker.publish(b"t", [b"x"])
    await world.commit()
    await world.broker.inspect.rates.look(1.0)


async def create_group(world: World) -> None:
    await world.broker.groups.create(b"t", b"new")


@pytest.mark.parametrize("act", [change_settings, measure_rates, create_group])
def test_what_is_done_to_a_topic_costs_hardly_more_with_more_groups(act):
    """Each change of a topic looked at each partition of each group, with 100 instructions and more."""
    assert cost_of(act, 20) - cost_of(act, 10) <= 10 * 256 * MOST_FOR_CURSOR
