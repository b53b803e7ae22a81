"""SIGTERM under load: who waits is answered, what is held is settled, publishes are refused, and nothing is lost."""

import json
import re
import signal
import threading
import time

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.process import HTTP_SERVERS
from tests.acceptance.telnet import Telnet
from tests.acceptance.tools import MAX_SECONDS, needs

pytestmark = pytest.mark.acceptance

#: Longer than the end of a process is waited for: who stops all the same does so since nothing is held any more.
PATIENT = ("-settle-time", "100s")
RECEIPT = re.compile(rb"\b[0-9a-f]{16}-[0-9]+\b")


class Publisher(threading.Thread):
    """Publishes numbers until a publish is refused, or the connection is lost.

    Attributes:
      published: the numbers that were acknowledged.
      refusal: the last reply.
    """

    def __init__(self, port: int, topic: str, number: int) -> None:
        super().__init__(daemon=True)
        self._port, self._topic, self._number = port, topic, number
        self.published: list[bytes] = []
        self.refusal = b""

    def run(self) -> None:
        with Telnet(self._port) as telnet:
            for count in range(1_000_000):
                message = b"%d-%d" % (self._number, count)
                telnet.say(b"PUBLISH %b %b" % (self._topic.encode(), message))
                answer = telnet.read_until(b"\r\n")
                if answer != b"+OK\r\n":
                    self.refusal = answer
                    return
                self.published.append(message)


def drained(port: int, topic: str) -> list[bytes]:
    """Take and acknowledge all messages of a topic."""
    found: list[bytes] = []
    with Telnet(port) as telnet:
        while True:
            telnet.say(f"RECEIVE {topic} COUNT 1000 AUTOACK".encode(), b"PING")
            page = re.findall(rb"\r\n([0-9]+-[0-9]+)\r\n\*6\r\n", telnet.read_until(b"+PONG\r\n"))
            if not page:
                return found
            found += page


def test_a_stop_under_load_loses_nothing_and_leaves_nobody_without_an_answer(start_broker):
    broker = start_broker("data", *PATIENT)
    port = broker.resp_port
    publishers = [Publisher(port, "load", number) for number in range(4)]
    with (
        Telnet(port) as stream,
        Telnet(port) as receiver,
        Telnet(port) as waiting,
        Telnet(port) as asking,
        Telnet(port) as worker,
    ):
        for publisher in publishers:
            publisher.start()
        while not all(len(publisher.published) > 50 for publisher in publishers):
            time.sleep(0.01)
        stream.say(b"SUBSCRIBE load PREFETCH 20")
        held = [stream.read_until(b"*0\r\n") for _ in range(20)]
        receiver.say(b"RECEIVE load COUNT 20 LEASE 60", b"PING")
        receipts = RECEIPT.findall(receiver.read_until(b"+PONG\r\n"))
        assert len(receipts) == 20
        waiting.say(b"RECEIVE nothing-there WAIT 60")
        asking.say(b"REQUEST sums ask TIMEOUT 60")
        worker.say(b"RECEIVE sums WAIT 50", b"PING")
        question = RECEIPT.findall(worker.read_until(b"+PONG\r\n"))[0]
        broker.process.send_signal(signal.SIGTERM)
        assert waiting.read_until(b"\r\n") == b"*0\r\n"
        assert asking.read_until(b"\r\n").startswith(b"-DRAINING ")
        worker.say(b"RECEIVE load")
        assert worker.read_until(b"\r\n").startswith(b"-DRAINING ")
        receiver.say(b"ACK load " + b" ".join(receipts))
        assert receiver.read_until(b"+OK\r\n" * 20).startswith(b"*20\r\n")
        numbers = [re.findall(rb"\$\d+\r\n(\d+)\r\n", one)[0] for one in held]
        worker.say(b"ACK sums " + question)
        assert worker.read_until(b"\r\n") == b"+OK\r\n"
        stream.say(b"ACK " + b" ".join(numbers))
        assert stream.read_until(b"\r\n") == b"+OK\r\n"
        assert stream.read_to_close() == b""  # nothing was handed out any more
        assert broker.wait() == 0
    for publisher in publishers:
        publisher.join(MAX_SECONDS)
        assert publisher.refusal.startswith(b"-DRAINING ")
    again = start_broker("data")
    published = {message for publisher in publishers for message in publisher.published}
    left = drained(again.resp_port, "load")
    assert len(left) == len(set(left)) == len(published) - 40
    assert set(left) < published
    again.stop()


@pytest.mark.parametrize("is_hurried", [False, True])
def test_who_does_not_settle_is_not_waited_for_long(start_broker, is_hurried):
    broker = start_broker("data", *(PATIENT if is_hurried else ()))
    with Telnet(broker.resp_port) as consumer:
        consumer.say(b"PUBLISH t x", b"SUBSCRIBE t")
        consumer.read_until(b"x\r\n")
        begun = time.monotonic()
        broker.process.send_signal(signal.SIGTERM)
        if is_hurried:
            broker.wait_for_event("waiting for what consumers hold")
            broker.process.send_signal(signal.SIGTERM)
        assert consumer.read_to_close() == b""
        assert broker.wait() == 0
        assert is_hurried or time.monotonic() - begun > 1.9
    with Telnet(start_broker().resp_port) as consumer:
        consumer.say(b"SUBSCRIBE t")
        assert consumer.read_until(b"x\r\n") == b"$1\r\nx\r\n"


@needs("curl")
@pytest.mark.parametrize("http_server", HTTP_SERVERS)
def test_http_settles_and_is_refused_until_the_end(start_broker, trust, http_server):
    broker = start_broker("data", "-http-server", http_server, *PATIENT)
    curl = Curl(broker, trust)
    for message in (b"first", b"second"):
        curl.publish("t", message)
    one, other = (json.loads(curl("/topics/t/receive", body=b"").body) for _ in range(2))
    broker.process.send_signal(signal.SIGTERM)
    broker.wait_for_event("waiting for what consumers hold")
    assert curl("/publish/t", body=b"third").status == 503
    assert curl("/topics/t/receive?wait=10", body=b"").status == 503
    for message in (one, other):
        answer = curl("/topics/t/ack", body=json.dumps({"receipts": [message["receipt"]]}).encode())
        assert (answer.status, json.loads(answer.body)) == (200, ["OK"])
    assert broker.wait() == 0
    again = start_broker("data")
    assert json.loads(again.monitor("/stats"))["topics"]["t"]["acknowledged"] == 2
