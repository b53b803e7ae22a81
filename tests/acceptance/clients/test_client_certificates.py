"""Mutual TLS: clients require a certificate, and its subject names the user."""

import signal
import subprocess

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.client_certificates import ClientAuthority
from tests.acceptance.curl import Curl
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust, run_to_end
from tests.acceptance.tools import needs, run
from tests.acceptance.users import PASSWORD, UsersFile

pytestmark = [pytest.mark.acceptance, needs("curl", "redis-cli", "openssl")]

SUBJECT = "CN=shop,O=Example\\, Inc."


@pytest.fixture
def authority(tmp_path) -> ClientAuthority:
    return ClientAuthority(tmp_path)


@pytest.fixture
def users(tmp_path) -> UsersFile:
    file = UsersFile(tmp_path)
    file.run("add", "-publisher", "orders", "-certificate", SUBJECT, "shop")
    file.add_with_password("ada", "-admin", "*")
    return file


@pytest.fixture
def broker(start_broker, authority, users) -> BrokerProcess:
    return start_broker("data", "-users", str(users.path), "-client-ca", str(authority.path), "-resp-tls")


def test_the_subject_is_what_openssl_prints(authority):
    certificate, _ = authority.issue("shop", "Example, Inc.")
    printed = run(["openssl", "x509", "-in", certificate, "-noout", "-subject", "-nameopt", "RFC2253"])
    assert printed.decode().strip() == f"subject={SUBJECT}"


def test_curl(broker, trust: Trust, authority, tmp_path):
    curl = Curl(broker, trust)
    (tmp_path / "foreign").mkdir()
    known, unknown = authority.issue("shop", "Example, Inc."), authority.issue("eve", "Example, Inc.")
    foreign = ClientAuthority(tmp_path / "foreign").issue("shop", "Example, Inc.")
    with_known, with_unknown, with_foreign = (
        ["--cert", certificate, "--key", key] for certificate, key in (known, unknown, foreign)
    )
    password = ["-u", f"ada:{PASSWORD}"]
    assert curl("/publish/orders", *with_known, body=b"x").status == 201
    assert curl("/publish/orders", "--http1.1", *with_known, body=b"x").status == 201
    assert curl("/publish/other", *with_known, body=b"x").status == 403
    assert curl("/publish/other", *with_known, *password, body=b"x").status == 201
    assert curl("/publish/orders", *with_unknown, body=b"x").status == 401
    assert curl("/publish/orders", *with_unknown, *password, body=b"x").status == 201
    for flags in (with_foreign, password):
        with pytest.raises(subprocess.CalledProcessError):
            curl("/publish/orders", *flags, body=b"x")


def test_redis_clients(broker, trust: Trust, authority, users):
    certificate, key = authority.issue("shop", "Example, Inc.")
    command = ["redis-cli", "--tls", "--cacert", trust.ca, "-h", "localhost", "-p", str(broker.resp_port)]
    with_key = ["--cert", certificate, "--key", key]
    assert run([*command, *with_key, "PUBLISH", "orders", "x"]) == b"OK\n"
    assert run([*command, *with_key, "PUBLISH", "other", "x"]).startswith(b"NOPERM")
    options = {"host": "localhost", "port": broker.resp_port, "ssl_ca_certs": trust.ca}
    connection = patient.SSLConnection(ssl_certfile=certificate, ssl_keyfile=key, **options)
    for words, reply in (
        (("PUBLISH", "orders", "x"), b"OK"),
        (("AUTH", "ada", PASSWORD), b"OK"),
        (("TOPIC", "DELETE", "orders"), b"OK"),
        (("RESET",), b"RESET"),
        (("PUBLISH", "orders", "x"), b"OK"),
    ):
        connection.send_command(*words)
        assert connection.read_response() == reply
    users.run("remove", "shop")
    broker.process.send_signal(signal.SIGHUP)
    with pytest.raises(redis.ConnectionError):
        connection.read_response()
    with pytest.raises((redis.ConnectionError, OSError)):
        patient.SSLConnection(**options).connect()


def test_an_authority_that_cannot_be_used_is_77(trust: Trust, tmp_path, users):
    (tmp_path / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for name, problem in (
        ("no.pem", "No such file"),
        ("broken.pem", "flag -client-ca: client authority broken.pem: it is damaged"),
    ):
        flags = [*trust.flags, "-users", str(users.path), "-client-ca", name]
        done = run_to_end(*FREE_PORTS, *flags, cwd=tmp_path)
        assert done.returncode == 77
        assert problem in done.stderr
