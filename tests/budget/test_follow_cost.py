"""What a copy that follows may cost the broker, in bytecode instructions: little for a request, almost nothing for each
commit between two requests, and the same however much is kept.

That is a twentieth of a publish at most: one of 100 bytes whose client waits for the reply costs 1,700 instructions.
"""

import sys

import pytest

from miniqueue.storage.leveldb.history import History
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.budget.counting import counting

COMMITS = 500
#: Instructions to note that a commit is in the same log as the one before; for a commit that is sent, with others; for
#: a request. CPython 3.11: other versions compile to others.
NOTED, SENT, ASKED = 35, 62, 940
#: Logs that are kept, of 32 MiB if the broker is busy: far more than there can be.
MANY_LOGS = 1000

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budgets are for CPython 3.11")


async def written(directory) -> tuple[int, int]:
    """Write commits, as publishes of 100 bytes do; return the numbers of the last changes of the first and the last."""
    store = await LevelDBStore.open(directory)
    changes = []
    for number in range(COMMITS + 1):
        await store.write({b"chunk %d" % number: bytes(150), b"next": b"%d" % number})
        changes.append(store.last_change)
    await store.close()
    return changes[0], changes[-1]


def cost_of_request(history: History, first: int, last: int) -> int:
    position = history.position_at(first)
    with counting() as counter:
        writes = history.after(position, last, 1 << 20)
    assert writes.position.change == last
    return counter.count


async def test_a_commit_costs_next_to_nothing_more_if_it_is_sent_to_a_copy(tmp_path):
    first, last = await written(tmp_path / "s")
    history = History(tmp_path / "s")
    history.keep()
    many = cost_of_request(history, first, last)
    one = cost_of_request(history, last - 2, last)
    assert (many - one) / COMMITS < SENT
    assert one < ASKED
    log = int(next((tmp_path / "s" / "db").glob("*.log")).stem)
    with counting() as counter:
        history.follow(log)
    assert counter.count < NOTED


async def test_what_is_kept_makes_no_request_and_no_new_log_cost_more(tmp_path):
    first, last = await written(tmp_path / "s")
    costs = []
    for count in (1, MANY_LOGS):
        history = History(tmp_path / "s", max_bytes=1 << 40)
        history.keep()
        newest = max(int(path.stem) for path in (tmp_path / "s" / "recent").glob("*.log"))
        for log in range(newest + 1, newest + count):
            (tmp_path / "s" / "db" / f"{log:06d}.log").touch()
            history.follow(log)
        with counting() as counter:
            history.follow(newest + count)
        costs.append((cost_of_request(history, first, last), counter.count))
    (request, new_log), (late_request, late_new_log) = costs
    assert late_request < request + 10
    assert late_new_log < new_log + 20 * MANY_LOGS
