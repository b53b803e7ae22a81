"""Who is in a commit: those who come while others of its company still do, for a while."""

import asyncio
from collections.abc import Callable

from miniqueue.broker.commit.journal import GATHER_SECONDS, GATHER_TURNS, Commit, Committer, Ending


def listen(commit: Commit) -> None:
    commit.add_listener(lambda: None)


def sizes_of_commits(
    turns: list[int],
    clock: Callable[[], float] = lambda: 0.0,
    *,
    have_many: bool = False,
    join: Callable[[Commit], object] = listen,
) -> list[int]:
    """Publish in each of these iterations of the loop; return the number of messages in each commit."""
    sizes: list[int] = []
    joined: list[object] = []

    def begin(commit: Commit) -> Ending:
        sizes.append(commit.company_count)

        async def end() -> None:
            commit.finish()

        return end

    async def come_and_wait() -> None:
        committer = Committer(begin, broken=lambda error: None, clock=clock)
        running = asyncio.create_task(committer.run())
        for turn in range(max(turns) + 10 * GATHER_TURNS):
            for _ in range(turns.count(turn)):
                joined.append(join(committer.open))
                committer.open.has_many = have_many
                committer.request()
            await asyncio.sleep(0)
        running.cancel()

    asyncio.run(come_and_wait())
    return sizes


def test_who_comes_while_others_still_do_is_in_their_commit():
    assert sizes_of_commits([0, 3, 6, 9, 12, 15], clock=lambda: 0.0) == [6]


def test_who_comes_when_nobody_came_for_some_turns_is_in_the_next_commit():
    assert sizes_of_commits([0, 3, 6 + 3 * GATHER_TURNS], clock=lambda: 0.0) == [2, 1]


def test_one_alone_is_not_kept_waiting():
    assert sizes_of_commits([0, GATHER_TURNS + 1], clock=lambda: 0.0) == [1, 1]


def test_who_was_first_does_not_wait_for_long():
    times = iter(range(1000))
    turns = list(range(3 * GATHER_TURNS))
    sizes = sizes_of_commits(turns, clock=lambda: next(times) * GATHER_SECONDS)
    assert sum(sizes) == len(turns)
    assert max(sizes) <= GATHER_TURNS + 1


def test_nobody_is_waited_for_where_many_messages_are_there():
    turns = [0, 1, GATHER_TURNS + 2]
    assert sizes_of_commits(turns, clock=lambda: 0.0, have_many=True) == [2, 1]
    assert sizes_of_commits(turns, clock=lambda: 0.0) == [3]


def test_who_awaits_the_commit_is_company_like_who_listens():
    def wait(commit: Commit) -> object:
        return asyncio.ensure_future(commit.wait())

    assert sizes_of_commits([0, 3, 6, 9, 12, 15], join=wait) == [6]


def test_nobody_is_waited_for_when_as_many_are_there_as_before():
    late = 80 + GATHER_TURNS + 2
    assert sizes_of_commits([0, 0, 40, 40, 80, 80, late]) == [2, 2, 2, 1]
    assert sizes_of_commits([0, 0, 0, 40, 40, 80, 80, late]) == [3, 2, 3]
