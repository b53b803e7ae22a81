"""Consumers that ask and never read what they get, over RESP and over HTTP/2, with buffers of their own kept small."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import h2.config
import h2.connection

from tests.acceptance.tools import MAX_SECONDS

RECEIVE_BUFFER_BYTES = 4096


def _connected(stack: ExitStack, port: int) -> socket.socket:
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    connection.settimeout(MAX_SECONDS)
    connection.connect(("127.0.0.1", port))
    return connection


@contextmanager
def over_resp(port: int, words: bytes, count: int) -> Iterator[None]:
    """Send `words` on `count` connections, as far as they are taken."""
    with ExitStack() as stack:
        for _ in range(count):
            connection = _connected(stack, port)
            connection.setblocking(False)
            unsent = memoryview(words)
            with suppress(BlockingIOError):
                while unsent:
                    unsent = unsent[connection.send(unsent) :]
        yield


@contextmanager
def over_http(port: int, ca: str, path: str, count: int) -> Iterator[None]:
    """Begin a stream on each of `count` connections, and ask for messages."""
    context = ssl.create_default_context(cafile=ca)
    context.set_alpn_protocols(["h2"])
    with ExitStack() as stack:
        for _ in range(count):
            raw = _connected(stack, port)
            stack.enter_context(context.wrap_socket(raw, server_hostname="localhost")).sendall(_request(path))
        yield


def _request(path: str) -> bytes:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    connection.send_headers(
        1, [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
    )
    connection.send_data(1, b'"INIT"\n')
    return connection.data_to_send()
