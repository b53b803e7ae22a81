"""A disk that fills up, on a small tmpfs: publishes are refused, all else goes on, and nothing acknowledged is lost."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.process import Trust
from tests.durability.disk.broker import DiskBroker

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

DISK_BYTES = 48 << 20
#: The disk is looked at five times a second, and one publisher writes some 4 MB in that time; on a fast machine more.
MARK = ("-min-free", "32MiB", "-ballast", "1MiB")
BALLAST_ONLY = ("-min-free", "0", "-ballast", "1MiB")
NO_RESERVE = ("-min-free", "0", "-ballast", "0")

#: Makes a broker whose store is on the small disk; arguments: its flags.
MakeBroker = Callable[..., DiskBroker]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB; needs the right to mount."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "none", str(directory)]
    if (done := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.fixture
def make_broker(disk: Path, tmp_path: Path, trust: Trust) -> Iterator[MakeBroker]:
    made: list[DiskBroker] = []

    def make(*flags: str) -> DiskBroker:
        made.append(DiskBroker(tmp_path, trust, disk / "data", flags))
        return made[-1]

    yield make
    for broker in made:
        broker.end()


def fill(disk: Path) -> Path:
    """Fill the disk with a file of another program."""
    other = disk / "other"
    with other.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return other
    raise AssertionError("the disk does not end")


def test_below_the_mark_publishes_are_refused_before_any_write_fails(make_broker, trust):
    broker = make_broker(*MARK).start()
    connection = broker.connect()
    broker.publish_until(connection, "FULL")
    assert set(broker.replies) == {"OK", "FULL"}
    assert broker.readiness() == ["The disk is full; publishing is refused until there is space again"]
    answer = Curl(broker.running, trust)("/publish/orders", body=b"x")
    assert (answer.status, json.loads(answer.body)["error"].split(";")[0]) == (507, "The disk is full")
    assert json.loads(broker.running.monitor("/stats"))["refusal"] == "FULL"
    assert b"\nminiqueue_accepts_messages 0.0\n" in broker.running.monitor("/metrics")
    broker.consume(len(broker.acknowledged))  # which frees space
    broker.wait_until_ready()
    assert broker.publish(connection) == "OK"
    broker.wait_until(lambda: "the disk has room again" in broker.running.output)
    assert broker.running.output.count("the disk is full") == 1
    assert broker.running.output.count("the disk has room again") == 1
    broker.settle_accounts()


def test_deleting_a_topic_on_a_full_disk_frees_its_space(make_broker):
    broker = make_broker(*MARK).start()
    connection = broker.connect()
    broker.publish_until(connection, "FULL")
    assert connection.ask(b"TOPIC", b"DELETE", b"orders") == b"OK"
    broker.settled |= broker.acknowledged
    broker.wait_until_ready()
    assert broker.publish(connection) == "OK"
    broker.settle_accounts()


@pytest.mark.parametrize("size_bytes", [100, 40_000])
def test_when_others_fill_the_disk_the_ballast_lets_consumers_go_on(make_broker, disk, size_bytes):
    broker = make_broker(*BALLAST_ONLY).start()
    connection = broker.connect()
    for _ in range(60):
        assert broker.publish(connection, size_bytes) == "OK"
    other = fill(disk)
    for _ in range(2000):
        if broker.publish(connection, size_bytes) == "FULL":
            break
    assert set(broker.replies) == {"OK", "UNKNOWN", "FULL"}
    broker.consume(20)
    assert broker.readiness()
    assert broker.publish(connection, size_bytes) == "FULL"
    assert not (broker.database / "miniqueue.ballast").exists()
    other.unlink()
    broker.wait_until_ready()
    assert (broker.database / "miniqueue.ballast").stat().st_blocks * 512 == 1 << 20
    for _ in range(60):
        assert broker.publish(connection, size_bytes) == "OK"
    broker.settle_accounts()


def test_without_a_ballast_the_broker_waits_until_there_is_space(make_broker, disk):
    broker = make_broker(*NO_RESERVE).start()
    connection = broker.connect()
    for _ in range(30):
        assert broker.publish(connection) == "OK"
    other = fill(disk)
    broker.publish_until(connection, "FULL")
    assert broker.readiness()
    assert connection.ask(b"PING") == b"PONG"
    broker.wait_until(lambda: "the store cannot be reopened" in broker.running.output)
    assert broker.publish(connection) == "FULL"
    other.unlink()
    broker.wait_until_ready()
    assert broker.publish(connection) == "OK"
    broker.settle_accounts()


def test_a_broker_starts_on_a_full_disk_with_the_space_of_its_ballast(make_broker, disk):
    broker = make_broker(*BALLAST_ONLY).start()
    connection = broker.connect()
    for _ in range(30):
        assert broker.publish(connection) == "OK"
    broker.end()
    other = fill(disk)
    broker.start()
    connection = broker.connect()
    broker.publish_until(connection, "FULL")
    broker.consume(30)
    other.unlink()
    broker.wait_until_ready()
    assert broker.publish(connection) == "OK"
    broker.settle_accounts()


def test_without_a_ballast_a_start_on_a_full_disk_is_refused_and_nothing_is_lost(make_broker, disk):
    broker = make_broker(*NO_RESERVE).start()
    connection = broker.connect()
    for _ in range(30):
        assert broker.publish(connection) == "OK"
    broker.end()
    other = fill(disk)
    process = broker.launch()
    assert process.wait(60) == 71
    assert "No space left on device" in process.output
    other.unlink()
    broker.settle_accounts()
