"""A renewed certificate: new connections of all TLS ports get it, without a restart."""

import os
import signal
import ssl
from pathlib import Path

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.process import HTTP_SERVERS
from tests.serving import make_certificates

pytestmark = pytest.mark.acceptance

METRIC = "miniqueue_certificate_expiration_timestamp_seconds"


@pytest.fixture
def certs(tmp_path) -> Path:
    return make_certificates(tmp_path / "served").cert.parent


@pytest.fixture
def renewed(tmp_path) -> Path:
    return make_certificates(tmp_path / "renewed").cert.parent


def certificate(directory: Path) -> str:
    return (directory / "cert.pem").read_text()


def served_on(port: int) -> str:
    """Return the certificate that a new connection gets."""
    return ssl.get_server_certificate(("127.0.0.1", port))


@pytest.mark.parametrize("http_server", HTTP_SERVERS)
def test_sighup_loads_the_renewed_certificate_on_http_and_resp(start_broker, certs, renewed, http_server):
    flags = ("-cert", f"{certs}/cert.pem", "-key", f"{certs}/key.pem", "-resp-tls", "-http-server", http_server)
    broker = start_broker("data", *flags)
    ports = broker.https_port, broker.resp_port
    before, after = certificate(certs), certificate(renewed)
    assert [served_on(port) for port in ports] == [before] * 2
    old = patient.SSLConnection(host="localhost", port=broker.resp_port, ssl_ca_certs=f"{certs}/ca.pem")
    old.connect()

    os.replace(renewed / "cert.pem", certs / "cert.pem")
    broker.process.send_signal(signal.SIGHUP)
    refused = broker.wait_for_event("certificate not loaded; the previous one stays in use")
    assert "it does not match" in str(refused["problems"])
    assert [served_on(port) for port in ports] == [before] * 2

    os.replace(renewed / "key.pem", certs / "key.pem")
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_events("certificate loaded")
    is_granian = http_server == "granian"
    assert [served_on(port) for port in ports] == [before if is_granian else after, after]
    old.send_command("PUBLISH", "t", "x")
    assert old.read_response() == b"OK", "a connection keeps its certificate"
    old.disconnect()
    with pytest.raises((redis.ConnectionError, OSError)):
        patient.SSLConnection(host="localhost", port=broker.resp_port, ssl_ca_certs=f"{certs}/ca.pem").connect()
    new = patient.SSLConnection(host="localhost", port=broker.resp_port, ssl_ca_certs=f"{renewed}/ca.pem")
    new.connect()
    new.disconnect()
    assert broker.sample(METRIC) > 0
    broker.stop()
    assert ("Granian requires a restart" in broker.output) is is_granian
