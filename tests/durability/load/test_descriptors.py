"""More connections than file descriptors: the new ones are refused, everything else goes on."""

import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.acceptance.process import BrokerProcess
from tests.acceptance.telnet import Telnet
from tests.acceptance.tools import MAX_SECONDS
from tests.durability.load.measuring import cpu_seconds, descriptor_count, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

LIMIT = 192
RESERVED = 64
#: As much as fills LevelDB's write buffer, so that it begins another log and writes a table.
MEBIBYTES = 66


@pytest.fixture
def broker(start_broker):
    process = start_broker()
    resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    return process


@contextmanager
def crowd(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connect `count` times, and say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=MAX_SECONDS))
            for _ in range(count)
        ]


def publish_until_leveldb_needs_files(telnet: Telnet) -> Counter[bytes]:
    payload = bytes(1 << 20)
    for _ in range(MEBIBYTES):
        telnet.socket.sendall(b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$%d\r\n%b\r\n" % (len(payload), payload))
    return Counter(telnet.read_until(b"\r\n") for _ in range(MEBIBYTES))


def is_served(port: int) -> bool:
    with Telnet(port) as telnet:
        telnet.say(b"PING")
        return telnet.read_until(b"\r\n") == b"+PONG\r\n"


@pytest.mark.parametrize("port", ["resp_port", "https_port"])
def test_who_is_connected_is_served_and_the_store_has_its_files(broker: BrokerProcess, port):
    pid = broker.process.pid
    with Telnet(broker.resp_port) as healthy:
        before_seconds = cpu_seconds(pid)
        with crowd(getattr(broker, port), 2 * LIMIT):
            wait_until(lambda: "too many connections" in broker.output, "a refusal in the log")
            healthy.say(b"PING")
            assert healthy.read_until(b"\r\n") == b"+PONG\r\n"
            assert publish_until_leveldb_needs_files(healthy) == {b"+OK\r\n": MEBIBYTES}
            assert descriptor_count(pid) <= LIMIT - RESERVED + 20  # the store opens more while it compacts
            assert broker.monitor("/readyz") == b'{"status":"ok"}'
            metrics = broker.monitor("/metrics").decode()
        refused_count = float(metrics.partition("\nminiqueue_refused_connections_total ")[2].split()[0])
        assert refused_count > LIMIT
        wait_until(lambda: descriptor_count(pid) < LIMIT // 2, "the crowd is gone")
        assert is_served(broker.resp_port)
        print(f"{port}: {refused_count:.0f} refused, {cpu_seconds(pid) - before_seconds:.2f} s of processor time")
    assert broker.output.count("too many connections") == 1
    assert "could not be accepted" not in broker.output
    broker.stop()


@pytest.mark.parametrize("port", ["resp_port", "https_port"])
def test_a_crowd_that_stays_takes_no_processor_time(broker: BrokerProcess, port):
    """A listener that is always ready, but from which nothing can be accepted, would make a loop spin."""
    pid = broker.process.pid
    with Telnet(broker.resp_port) as healthy, crowd(getattr(broker, port), 2 * LIMIT):
        wait_until(lambda: "too many connections" in broker.output, "a refusal in the log")
        before_seconds = cpu_seconds(pid)
        for _ in range(10):  # a second, told by the broker's own clock: DACK comes back on a tick
            healthy.say(b"PING")
            healthy.read_until(b"\r\n")
        wait_for_two_ticks(healthy)
        assert cpu_seconds(pid) - before_seconds < 0.5  # in 2 s or more
    broker.stop()


def wait_for_two_ticks(telnet: Telnet) -> None:
    telnet.say(b"PUBLISH ticks x")
    telnet.say(b"SUBSCRIBE ticks")
    telnet.read_until(b"x\r\n")
    for _ in range(2):
        telnet.say(b"DACK 0.9")
        telnet.read_until(b"x\r\n")


def test_a_refused_redis_client_is_told_why(broker: BrokerProcess):
    with crowd(broker.resp_port, 2 * LIMIT) as connections:
        connections[-1].settimeout(MAX_SECONDS)
        assert connections[-1].recv(100) == b"-ERR max number of clients reached\r\n"
        assert connections[-1].recv(100) == b""
    broker.stop()
