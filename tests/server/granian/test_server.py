"""Granian in this process: what the acceptance tests, which run on both servers, cannot see from outside."""

import asyncio
import base64
import socket
import ssl
import threading
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import h2.config
import h2.connection
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from miniqueue.errors import CertificateError, InternalError
from miniqueue.server.asgi.replies import CREATED, NOT_FOUND, OK, begin_json_lines
from miniqueue.server.granian import server as granian_server
from miniqueue.server.granian.server import serve_https
from miniqueue.server.hypercorn.listening import listen
from miniqueue.server.security.certificates import Certificates
from tests.fakes import FakeConsumer
from tests.serving import Lines, eventually, serving

SECONDS = 60


@asynccontextmanager
async def limited(seconds=SECONDS):
    async with asyncio.timeout(seconds):
        yield


def run(scenario, seconds=SECONDS):
    async def limited():
        async with asyncio.timeout(seconds):
            await scenario()

    asyncio.run(limited())


class Floods:
    """An application that sends until it must stop, and watches for the client's end."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.is_blocked = asyncio.Event()
        self.has_left = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await begin_json_lines(send)
        watching = asyncio.create_task(self._watch(receive))
        while not self.has_left.is_set():
            sending = asyncio.ensure_future(
                send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
            )
            _, waiting = await asyncio.wait((sending,), timeout=0.5)
            if waiting:
                self.is_blocked.set()
                await self.has_left.wait()
            await sending
            self.sent_bytes += 65536
        await watching

    async def _watch(self, receive):
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left.set()


class Answers:
    """An application whose answer the test holds back."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.has_begun.set()
        await self.may_end.wait()
        await CREATED(scope, receive, send)


async def test_a_stream_goes_both_ways_at_once(certificates):
    async with limited(), serving(certificates, serve=serve_https) as served:
        stream = await served.begin("/subscribe/t")
        assert await stream.response() == 200  # before anything is said or published
        lines = Lines(stream)
        for number in range(10):
            lines.say("INIT" if number == 0 else "ACK")
            await served.request("POST", "/publish/t", b"x" * number)
            line = await lines.hear()
            assert line == ({"msg": base64.b64encode(b"x" * number).decode()} if number else {})


def consumers(served) -> int:
    return sum(topic.consumers for topic in served.broker.stats().values())


@pytest.mark.parametrize("is_waiting", [False, True], ids=["with a message", "waiting"])
async def test_who_disconnects_gives_back_what_he_holds(certificates, is_waiting):
    async with limited(), serving(certificates, serve=serve_https) as served:
        lines = Lines(await served.begin("/subscribe/t"))
        lines.say("INIT")
        if not is_waiting:
            await served.request("POST", "/publish/t", b"mine")
            await lines.hear()
        await eventually(lambda: consumers(served) == 1)
        served.clients[0].close()
        await eventually(lambda: consumers(served) == 0)
        await served.request("POST", "/publish/t", b"after")
        assert FakeConsumer(served.broker, b"t").drain() == ([] if is_waiting else [b"mine"]) + [b"after"]


async def test_who_does_not_read_makes_the_sender_wait_and_his_leaving_is_noticed(certificates):
    async with limited():
        app = Floods()
        async with serving(certificates, app, serve=serve_https) as served:
            stream = await served.begin("/")
            await stream.response()
            await app.is_blocked.wait()
            assert app.sent_bytes < 4 << 20
            served.clients[0].close()
            await app.has_left.wait()


async def test_a_request_under_way_is_answered_at_a_stop(certificates):
    async with limited():
        app = Answers()
        async with serving(certificates, app, serve=serve_https) as served:
            request = asyncio.create_task(served.request("POST", "/", b"x"))
            await app.has_begun.wait()
            served.shutdown.set()
            app.may_end.set()
            assert await request == (201, b"")


async def test_a_request_that_does_not_end_does_not_keep_a_stop(certificates, monkeypatch):
    monkeypatch.setattr(granian_server, "GRACEFUL_SECONDS", 0.1)
    monkeypatch.setattr(granian_server, "CLOSE_SECONDS", 0.1)

    async with limited():
        app = Answers()
        async with serving(certificates, app, serve=serve_https) as served:
            request = asyncio.create_task(served.request("POST", "/", b"x"))
            await app.has_begun.wait()
            await served.stop()
            app.may_end.set()
            request.cancel()


async def test_a_connection_that_nobody_reads_does_not_keep_a_stop(certificates, monkeypatch):
    monkeypatch.setattr(granian_server, "GRACEFUL_SECONDS", 0.1)
    monkeypatch.setattr(granian_server, "CLOSE_SECONDS", 0.1)

    async with limited():
        app = Floods()
        async with serving(certificates, app, serve=serve_https) as served:
            with await asyncio.to_thread(deaf_client, served):
                await app.is_blocked.wait()
                await served.stop()


def deaf_client(served) -> ssl.SSLSocket:
    """Return a connection with one request on it, of which nothing is ever read again."""
    context = ssl.create_default_context(cafile=served.cafile)
    context.set_alpn_protocols(["h2"])
    connection = h2.connection.H2Connection(h2.config.H2Configuration())
    connection.initiate_connection()
    headers = [(":method", "POST"), (":path", "/"), (":scheme", "https"), (":authority", "localhost")]
    connection.send_headers(1, headers)
    plain = socket.create_connection(("127.0.0.1", served.port), SECONDS)
    client = context.wrap_socket(plain, server_hostname="localhost")
    client.sendall(connection.data_to_send())
    return client


def test_a_stop_leaves_no_thread_and_no_port(certificates):
    before = set(threading.enumerate())

    async def scenario():
        async with serving(certificates, OK, serve=serve_https) as served:
            assert await served.request("GET", "/") == (200, b"")
            await served.stop()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", served.port), SECONDS)

    run(scenario)
    assert set(threading.enumerate()) <= before  # those of other tests may end


async def test_an_application_that_fails_is_logged_and_answered_with_500(certificates, caplog):
    async def broken(scope, receive, send):
        raise RuntimeError("out of cheese")

    async with limited(), serving(certificates, broken, serve=serve_https) as served:
        status, _ = await served.request("POST", "/", b"x")
        assert status == 500
    assert "out of cheese" in caplog.text


@pytest.mark.parametrize("size_bytes", [0, 10, 1 << 20])
async def test_an_early_reply_arrives_although_the_request_is_not_read(certificates, size_bytes):
    async with limited(), serving(certificates, NOT_FOUND, serve=serve_https) as served:
        assert (await served.request("POST", "/", bytes(size_bytes)))[0] == 404


async def test_a_certificate_that_cannot_be_used_is_reported(tmp_path):
    async with limited():
        with listen("127.0.0.1", 0) as listener, pytest.raises(CertificateError, match=r"no\.pem"):
            await serve_https(OK, listener, tmp_path / "no.pem", tmp_path / "no-key.pem", asyncio.Event().wait)


def write_pair(directory: Path, key, digest: hashes.HashAlgorithm | None) -> tuple[Path, Path]:
    """Write a certificate that the key has signed itself, and the key."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2120, 1, 1))
    cert_path, key_path = directory / "cert.pem", directory / "key.pem"
    cert_path.write_bytes(builder.sign(key, digest).public_bytes(Encoding.PEM))
    key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return cert_path, key_path


REFUSED_KEYS = {
    "P-521": lambda: (ec.generate_private_key(ec.SECP521R1()), hashes.SHA256()),
    "Ed448": lambda: (ed448.Ed448PrivateKey.generate(), None),
}


@pytest.mark.parametrize("kind", REFUSED_KEYS)
async def test_a_key_that_granian_does_not_know_is_reported(tmp_path, kind):
    cert, key = write_pair(tmp_path, *REFUSED_KEYS[kind]())

    async with limited():
        with (
            listen("127.0.0.1", 0) as listener,
            pytest.raises(CertificateError, match="not supported by Granian"),
        ):
            await serve_https(OK, listener, cert, key, asyncio.Event().wait)


KNOWN_KEYS = {
    "RSA": lambda: (rsa.generate_private_key(65537, 2048), hashes.SHA256()),
    "P-384": lambda: (ec.generate_private_key(ec.SECP384R1()), hashes.SHA256()),
    "Ed25519": lambda: (ed25519.Ed25519PrivateKey.generate(), None),
}


@pytest.mark.parametrize("kind", KNOWN_KEYS)
async def test_other_keys_will_do(tmp_path, kind):
    cert, key = write_pair(tmp_path, *KNOWN_KEYS[kind]())

    async with limited(), serving(Certificates(cert, key), OK, serve=serve_https) as served:
        context = ssl.create_default_context(cafile=str(cert))
        context.check_hostname = False
        _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=context)
        writer.close()
        await writer.wait_closed()


def test_granian_that_does_not_start_is_an_error(certificates, monkeypatch):
    def refuse(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(granian_server, "SocketHolder", refuse)

    async def scenario():
        with listen("127.0.0.1", 0) as listener, pytest.raises(InternalError, match="Granian"):
            await serve_https(OK, listener, certificates.cert, certificates.key, asyncio.Event().wait)

    run(scenario)


async def test_cancelling_the_server_is_not_swallowed(certificates):
    async with limited():
        listener = listen("127.0.0.1", 0)
        server = asyncio.create_task(
            serve_https(OK, listener, certificates.cert, certificates.key, asyncio.Event().wait)
        )
        await asyncio.sleep(0)
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server
