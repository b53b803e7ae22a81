"""A backlog of large messages, many topics, and consumers that do not read, all at once: memory has a bound."""

import pytest

from tests.acceptance.process import BrokerProcess, Trust
from tests.acceptance.telnet import Telnet, command
from tests.durability.load import stalled
from tests.durability.load.measuring import rss_bytes, wait_until
from tests.durability.load.test_stalled import publish, round_trips_seconds

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

MIB = 1 << 20
TOPICS = 2000
LARGE = 200
PUBLISHERS = 8
#: It was 410 MiB on two cores, and 430 with three times the backlog.
MAX_RSS_BYTES = 640 * MIB


def publish_to_many(broker: BrokerProcess) -> None:
    with Telnet(broker.resp_port) as telnet:
        telnet.say(*[b"PUBLISH topic-%d %b" % (n, b"x" * 1000) for n in range(TOPICS)])
        for _ in range(TOPICS):
            assert telnet.read_until(b"\r\n") == b"+OK\r\n"


def publish_large(broker: BrokerProcess) -> None:
    """Send on several connections, as fast as the broker takes it, and look at the replies at the end."""
    publishing = b"*3\r\n$7\r\nPUBLISH\r\n$5\r\nlarge\r\n$%d\r\n%b\r\n" % (MIB, bytes(MIB))
    connections = [Telnet(broker.resp_port) for _ in range(PUBLISHERS)]
    try:
        for _ in range(LARGE // PUBLISHERS):
            for telnet in connections:
                telnet.socket.sendall(publishing)
        for telnet in connections:
            for _ in range(LARGE // PUBLISHERS):
                assert telnet.read_until(b"\r\n") == b"+OK\r\n"
    finally:
        for telnet in connections:
            telnet.socket.close()


def test_a_mixed_load_has_its_bound(start_broker, trust: Trust):
    broker = start_broker("data", "-sync", "never")  # the disk's speed is not what is asked for
    publish_to_many(broker)
    publish_large(broker)
    publish(broker, b"small", bytes(1000), 50_000)
    peak_bytes = rss_bytes(broker.process.pid)
    with (
        stalled.over_resp(broker.resp_port, command(b"SUBSCRIBE small PREFETCH 10000"), 5),
        stalled.over_resp(broker.resp_port, command(b"SUBSCRIBE large PREFETCH 100"), 5),
        stalled.over_http(broker.https_port, trust.ca, "/subscribe/large?prefetch=100", 5),
    ):
        wait_until(lambda: b'miniqueue_consumers{topic="large"} 10.0' in broker.monitor("/metrics"), "they are there")
        publish_large(broker)
        round_trips_seconds(broker)
        peak_bytes = max(peak_bytes, rss_bytes(broker.process.pid))
    round_trips_seconds(broker)
    peak_bytes = max(peak_bytes, rss_bytes(broker.process.pid))
    print(f"{TOPICS} topics, {2 * LARGE} MiB waiting, 15 consumers that do not read: {peak_bytes / MIB:.0f} MiB")
    assert peak_bytes < MAX_RSS_BYTES
    broker.stop()
