"""Requests of HTTP/1.1 that servers read in different ways: a proxy that reads another end would let requests through.

The cases are those that are published of proxies and servers: chunks, trailers, blanks, two lengths, versions. Each is
answered the same on both HTTP servers, refused or served, and never with 500; what follows it is not carried out.
"""

import socket
import ssl
from contextlib import suppress

import pytest

from tests.acceptance.process import Trust
from tests.acceptance.tools import HTTP_SERVERS, on_both_http_servers

pytestmark = [pytest.mark.acceptance, on_both_http_servers]

HYPERCORN = HTTP_SERVERS[0]
HOST = b"Host: localhost\r\n"
POST = b"POST /publish/smuggled HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b"4\r\nbody\r\n0\r\n\r\n"
#: A second request in the same bytes; the client of a proxy would have it carried out as if it were another's.
SMUGGLED = b"DELETE /topics/kept HTTP/1.1\r\n" + HOST + b"\r\n"

SERVED = {
    "chunks": CHUNKED + BODY,
    "a chunk extension": CHUNKED + b"4;name=value\r\nbody\r\n0\r\n\r\n",
    "a size in capitals with zeros": CHUNKED + b"0004\r\nbody\r\n000\r\n\r\n",
    "a length": POST + b"Content-Length: 4\r\n\r\nbody",
    "the same length twice": POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
}
REFUSED = {
    "a bare CR in a chunk extension": CHUNKED + b"4;a\rb\r\nbody\r\n0\r\n\r\n",
    "a bare LF in a chunk extension": CHUNKED + b"4;a\nb\r\nbody\r\n0\r\n\r\n",
    "LF after the size of a chunk": CHUNKED + b"4\nbody\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"4\r\nbodyXX0\r\n\r\n",
    "a size with a prefix": CHUNKED + b"0x4\r\nbody\r\n0\r\n\r\n",
    "a size with a sign": CHUNKED + b"+4\r\nbody\r\n0\r\n\r\n",
    "a negative size": CHUNKED + b"-1\r\nbody\r\n0\r\n\r\n",
    "a size that overflows": CHUNKED + b"10000000000000004\r\nbody\r\n0\r\n\r\n",
    "a folded trailer": CHUNKED + b"4\r\nbody\r\n0\r\nX: 1\r\n folded\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 50\r\n\r\nbody",
    "a length with a sign": POST + b"Content-Length: +4\r\n\r\nbody",
    "a negative length": POST + b"Content-Length: -1\r\n\r\nbody",
    "a length in hexadecimal digits": POST + b"Content-Length: 0x4\r\n\r\nbody",
    "a length with an underscore": POST + b"Content-Length: 0_4\r\n\r\nbody",
    "a length in other digits": POST + "Content-Length: ٤\r\n\r\nbody".encode(),
    "a blank before the colon": POST + b"Content-Length : 4\r\n\r\nbody",
    "a folded header": POST + b"X: a\r\n b\r\nContent-Length: 4\r\n\r\nbody",
    "a header that begins with a blank": POST + b" Content-Length: 4\r\n\r\nbody",
    "a coding with a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + BODY,
    "a coding of HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + BODY,
    "NUL in a header": POST + b"X: a\0b\r\nContent-Length: 4\r\n\r\nbody",
    "CR in a header": POST + b"X: a\rb\r\nContent-Length: 4\r\n\r\nbody",
    "another version": POST.replace(b"HTTP/1.1", b"HTTP/1.7") + b"Content-Length: 4\r\n\r\nbody",
    "a blank in the path": POST.replace(b"smuggled", b"smuggled x") + b"Content-Length: 4\r\n\r\nbody",
    "two hosts": POST + b"Host: other\r\nContent-Length: 4\r\n\r\nbody",
    "CONNECT to a host": b"CONNECT localhost:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT to a path": b"CONNECT /publish/smuggled HTTP/1.1\r\n" + HOST + b"\r\n",
}
#: What Granian reads in one of the ways that are allowed, without a trace for the application.
REFUSED_BY_HYPERCORN = {
    "a trailer": CHUNKED + b"4\r\nbody\r\n0\r\nX: 1\r\n\r\n",
    "a length as a trailer": CHUNKED + b"4\r\nbody\r\n0\r\nContent-Length: 9\r\n\r\n",
    "a blank after the size of a chunk": CHUNKED + b"4 \r\nbody\r\n0\r\n\r\n",
    "a length and a coding": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY,
    "LF at the ends of lines": POST.replace(b"\r\n", b"\n") + b"Content-Length: 4\n\nbody",
    "two codings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY,
}


@pytest.fixture(scope="module")
def say(broker, trust: Trust):
    """Send bytes on a connection of their own; return the statuses of the replies."""
    context = ssl.create_default_context(cafile=trust.ca)
    context.set_alpn_protocols(["http/1.1"])

    def say(data: bytes) -> list[bytes]:
        plain = socket.create_connection(("127.0.0.1", broker.https_port), 10)
        with plain, context.wrap_socket(plain, server_hostname="localhost") as peer:
            peer.sendall(data)
            received = b""
            # A server that waits for more of the request does not close: its reply has a length, or there is none.
            with suppress(TimeoutError, ConnectionError):
                while part := peer.recv(1 << 16):
                    received += part
                    peer.settimeout(0.2)
        return [line.split()[1] for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.")]

    return say


@pytest.mark.parametrize("case", SERVED)
def test_plain_requests_are_served(say, case):
    assert say(SERVED[case]) == [b"201"]


@pytest.mark.parametrize("case", REFUSED | REFUSED_BY_HYPERCORN)
def test_what_has_two_meanings_is_refused_with_all_that_follows(say, http_server, case):
    if case in REFUSED:
        assert say(REFUSED[case] + SMUGGLED) == [b"400"]
    elif http_server == HYPERCORN:
        (status,) = say(REFUSED_BY_HYPERCORN[case] + SMUGGLED)
        assert status in (b"400", b"501")
    else:
        assert say(REFUSED_BY_HYPERCORN[case]) == [b"201"]


def test_nothing_is_smuggled(say):
    assert say(POST.replace(b"smuggled", b"kept") + b"Content-Length: 4\r\n\r\nbody") == [b"201"]
    for case, data in REFUSED.items():
        say(data + SMUGGLED)
        assert say(b"GET /topics/kept HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n") == [b"200"], case
