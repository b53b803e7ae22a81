"""RESP over TLS with the certificate of the HTTP port."""

import socket
import ssl
from collections.abc import Iterator

import pytest

from tests.acceptance import patient
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust
from tests.acceptance.telnet import command
from tests.acceptance.tools import MAX_SECONDS, needs, run

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def broker(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """In place of the common one: with TLS."""
    process = BrokerProcess([*FREE_PORTS, *trust.flags, "-resp-tls"], cwd=tmp_path_factory.mktemp("broker"))
    try:
        yield process.wait_until_ready()
        process.stop()
    finally:
        process.end()


@needs("redis-cli")
@pytest.mark.parametrize("version", [(), ("-3",)], ids=["RESP2", "RESP3"])
def test_redis_cli(broker, trust: Trust, topic, version):
    program = ["redis-cli", "--tls", "--cacert", trust.ca, "-h", "localhost", "-p", str(broker.resp_port), *version]
    assert run([*program, "PUBLISH", topic, "x"]) == b"OK\n"
    assert topic.encode() in run([*program, "TOPICS"]).splitlines()
    publish = command(b"PUBLISH %b message" % topic.encode())
    assert b"errors: 0, replies: 2000" in run([*program, "--pipe"], publish * 2000)


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_publishes_and_consumes(broker, trust: Trust, topic, protocol):
    connection = patient.SSLConnection(
        host="localhost", port=broker.resp_port, ssl_ca_certs=trust.ca, protocol=protocol
    )
    large = bytes(range(256)) * 4000
    connection.send_command("PUBLISH", topic, large)
    assert connection.read_response() == b"OK"
    connection.send_command("SUBSCRIBE", topic)
    assert connection.read_response() == large
    connection.send_command("ACK")
    assert connection.read_response() == b"OK"
    connection.disconnect()
    assert broker.sample(f'miniqueue_messages_acknowledged_total{{topic="{topic}"}}') == 1


def test_what_is_not_tls_gets_no_answer(broker):
    with socket.create_connection(("127.0.0.1", broker.resp_port), timeout=MAX_SECONDS) as peer:
        peer.sendall(b"PING\r\n" * 10)
        assert b"PONG" not in peer.recv(100)


@pytest.mark.parametrize(
    ("version", "is_taken"),
    [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_tls_is_1_2_or_later(broker, trust: Trust, version, is_taken):
    context = ssl.create_default_context(cafile=trust.ca)
    context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")  # so that it is the broker who refuses
    with socket.create_connection(("127.0.0.1", broker.resp_port), timeout=MAX_SECONDS) as peer:
        if not is_taken:
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(peer, server_hostname="localhost")
            return
        with context.wrap_socket(peer, server_hostname="localhost") as stream:
            stream.sendall(b"PING\r\n")
            assert stream.recv(100) == b"+PONG\r\n"


def test_who_leaves_gives_the_message_back_and_nothing_is_logged_about_it(start_broker, trust: Trust, topic):
    broker = start_broker("data", "-resp-tls")
    for _ in range(2):
        connection = patient.SSLConnection(host="localhost", port=broker.resp_port, ssl_ca_certs=trust.ca)
        connection.send_command("PUBLISH", topic, "x")
        assert connection.read_response() == b"OK"
        connection.send_command("SUBSCRIBE", topic)
        assert connection.read_response() == b"x"
        connection.disconnect()
    broker.stop()
    assert "warning" not in broker.output
