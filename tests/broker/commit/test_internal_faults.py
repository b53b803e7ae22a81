"""A bug in a task of the broker is logged in words, not in the syntax of Python."""

import asyncio

import pytest
from structlog.testing import capture_logs

from miniqueue.broker.commit.journal import Committer
from miniqueue.broker.runtime.tasks import Tasks
from miniqueue.errors import MiniqueueError, described


async def fail() -> None:
    raise ValueError("no such thing")


def test_the_kind_of_an_error_is_told_also_if_it_has_no_text():
    assert described(ValueError("no such thing")) == "ValueError: no such thing"
    assert described(ValueError()) == "ValueError"


async def run_a_task_that_dies(told: list[MiniqueueError]) -> None:
    tasks = Tasks(told.append)
    tasks.spawn(fail())
    for _ in range(3):  # it runs, ends, and is logged
        await asyncio.sleep(0)


async def test_a_task_that_dies_is_told_with_its_error():
    told: list[MiniqueueError] = []
    with capture_logs() as logs:
        await run_a_task_that_dies(told)
    assert [str(error) for error in told] == [line["error"] for line in logs] == ["ValueError: no such thing"]


async def commit(committer: Committer) -> None:
    committer.request()
    await committer.run()


async def test_a_commit_that_dies_is_told_with_its_error():
    def begin(_commit):
        raise ValueError("no such thing")

    told: list[MiniqueueError] = []
    with pytest.raises(ValueError, match="no such thing"):
        await commit_with(begin, told)
    assert {str(error) for error in told} == {"ValueError: no such thing"}


async def commit_with(begin, told: list[MiniqueueError]) -> None:
    await commit(Committer(begin, told.append))
