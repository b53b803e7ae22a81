"""Work whose result several callers share."""

import asyncio

import pytest

from miniqueue.broker.runtime.tasks import CURRENT_ACTOR, SharedResult
from tests.fakes import settle_down


class Work:
    """Counts its runs; the test ends each of them."""

    def __init__(self) -> None:
        self.count = 0
        self.ends: list[asyncio.Future[None]] = []

    async def __call__(self) -> int:
        self.count += 1
        number = self.count
        self.ends.append(asyncio.get_running_loop().create_future())
        await self.ends[-1]
        return number


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def shared():
    return SharedResult()


async def test_those_who_ask_while_it_runs_share_the_next_run(shared, work):
    first = asyncio.ensure_future(shared.get(work))
    await settle_down()
    others = [asyncio.ensure_future(shared.get(work)) for _ in range(5)]
    await settle_down()
    assert work.count == 1
    work.ends[0].set_result(None)
    await settle_down()
    assert await first == 1
    last = asyncio.ensure_future(shared.get(work))
    await settle_down()
    work.ends[1].set_result(None)
    await settle_down()
    assert [await other for other in others] == [2] * 5
    work.ends[2].set_result(None)
    assert await last == 3


async def test_it_runs_again_when_nothing_runs(shared, work):
    for number in (1, 2):
        asked = asyncio.ensure_future(shared.get(work))
        await settle_down()
        work.ends[-1].set_result(None)
        assert await asked == number


async def test_the_broker_works_for_all_whoever_asked_first(shared):
    async def actor() -> object:
        return CURRENT_ACTOR.get()

    CURRENT_ACTOR.set(b"ada")
    assert await asyncio.gather(shared.get(actor), shared.get(actor)) == [b"", b""]


async def test_an_error_reaches_all_who_asked_and_nobody_later(shared, work):
    first = asyncio.ensure_future(shared.get(work))
    await settle_down()
    work.ends[0].set_exception(KeyError("a"))
    with pytest.raises(KeyError):
        await first
    again = asyncio.ensure_future(shared.get(work))
    await settle_down()
    work.ends[1].set_result(None)
    assert await again == 2


async def test_it_goes_on_when_the_one_who_asked_first_has_gone(shared, work):
    first = asyncio.ensure_future(shared.get(work))
    await settle_down()
    other = asyncio.ensure_future(shared.get(work))
    await settle_down()
    first.cancel()
    await settle_down()
    work.ends[0].set_result(None)
    await settle_down()
    work.ends[1].set_result(None)
    assert await other == 2
