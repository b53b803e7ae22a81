"""Both protocols, one store: what one client publishes the other consumes."""

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.process import BrokerProcess, Trust
from tests.acceptance.telnet import Telnet, publish
from tests.acceptance.tools import needs, on_both_http_servers

pytestmark = [pytest.mark.acceptance, needs("curl"), on_both_http_servers]


@pytest.fixture
def curl(broker: BrokerProcess, trust: Trust) -> Curl:
    return Curl(broker, trust)


def test_published_over_resp_consumed_over_http(broker, curl, topic):
    publish(broker.resp_port, topic, "1", "2", "3")
    with curl.subscribe(topic) as stream:
        received = []
        for command in ("INIT", "ACK", "ACK"):
            stream.send(command)
            received.append(stream.receive_message())
    assert received == [b"1", b"2", b"3"]


def test_published_over_http_consumed_over_resp(broker, curl, topic):
    every_byte = bytes(range(256))
    curl.publish(topic, every_byte)
    with Telnet(broker.resp_port) as telnet:
        telnet.say(f"SUBSCRIBE {topic}".encode())
        assert telnet.read_until(every_byte + b"\r\n") == b"$256\r\n" + every_byte + b"\r\n"


def test_a_waiting_http_consumer_gets_what_comes_over_resp(broker, curl, topic):
    with curl.subscribe(topic) as stream:
        stream.send("INIT")
        publish(broker.resp_port, topic, "hello")
        assert stream.receive_message() == b"hello"


def test_delayed_over_resp_comes_back_over_http_with_its_count(broker, curl, topic):
    publish(broker.resp_port, topic, "later")
    with Telnet(broker.resp_port) as telnet, curl.subscribe(topic) as stream:
        telnet.say(f"SUBSCRIBE {topic}".encode())
        telnet.read_until(b"\r\nlater\r\n")
        stream.send("INIT")
        telnet.say(b"RESET")  # returns it, and the consumer that has waited longest gets it
        assert stream.receive_message() == b"later"
        stream.send("DACK 0.1")
        line = stream.receive()
    assert line["dackCount"] == 1


def test_a_topic_deleted_over_http_is_gone_over_resp(broker, curl, topic):
    publish(broker.resp_port, topic, "old")
    assert curl(f"/{topic}", "-X", "DELETE").status == 200
    with Telnet(broker.resp_port) as telnet:
        telnet.say(b"TOPICS")
        telnet.say(b"PING")
        assert b"\r\n" + topic.encode() + b"\r\n" not in telnet.read_until(b"+PONG\r\n")
    publish(broker.resp_port, topic, "new")
    with curl.subscribe(topic) as stream:
        stream.send("INIT")
        assert stream.receive_message() == b"new"
