"""A renewed certificate comes into use without a restart; one that cannot be used does not."""

import asyncio
import os
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import structlog.testing

from miniqueue.server.hypercorn.listening import serve_https
from miniqueue.server.monitor.metrics import CERTIFICATE_ROWS
from miniqueue.server.process.metric_rows import RowCollector
from miniqueue.server.security.certificates import HTTP_PROTOCOLS, Certificates, ensure_certificates
from miniqueue.server.security.file_watch import CHECK_SECONDS, watch
from miniqueue.server.security.tls import ServerTls
from tests.server.apps import Endpoint, answer_early
from tests.server.security.test_certificates import shake_hands
from tests.serving import make_certificates, serving

REFUSAL = "certificate not loaded; the previous one stays in use"


@pytest.fixture
def certs(tmp_path) -> Certificates:
    return make_certificates(tmp_path / "certs")


@pytest.fixture
def other(tmp_path) -> Certificates:
    """Another pair, of an authority of its own."""
    return make_certificates(tmp_path / "other")


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as entries:
        yield entries


def encoded(certs: Certificates) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certs.cert.read_text())


def careless() -> ssl.SSLContext:
    """Return the context of a client that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def served_by(context: ssl.SSLContext) -> bytes:
    """Return the certificate that a new connection gets."""
    _, client = shake_hands(context, careless(), "localhost")
    return client.getpeercert(True)


def replace(certs: Certificates, other: Certificates) -> None:
    os.replace(other.cert, certs.cert)
    os.replace(other.key, certs.key)


def events(logged) -> list[str]:
    return [entry["event"] for entry in logged]


def test_new_connections_of_all_listeners_get_the_new_certificate(certs, other, logged):
    tls = ServerTls(certs.cert, certs.key)
    contexts = [tls.context(HTTP_PROTOCOLS), tls.context(())]
    before, after = encoded(certs), encoded(other)
    assert [served_by(context) for context in contexts] == [before] * 2
    replace(certs, other)
    assert [served_by(context) for context in contexts] == [before] * 2
    tls.reload()
    assert [served_by(context) for context in contexts] == [after] * 2
    assert events(logged) == ["certificate loaded"]
    assert logged[0]["valid_until"] == f"{tls.expires_at:%Y-%m-%d %H:%M} UTC"


def test_a_connection_keeps_the_certificate_that_it_began_with(certs, other):
    tls = ServerTls(certs.cert, certs.key)
    server, client = shake_hands(tls.context(HTTP_PROTOCOLS), careless(), "localhost")
    before = encoded(certs)
    replace(certs, other)
    tls.reload()
    server.write(b"still here")
    assert client.read() == b"still here"
    assert client.getpeercert(True) == before


def test_the_new_context_offers_the_same_protocols(certs, other):
    tls = ServerTls(certs.cert, certs.key)
    context = tls.context(HTTP_PROTOCOLS)
    replace(certs, other)
    tls.reload()
    client = careless()
    client.set_alpn_protocols(["h2"])
    assert shake_hands(context, client, "localhost")[0].selected_alpn_protocol() == "h2"


BAD_CHANGES = {
    "a key of another certificate": (lambda certs, other: os.replace(other.key, certs.key), "it does not match"),
    "a certificate without its key": (lambda certs, other: os.replace(other.cert, certs.cert), "it does not match"),
    "no key": (lambda certs, other: certs.key.unlink(), "No such file"),
    "half a certificate": (lambda certs, other: certs.cert.write_bytes(certs.cert.read_bytes()[:200]), "damaged"),
    "no client authority": (lambda certs, other: certs.cert.with_name("ca.pem").unlink(), "client authority"),
}


@pytest.mark.parametrize("change", BAD_CHANGES)
@pytest.mark.parametrize("act", [ServerTls.reload, ServerTls.reload_if_changed])
def test_files_that_cannot_be_used_leave_the_previous_certificate_and_the_log_says_so(
    certs, other, logged, change, act
):
    tls = ServerTls(certs.cert, certs.key, certs.cert.with_name("ca.pem"))
    context = tls.context(HTTP_PROTOCOLS)
    inner, end = context.inner, tls.expires_at
    bring_about, problem = BAD_CHANGES[change]
    bring_about(certs, other)
    act(tls)
    assert context.inner is inner
    assert tls.expires_at == end
    assert events(logged) == [REFUSAL]
    assert problem in logged[0]["problems"][0]


def test_a_look_says_a_problem_once_and_loads_the_pair_when_it_fits(certs, other, logged):
    tls = ServerTls(certs.cert, certs.key)
    context = tls.context(HTTP_PROTOCOLS)
    after = encoded(other)
    os.replace(other.cert, certs.cert)
    for _ in range(3):
        tls.reload_if_changed()
    assert events(logged) == [REFUSAL]
    tls.reload()
    assert events(logged) == [REFUSAL] * 2, "a reload on request logs the problem again"
    os.replace(other.key, certs.key)
    tls.reload_if_changed()
    assert served_by(context) == after
    assert events(logged) == [REFUSAL] * 2 + ["certificate loaded"]


def test_a_look_at_the_same_files_does_nothing(certs, logged):
    tls = ServerTls(certs.cert, certs.key)
    inner = tls.context(HTTP_PROTOCOLS).inner
    tls.reload_if_changed()
    assert logged == []
    assert tls.context(HTTP_PROTOCOLS).inner is not inner


def test_a_symbolic_link_that_leads_elsewhere_is_a_change(tmp_path, certs, other):
    """Kubernetes updates a volume in this way: tls.crt ─▶ ..data/tls.crt, and ..data ─▶ a directory of each version."""
    data = tmp_path / "..data"
    data.symlink_to(certs.cert.parent)
    tls = ServerTls(data / "cert.pem", data / "key.pem")
    context = tls.context(HTTP_PROTOCOLS)
    (tmp_path / "..next").symlink_to(other.cert.parent)
    os.replace(tmp_path / "..next", data)
    tls.reload_if_changed()
    assert served_by(context) == encoded(other)


def test_files_of_the_same_size_and_time_are_a_change(certs, other):
    tls = ServerTls(certs.cert, certs.key)
    context = tls.context(HTTP_PROTOCOLS)
    size = max(path.stat().st_size for path in (certs.cert, other.cert))
    for path in (certs.cert, other.cert):
        path.write_bytes(path.read_bytes().ljust(size, b"\n"))
        os.utime(path, (1, 1))
    tls.reload()
    after = ssl.PEM_cert_to_DER_cert(other.cert.read_text().strip() + "\n")
    replace(certs, other)
    tls.reload_if_changed()
    assert served_by(context) == after


def test_the_authorities_of_clients_are_loaded_too(tmp_path, certs, other):
    authority = tmp_path / "clients.pem"
    authority.write_bytes(certs.cert.with_name("ca.pem").read_bytes())
    tls = ServerTls(certs.cert, certs.key, authority)
    context = tls.context(HTTP_PROTOCOLS)
    authority.write_bytes(other.cert.with_name("ca.pem").read_bytes())
    tls.reload_if_changed()
    [loaded] = context.inner.get_ca_certs(binary_form=True)
    assert loaded == ssl.PEM_cert_to_DER_cert(authority.read_text())
    assert context.inner.verify_mode == ssl.CERT_REQUIRED


async def test_the_files_are_checked_every_30_seconds(certs, other):
    tls = ServerTls(certs.cert, certs.key)
    context = tls.context(HTTP_PROTOCOLS)
    before, after = encoded(certs), encoded(other)
    served = []

    async def sleep(seconds):
        served.append((seconds, served_by(context)))
        if len(served) == 1:
            replace(certs, other)
        else:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await watch("certificate", tls.reload_if_changed, sleep)
    assert served == [(CHECK_SECONDS, before), (CHECK_SECONDS, after)]
    assert CHECK_SECONDS == 30


async def test_a_check_that_fails_unexpectedly_is_logged_once_and_the_next_one_happens(certs, monkeypatch, logged):
    tls = ServerTls(certs.cert, certs.key)
    coming = [RuntimeError("a"), RuntimeError("a"), None, RuntimeError("a"), RuntimeError("b")]

    def check():
        if (fault := coming.pop(0)) is not None:
            raise fault

    async def sleep(seconds):
        if not coming:
            raise asyncio.CancelledError

    monkeypatch.setattr(tls, "reload_if_changed", check)
    with pytest.raises(asyncio.CancelledError):
        await watch("certificate", tls.reload_if_changed, sleep)
    event = "could not check for a changed certificate; the previous one stays in use"
    assert [(entry["event"], entry["log_level"]) for entry in logged] == [(event, "error")] * 3
    assert all(entry["exc_info"] for entry in logged)


def earlier(directory) -> Certificates:
    """Return a certificate that ends some days before the others."""
    now = datetime.now(UTC) - timedelta(days=3)
    return ensure_certificates(directory / "cert.pem", directory / "key.pem", may_create=True, now=now)


@pytest.mark.parametrize("requires_restart", [False, True])
def test_the_metric_is_when_the_certificate_in_use_ends(tmp_path, other, logged, requires_restart):
    old = earlier(tmp_path / "old")
    tls = ServerTls(old.cert, old.key, requires_restart=requires_restart)
    collector = RowCollector(CERTIFICATE_ROWS, lambda: tls.expires_at)

    def shown() -> float:
        [metric] = collector.collect()
        [sample] = metric.samples
        assert sample.name == "miniqueue_certificate_expiration_timestamp_seconds"
        return sample.value

    before = shown()
    assert before == tls.expires_at.timestamp()
    replace(old, other)
    tls.reload_if_changed()
    assert (shown() > before) is not requires_restart
    assert [event for event in events(logged) if "Granian requires a restart" in event] == (
        ["the HTTP port keeps the previous certificate; Granian requires a restart to load another one"]
        if requires_restart
        else []
    )


@pytest.mark.slow
async def test_the_http_server_uses_the_new_certificate(certs, other):
    tls = ServerTls(certs.cert, certs.key)
    serve = partial(serve_https, context=tls.context(HTTP_PROTOCOLS))

    async def certificate_of(port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=careless())
        certificate = writer.get_extra_info("ssl_object").getpeercert(True)
        writer.close()
        return certificate

    before, after = encoded(certs), encoded(other)
    async with serving(certs, Endpoint(answer_early), serve=serve) as served:
        client = await served.client()
        assert await certificate_of(served.port) == before
        replace(certs, other)
        tls.reload_if_changed()
        assert await certificate_of(served.port) == after
        stream = await client._begin(b"GET", b"/")
        stream.write(b"", is_last=True)
        assert await stream.response() == 200, "the old connection continues"
