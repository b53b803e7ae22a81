"""Monitoring that other machines reach: over TLS; probes require no user, the rest does."""

import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from http.client import HTTPException, HTTPSConnection
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.acceptance.client_certificates import ClientAuthority
from tests.acceptance.process import FREE_PORTS, HTTP_SERVERS, PROCESS_COUNT, BrokerProcess, run_to_end, value_of
from tests.acceptance.telnet import publish
from tests.acceptance.tools import MAX_SECONDS
from tests.acceptance.users import UsersFile
from tests.serving import make_certificates

pytestmark = pytest.mark.acceptance

EVERYWHERE = ("-monitor-host", "0.0.0.0")


@pytest.fixture
def users(tmp_path) -> UsersFile:
    return UsersFile(tmp_path)


def ask(broker: BrokerProcess, path: str, ca: str, token: str | None = None, *pair: str) -> bytes:
    """Return what a client hears that trusts `ca`, and shows a token or has a certificate and its key."""
    context = ssl.create_default_context(cafile=ca)
    if pair:
        context.load_cert_chain(*pair)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = Request(f"https://localhost:{broker.monitor_port}{path}", headers=headers)
    with urlopen(request, timeout=MAX_SECONDS, context=context) as answer:
        body: bytes = answer.read()
    return body


#: More than there may be at a time, in one of the processes at least.
CROWD = 120 * PROCESS_COUNT


def says_nothing(broker: BrokerProcess, number: int) -> socket.socket:
    source = f"127.0.0.{2 + number % 6}", 0
    return socket.create_connection(("127.0.0.1", broker.monitor_port), MAX_SECONDS, source)


@cache
def trusting() -> ssl.SSLContext:
    """Return one context for all strangers: the first must not wait for the last as long as the broker lets them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def agrees_on_tls(broker: BrokerProcess, number: int) -> socket.socket:
    return trusting().wrap_socket(says_nothing(broker, number))


def begins_a_request(broker: BrokerProcess, number: int) -> socket.socket:
    connection = agrees_on_tls(broker, number)
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    return connection


def has_had_a_reply(broker: BrokerProcess, number: int) -> socket.socket:
    connection = agrees_on_tls(broker, number)
    connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert connection.recv(1000).startswith(b"HTTP/1.1 401")
    return connection


@contextmanager
def crowd(broker: BrokerProcess, stranger) -> Iterator[None]:
    """Open as many connections as `CROWD`, and keep them open until the block ends."""
    with ExitStack() as opened:
        for number in range(CROWD):
            opened.enter_context(stranger(broker, number))
        yield


@pytest.mark.parametrize("stranger", [says_nothing, agrees_on_tls, begins_a_request, has_had_a_reply])
def test_strangers_who_stay_do_not_keep_out_probes_and_scrapes(start_broker, trust, users, stranger):
    token = users.add("watch", "-monitor", "*")
    broker = start_broker("data", "-users", str(users.path), *EVERYWHERE)
    scraper = HTTPSConnection(
        "localhost", broker.monitor_port, timeout=MAX_SECONDS, context=ssl.create_default_context(cafile=trust.ca)
    )

    def scrape() -> int:
        scraper.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        with scraper.getresponse() as answer:
            answer.read()
        return answer.status

    assert scrape() == 200
    kept = scraper.sock
    with crowd(broker, stranger):
        for _ in range(3):
            assert json.loads(ask(broker, "/livez", trust.ca)) == {"status": "ok"}
            assert json.loads(ask(broker, "/readyz", trust.ca)) == {"status": "ok"}
            assert value_of("miniqueue_topics", ask(broker, "/metrics", trust.ca, token)) == 0
        assert scrape() == 200
    assert scraper.sock is kept, "who has signed in makes no room"
    scraper.close()
    broker.wait_for_line("one that had not signed in was closed")
    broker.stop()


@pytest.mark.parametrize("http_server", HTTP_SERVERS)
def test_probes_are_for_everybody_and_the_rest_for_users(start_broker, trust, users, http_server):
    token = users.add("watch", "-monitor", "*")
    broker = start_broker("data", "-users", str(users.path), *EVERYWHERE, "-http-server", http_server)
    for path in ("/livez", "/readyz"):
        assert json.loads(ask(broker, path, trust.ca)) == {"status": "ok"}
    for path in ("/metrics", "/stats", "/backup"):
        with pytest.raises(HTTPError, match="401"):
            ask(broker, path, trust.ca)
    assert value_of("miniqueue_topics", ask(broker, "/metrics", trust.ca, token)) == 0
    with pytest.raises((OSError, HTTPException)):
        broker.monitor("/livez")  # not TLS
    broker.stop()


def test_a_client_certificate_is_optional_and_stands_for_its_user(start_broker, trust, users, tmp_path):
    authority = ClientAuthority(tmp_path)
    users.run("add", "-monitor", "*", "-certificate", "CN=watch,O=Example", "watch")
    broker = start_broker("data", "-users", str(users.path), "-client-ca", str(authority.path), *EVERYWHERE)
    assert ask(broker, "/livez", trust.ca)
    with pytest.raises(HTTPError, match="401"):
        ask(broker, "/metrics", trust.ca)
    assert ask(broker, "/metrics", trust.ca, None, *authority.issue("watch", "Example"))
    broker.stop()


def test_backup_and_export_reach_it_over_tls(start_broker, trust, users, tmp_path):
    users.add("boss", "-admin", "*")
    broker = start_broker("data", "-users", str(users.path), *EVERYWHERE)
    port = ("-monitor-port", str(broker.monitor_port), "-token-file", users.token_file("boss"))
    for number, where in enumerate((EVERYWHERE, ("-monitor-host", "localhost"), ())):
        done = run_to_end("backup", *where, *port, "-ca", trust.ca, f"copy-{number}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = run_to_end("export", *EVERYWHERE, *port, "-ca", trust.ca, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run_to_end("backup", *EVERYWHERE, *port, "untrusted", cwd=tmp_path)
    assert done.returncode == 69
    assert "certificate verify failed" in done.stderr
    done = run_to_end("backup", *EVERYWHERE, *port, "-ca", "no.pem", "untrusted", cwd=tmp_path)
    assert done.returncode == 78
    assert "flag -ca: " in done.stderr
    broker.stop()


def test_it_gets_a_renewed_certificate_too(start_broker, users, tmp_path):
    users.add("watch", "-monitor", "*")
    served, renewed = (make_certificates(tmp_path / name) for name in ("served", "renewed"))
    flags = ("-cert", str(served.cert), "-key", str(served.key), "-users", str(users.path))
    broker = start_broker("data", *flags, *EVERYWHERE)
    address = "127.0.0.1", broker.monitor_port
    assert ssl.get_server_certificate(address) == served.cert.read_text()
    os.replace(renewed.cert, served.cert)
    os.replace(renewed.key, served.key)
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_events("certificate loaded")
    assert ssl.get_server_certificate(address) == served.cert.read_text()
    broker.stop()


def test_without_users_it_is_refused_unless_somebody_insists(start_broker, trust, tmp_path):
    done = run_to_end(*FREE_PORTS, *EVERYWHERE, cwd=tmp_path)
    assert done.returncode == 78
    assert "flag -monitor-host: 0.0.0.0 can be reached from other machines" in done.stderr
    broker = start_broker("data", *EVERYWHERE, "-insecure")
    broker.wait_for_line("may read all messages and metrics (-insecure)")
    publish(broker.resp_port, "orders", "1")
    assert b'topic="orders"' in ask(broker, "/metrics", trust.ca)
    broker.stop()
