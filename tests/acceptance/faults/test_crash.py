"""kill -9 while clients publish: after the next start every acknowledged message is there, in order."""

import itertools
import threading

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.counts import counts
from tests.acceptance.telnet import Telnet

pytestmark = pytest.mark.acceptance

PIPELINE = 50


class Publisher(threading.Thread):
    """Publishes numbers to a topic until the connection breaks, and counts the replies."""

    def __init__(self, port: int, topic: str, first: int, has_many: threading.Event) -> None:
        super().__init__()
        self.topic = topic
        self.next = first
        self._port = port
        self._has_many = has_many

    def run(self) -> None:
        start = self.next
        with Telnet(self._port) as telnet:
            for first in itertools.count(start, PIPELINE):
                commands = [b"PUBLISH %b %d" % (self.topic.encode(), n) for n in range(first, first + PIPELINE)]
                try:
                    telnet.say(*commands)
                    for _ in commands:
                        assert telnet.read_until(b"\r\n") == b"+OK\r\n"
                        self.next += 1
                except (OSError, AssertionError):
                    return
                if self.next - start > 20 * PIPELINE:
                    self._has_many.set()


def consume_all(port: int, topic: str, count: int) -> list[int]:
    """Take and acknowledge `count` messages."""
    received = []
    with Telnet(port) as telnet:
        telnet.say(b"SUBSCRIBE " + topic.encode())
        for _ in range(count):
            telnet.read_until(b"\r\n")
            received.append(int(telnet.read_until(b"\r\n")))
            telnet.say(b"ACK")
            assert telnet.read_until(b"\r\n") == b"+OK\r\n"
    return received


def test_every_acknowledged_message_survives_kills_in_order(start_broker):
    """A message whose reply got lost may be there or not: that is all that may differ."""
    acknowledged: dict[str, list[int]] = {"a": [], "b": []}
    start = 0
    for _ in range(5):
        broker = start_broker()
        has_many = threading.Event()
        publishers = [Publisher(broker.resp_port, topic, start, has_many) for topic in acknowledged]
        for publisher in publishers:
            publisher.start()
        assert has_many.wait(60)
        broker.kill()
        for publisher in publishers:
            publisher.join()
            acknowledged[publisher.topic] += range(start, publisher.next)
        start += 1_000_000
    broker = start_broker()
    for topic, expected in acknowledged.items():
        received = consume_all(broker.resp_port, topic, counts(broker, topic)["ready"])
        assert received == sorted(set(received)), "out of order or doubled"
        assert set(received) >= set(expected), "lost"
        assert len(received) - len(expected) <= 5 * PIPELINE, "never published"
    broker.stop()


def test_a_message_that_was_held_at_a_kill_comes_again(start_broker):
    broker = start_broker()
    with Telnet(broker.resp_port) as telnet:
        telnet.say(b"PUBLISH orders 1")
        telnet.say(b"PUBLISH orders 2")
        telnet.read_until(b"+OK\r\n+OK\r\n")
        telnet.say(b"SUBSCRIBE orders")
        telnet.read_until(b"\r\n1\r\n")
        broker.kill()
    assert consume_all(start_broker().resp_port, "orders", 2) == [1, 2]


def test_after_a_kill_what_was_leased_comes_again_and_old_receipts_are_refused(start_broker):
    broker = start_broker()
    with patient.Redis(port=broker.resp_port) as client:
        client.execute_command("MPUBLISH", "orders", 1, 2, 3)
        (one, _, _), (two, _, _) = client.execute_command("RECEIVE", "orders", "COUNT", 2, "LEASE", 3600)
        assert client.execute_command("ACK", "orders", one) == b"OK"
        client.publish("orders", 4)  # in whose commit the settle is, at the latest
    broker.kill()
    broker = start_broker()
    with patient.Redis(port=broker.resp_port) as client:
        for receipt in (one, two):
            with pytest.raises(redis.ResponseError, match="NOLEASE"):
                client.execute_command("NACK", "orders", receipt)
        again = client.execute_command("RECEIVE", "orders", "COUNT", 10)
        assert [payload for _, payload, _ in again] == [b"2", b"3", b"4"]
