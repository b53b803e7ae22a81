"""A disk that fails, is slow, or may not be written to: faults in the system calls of a real broker, and limits."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.process import Trust
from tests.durability.disk import strace
from tests.durability.disk.broker import DiskBroker, limited
from tests.durability.disk.disk_sweep import Sweeper

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

FEW = 20
BALLAST_BYTES = 1 << 20
SLOW_COMMITS = 6
SLOW_SECONDS = 0.5
#: Of the PINGs of other connections at the same time one for each commit would take longer, if they had to wait for it.
LONG_PING_SECONDS = 0.35


@pytest.fixture
def broker(tmp_path: Path, trust: Trust) -> Iterator[DiskBroker]:
    """A broker that has acknowledged some messages already."""
    broker = DiskBroker(tmp_path, trust, tmp_path / "data", ["-ballast", str(BALLAST_BYTES)]).start()
    try:
        publish(broker, FEW)
        yield broker
    finally:
        broker.end()


def publish(broker: DiskBroker, count: int) -> None:
    connection = broker.connect()
    assert [broker.publish(connection) for _ in range(count)] == ["OK"] * count
    connection.close()


#: A taste of `disk_sweep`, which tries every n.
SWEPT = [
    ("running", "fdatasync", 3),
    ("running", "write", 6),
    ("starting", "rename", 1),
    ("starting", "write", 3),
]


@pytest.mark.parametrize(("moment", "call", "n"), SWEPT)
def test_nothing_acknowledged_is_missing_after_the_nth_call_failed(tmp_path, trust, moment, call, n):
    with closing(Sweeper(tmp_path, trust)) as sweeper:
        assert sweeper.round(moment, call, n, Counter()) > 0


@pytest.mark.parametrize(
    ("calls", "fault", "word"),
    [
        ("fdatasync", "error=EIO", "READONLY"),
        ("write", "error=ENOSPC", "FULL"),
        ("pwrite64", "error=EIO", "READONLY"),  # writes the mark of the last acknowledged commit, and nothing else
    ],
)
def test_publishes_are_refused_for_as_long_as_the_disk_fails(broker, tmp_path, calls, fault, word):
    connection = broker.connect()
    paths = strace.files_of(broker.database)
    with strace.failing(broker.pid, calls, fault, "1+", tmp_path / "strace.txt", paths):
        assert [broker.publish(connection) for _ in range(5)] == ["UNKNOWN", *[word] * 4]
        broker.wait_until(lambda: broker.running.output.count("cannot be reopened") > 0)
        assert broker.publish(connection) == word
        assert len(broker.readiness()) == 1
        assert connection.ask(b"PING") == b"PONG"
    broker.wait_until_ready()
    publish(broker, FEW)
    broker.settle_accounts()


def test_others_do_not_wait_for_a_slow_disk(tmp_path, trust):
    """A loop that waited would delay a PING at each of the commits; a busy machine can delay some."""
    broker = DiskBroker(tmp_path, trust, tmp_path / "data", ["-ballast", str(BALLAST_BYTES)])
    slow = strace.starting("fdatasync", f"delay_exit={SLOW_SECONDS * 1e6:.0f}", "8+", tmp_path / "strace.txt", [])
    try:
        broker.launch(*slow).wait_until_ready()
        publish(broker, 8)
        assert sum(ping > LONG_PING_SECONDS for ping in pings_beside(broker, SLOW_COMMITS)) <= SLOW_COMMITS // 2
        assert broker.replies == {"OK": 8 + SLOW_COMMITS}
        assert strace.hit_count(tmp_path / "strace.txt") >= SLOW_COMMITS
        broker.settle_accounts()
    finally:
        broker.end()


def pings_beside(broker: DiskBroker, count: int) -> list[float]:
    """Return how long each PING took while messages were published one after the other, in seconds."""
    publishing, pinging = broker.connect(), broker.connect()
    publisher = threading.Thread(target=lambda: [broker.publish(publishing) for _ in range(count)])
    publisher.start()
    pings = []
    while publisher.is_alive():
        begun = time.perf_counter()
        assert pinging.ask(b"PING") == b"PONG"
        pings.append(time.perf_counter() - begun)
    publisher.join()
    return pings


def test_without_file_descriptors_publishes_are_refused_until_there_are_some(broker):
    connection = broker.connect()
    assert connection.ask(b"PING") == b"PONG"  # it has been accepted
    with limited(broker.pid, "nofile", 0):
        broker.publish_until(connection, "READONLY")  # a new log needs a descriptor
        assert connection.ask(b"PING") == b"PONG"
    broker.wait_until_ready()
    publish(broker, FEW)
    broker.settle_accounts()


def test_where_files_may_not_grow_publishes_are_refused_until_they_may(broker):
    connection = broker.connect()
    with limited(broker.pid, "fsize", 100):
        broker.publish_until(connection, "READONLY")
        assert broker.readiness() == ["The store failed; publishing is refused until it has been reopened and checked"]
    broker.wait_until_ready()
    publish(broker, FEW)
    broker.settle_accounts()
