import asyncio
import socket

import pytest

from miniqueue.errors import CertificateError, ListenError
from miniqueue.server.asgi.replies import OK
from miniqueue.server.hypercorn.listening import CONNECTION_OPTIONS, listen, serve_https


def test_port_zero_takes_a_free_port():
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0


def test_name_is_looked_up():
    with listen("localhost", 0) as listener:
        assert listener.getsockname()[0] in ("127.0.0.1", "::1")


def test_taken_port_is_named():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            ListenError, match=rf"^cannot listen on 127.0.0.1:{port}: Address already in use \(-port\)$"
        ) as caught:
            listen("127.0.0.1", port)
        assert (caught.value.host, caught.value.port) == ("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_impossible_host_is_named(host):
    with pytest.raises(ListenError, match=rf"^cannot listen on {host}:0: "):
        listen(host, 0)


def test_port_can_be_taken_again_at_once():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, listener.accept()[0]:
            pass
        client.close()
    listen("127.0.0.1", port).close()


def test_connections_write_at_once_and_notice_when_the_peer_is_gone_without_a_word():
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert [accepted.getsockopt(level, name) for level, name, _ in CONNECTION_OPTIONS] == [1, 1, 60, 15, 4]


def test_certificate_that_cannot_be_used_is_reported(tmp_path):
    async def scenario():
        with listen("127.0.0.1", 0) as listener:
            await serve_https(OK, listener, tmp_path / "no.pem", tmp_path / "no-key.pem", asyncio.Event().wait)

    with pytest.raises(CertificateError, match=r"no\.pem"):
        asyncio.run(scenario())


async def test_cancelling_the_server_is_not_swallowed(certificates):
    listener = listen("127.0.0.1", 0)
    server = asyncio.create_task(serve_https(OK, listener, certificates.cert, certificates.key, asyncio.Event().wait))
    await asyncio.sleep(0)
    server.cancel()
    with pytest.raises(asyncio.CancelledError):
        await server
