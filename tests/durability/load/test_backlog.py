"""A backlog that an ordinary consumer drains takes no memory, and leaves none behind."""

import pytest
import redis

from tests.durability.load.measuring import own_bytes, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

MIB = 1 << 20
PAYLOADS = [b"x" * 1024] * 1000
REQUESTS = 300
#: It was 125 MiB: what is in memory for delivery, and LevelDB's two tables of 64 MiB.
MAX_BYTES = 200 * MIB
#: It was 14 MiB; without the regular return of freed memory 91 MiB.
MAX_LEFT_BYTES = 50 * MIB


def test_a_backlog_that_is_drained_leaves_no_memory_behind(start_broker):
    broker = start_broker("data", "-sync", "never")  # the disk's speed is not what is asked for
    pid = broker.process.pid
    client = redis.Redis(port=broker.resp_port)
    before_bytes, peak_bytes, count = own_bytes(pid), 0, 0
    for _ in range(REQUESTS):
        client.execute_command("MPUBLISH", "orders", *PAYLOADS)
    while messages := client.execute_command("RECEIVE", "orders", "COUNT", 1000):
        client.execute_command("ACK", "orders", *[receipt for receipt, _, _ in messages])
        count += len(messages)
        peak_bytes = max(peak_bytes, own_bytes(pid))
    assert count == REQUESTS * len(PAYLOADS)
    print(f"{before_bytes / MIB:.0f} MiB before, {peak_bytes / MIB:.0f} while it is drained")
    assert peak_bytes < MAX_BYTES
    wait_until(lambda: own_bytes(pid) < before_bytes + MAX_LEFT_BYTES, "freed memory is returned")
    client.close()
    broker.stop()
