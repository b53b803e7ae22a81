"""Limits of a real broker: what clients hear, what a kill leaves, and what the metrics say."""

import socket
import ssl

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.counts import counts
from tests.acceptance.tools import MAX_SECONDS

pytestmark = pytest.mark.acceptance


def reached(broker, limit: str) -> float:
    """Return how often a limit was reached."""
    value: float = broker.sample(f'miniqueue_limits_reached_total{{limit="{limit}"}}')
    return value


def test_what_was_dropped_stays_dropped_after_a_kill(start_broker):
    flags = ("-max-topic-messages", "3", "-topic-limit-policy", "drop-oldest")
    broker = start_broker("data", *flags)
    with patient.Redis(port=broker.resp_port) as client:
        for number in range(5):
            assert client.execute_command("PUBLISH", "t", number)
    broker.kill()
    broker = start_broker("data", *flags)
    topic = counts(broker, "t")
    assert (topic["published"], topic["dropped"], topic["ready"], topic["size_bytes"]) == (5, 2, 3, 3)


def test_a_full_topic_and_one_topic_too_many_are_refused(start_broker):
    broker = start_broker("data", "-max-topic-bytes", "10", "-max-topics", "1")
    with patient.Redis(port=broker.resp_port) as client:
        assert client.execute_command("PUBLISH", "{t}", "0123456789")
        for topic in ("{t}", "{t}u"):
            with pytest.raises(redis.ResponseError, match="LIMIT"):
                client.execute_command("PUBLISH", topic, "x")
        assert client.execute_command("TOPIC", "DELETE", "{t}")
        assert client.execute_command("PUBLISH", "{t}u", "x")
    assert (reached(broker, "max-topic-bytes"), reached(broker, "max-topics")) == (1, 1)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=MAX_SECONDS)


def test_one_address_may_have_so_many_connections_on_both_ports_together(start_broker, trust):
    """From loopback ten times as many as the setting says."""
    broker = start_broker("data", "-max-connections-per-address", "1")
    connections = [connect(broker.resp_port) for _ in range(5)]
    try:
        for connection in connections:  # each has been let in when it is answered
            connection.send(b"PING\r\n")
            assert connection.recv(100) == b"+PONG\r\n"
        secure = ssl.create_default_context(cafile=trust.ca)
        for _ in range(5):
            connections.append(secure.wrap_socket(connect(broker.https_port), server_hostname="localhost"))
        with connect(broker.resp_port) as refused:
            assert refused.recv(100) == b"-ERR max number of clients reached\r\n"
        connections[0].send(b"PING\r\n")
        assert connections[0].recv(100) == b"+PONG\r\n"
        assert reached(broker, "max-connections-per-address") == 1
    finally:
        for connection in connections:
            connection.close()
