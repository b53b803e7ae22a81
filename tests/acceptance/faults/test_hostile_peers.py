"""Peers that send nonsense, or the wrong protocol: they get an error or are disconnected; others do not notice."""

import random
import ssl
from collections.abc import Iterator

import pytest

from tests.acceptance.curl import Curl
from tests.acceptance.process import BrokerProcess, Trust
from tests.acceptance.telnet import Telnet, publish
from tests.acceptance.tools import needs, on_both_http_servers
from tests.durability.load.measuring import wait_until

pytestmark = [pytest.mark.acceptance, on_both_http_servers]


@pytest.fixture(autouse=True)
def bystander(broker: BrokerProcess, topic: str) -> Iterator[None]:
    """A connection from before the attack, which must work after it, as must a new one."""
    with Telnet(broker.resp_port) as telnet:
        telnet.say(b"PING")
        assert telnet.read_until(b"\r\n") == b"+PONG\r\n"
        yield
        telnet.say(b"PING")
        assert telnet.read_until(b"\r\n") == b"+PONG\r\n"
    publish(broker.resp_port, topic, "still-there")
    assert broker.monitor("/readyz")
    assert "Traceback" not in broker.output


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("port", ["resp_port", "https_port", "monitor_port"])
def test_random_bytes(broker, seed, port):
    with Telnet(getattr(broker, port)) as telnet:
        try:
            telnet.socket.sendall(random.Random(seed).randbytes(100_000))
            telnet.socket.shutdown(1)
        except OSError:  # it has closed already, which is the answer
            pass
        telnet.read_to_close()


@pytest.mark.parametrize(
    "words",
    [
        b"*2147483647\r\n$4\r\nPING\r\n",
        b"*1\r\n$99999999999\r\n",
        b"*1\r\n$-5\r\n",
        b"*2\r\n$4\r\nPING\r\n:5\r\n",
        b"*x\r\n",
        b"PUBLISH a inline\r\n",
        b"x" * 200_000,
    ],
)
def test_malformed_commands_are_an_error_and_a_close(broker, words):
    with Telnet(broker.resp_port) as telnet:
        telnet.socket.sendall(words)
        answer = telnet.read_to_close()
    assert answer.startswith(b"-ERR ")
    assert answer.count(b"\r\n") == 1


def test_http_at_the_resp_port_publishes_nothing(broker, topic):
    with Telnet(broker.resp_port) as telnet:
        request = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\nPUBLISH {topic}-forged x\r\n"
        telnet.socket.sendall(request.encode())
        answer = telnet.read_to_close()
    assert answer == b""
    assert f"{topic}-forged".encode() not in broker.monitor("/stats")


def test_tls_at_the_resp_port_fails_at_once(broker):
    context = ssl.create_default_context()
    with Telnet(broker.resp_port) as telnet, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(telnet.socket, server_hostname="localhost").close()


def test_resp_at_the_https_port_is_closed(broker):
    with Telnet(broker.https_port) as telnet:
        telnet.socket.sendall(b"*1\r\n$4\r\nPING\r\n")
        assert b"PONG" not in telnet.read_to_close()


@needs("curl")
def test_http_without_tls_at_the_https_port_is_closed(broker):
    with Telnet(broker.https_port) as telnet:
        telnet.socket.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" not in telnet.read_to_close()


def test_an_oversized_message_is_refused_before_it_comes(broker, topic):
    name = topic.encode()
    with Telnet(broker.resp_port) as telnet:
        telnet.socket.sendall(b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$%d\r\n" % (len(name), name, (1 << 20) + 1))
        assert telnet.read_to_close() == b"-ERR Protocol error: invalid bulk length\r\n"


@needs("curl")
def test_an_endless_command_on_a_stream_ends_the_stream(broker, trust: Trust, topic):
    with Curl(broker, trust).subscribe(topic) as stream:
        stream.send("x" * 40_000)  # a pipe holds that much: curl may end before it has read everything
        assert stream.receive() == {"error": "error decoding command", "code": "BADLINE"}


@needs("curl")
def test_what_is_no_string_ends_the_stream_with_one_error(broker, trust: Trust, topic):
    answer = Curl(broker, trust)(f"/subscribe/{topic}", body=b'"INIT" 5 "ACK"')
    assert answer.body == b'{"error":"error decoding command","code":"BADLINE"}\n'


def test_connections_that_come_and_go_leave_nothing_behind(broker):
    for _ in range(200):
        with Telnet(broker.resp_port) as telnet:
            telnet.say(b"SUBSCRIBE come-and-go")
    with Telnet(broker.resp_port) as telnet:
        wait_until(lambda: connection_count(telnet) <= 3, "all of them are gone")


def connection_count(telnet: Telnet) -> int:
    telnet.say(b"CLIENT LIST")
    telnet.say(b"PING")
    return telnet.read_until(b"+PONG\r\n").count(b"id=")
