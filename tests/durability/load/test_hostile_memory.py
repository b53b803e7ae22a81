"""Clients that make the broker keep much: the process stays within -max-memory, and the others are served."""

import socket

import pytest
import redis

from tests.acceptance import patient
from tests.durability.load.measuring import own_bytes, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

MIB = 1 << 20
MAX_MEMORY_BYTES = 128 * MIB
#: The interpreter, the libraries, and what is not charged.
SPARE_BYTES = 100 * MIB
READ = (
    b"*8\r\n$4\r\nREAD\r\n$6\r\norders\r\n$1\r\n0\r\n$1\r\n0\r\n"
    b"$5\r\nCOUNT\r\n$1\r\n4\r\n$5\r\nBYTES\r\n$7\r\n4194304\r\n"
)
PAYLOADS = [b"x" * 1024] * 1000


@pytest.fixture
def broker(start_broker):
    broker = start_broker("data", "-sync", "never", "-max-memory", str(MAX_MEMORY_BYTES))
    yield broker
    broker.stop()


@pytest.fixture
def client(broker):
    client = patient.Redis(port=broker.resp_port)
    yield client
    client.close()


def fill(client, mib: int) -> None:
    for _ in range(mib):
        client.execute_command("MPUBLISH", "orders", *PAYLOADS)


def received(client, *options) -> list:
    """Return a batch of messages; none if that would need too much memory."""
    try:
        return client.execute_command("RECEIVE", "orders", "COUNT", 1000, *options)
    except redis.ResponseError as exc:
        if not str(exc).startswith("LIMIT"):
            raise
        return []


def charged_bytes(client) -> int:
    return client.info("memory")["memory_charged"]


def test_replies_that_are_never_read_are_bounded_together(broker, client):
    for _ in range(4):
        client.execute_command("PUBLISH", "orders", bytes(MIB - 1024))
    peers, peak_bytes = [], 0
    for _ in range(60):  # each would have 16 MiB to read: the kernel keeps 4, the broker one reply of 4
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", broker.resp_port))
        peer.sendall(READ * 4)
        peers.append(peer)
        assert client.execute_command("LEN", "orders") == 4
        peak_bytes = max(peak_bytes, own_bytes(broker.process.pid))
    wait_until(lambda: charged_bytes(client) > MAX_MEMORY_BYTES * 8 // 10, "the replies are made")
    peak_bytes = max(peak_bytes, own_bytes(broker.process.pid))
    print(f"{peak_bytes / MIB:.0f} MiB, {charged_bytes(client) / MIB:.0f} charged")
    assert peak_bytes < MAX_MEMORY_BYTES + SPARE_BYTES
    for peer in peers:
        peer.close()
    wait_until(lambda: received(client), "what was charged is given back")


def test_long_leases_are_bounded_and_can_be_settled(broker, client):
    fill(client, 200)
    receipts, peak_bytes = [], 0
    while messages := received(client, "LEASE", 43200):
        receipts += [receipt for receipt, _, _ in messages]
        peak_bytes = max(peak_bytes, own_bytes(broker.process.pid))
    print(f"{peak_bytes / MIB:.0f} MiB with {len(receipts)} messages leased")
    assert len(receipts) * 1024 > MAX_MEMORY_BYTES // 4
    assert peak_bytes < MAX_MEMORY_BYTES + SPARE_BYTES
    for start in range(0, len(receipts), 1000):
        assert set(client.execute_command("ACK", "orders", *receipts[start : start + 1000])) == {b"OK"}
    wait_until(lambda: received(client), "what was charged is given back")
