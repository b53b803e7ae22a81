"""What a tool says when the broker does not give it a whole store."""

import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

import pytest

from miniqueue.errors import ConnectError, DisconnectedError, ServerError
from miniqueue.tools import arguments
from miniqueue.tools.source import stores_of
from miniqueue.wire.pair_stream import MAGIC, encode_end, encode_pairs

PAIRS = [(b"a", b"1"), (b"b", b"2")]
WHOLE = MAGIC + encode_pairs(PAIRS) + encode_end(2)

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def received_from():
    """Return what a tool receives from a server that answers like this."""
    servers: list[HTTPServer] = []

    def received_from(answer: Answer, *flags: str) -> list[tuple[bytes, bytes]]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                answer(self)
                self.close_connection = True

            def log_message(self, *_arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        return received_on(server.server_port, *flags)

    yield received_from
    for server in servers:
        server.shutdown()
        server.server_close()


def received_on(port: int, *flags: str) -> list[tuple[bytes, bytes]]:
    words = [f"-monitor-port={port}", *flags]
    given = arguments.read(words, {}, "", settings=("db", "monitor-port"), own=("token-file",))
    assert isinstance(given, arguments.Arguments)
    with stores_of(given) as stores, stores.pairs() as pairs:
        return [pair for _, pair in pairs]


def answering(body: bytes, *, status: int = 200, promised_bytes: int | None = None) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("content-length", str(len(body) if promised_bytes is None else promised_bytes))
        request.end_headers()
        request.wfile.write(body)

    return answer


def test_a_whole_stream_is_received(received_from):
    assert received_from(answering(WHOLE)) == PAIRS


@pytest.mark.parametrize("length", [0, 5, len(MAGIC), len(WHOLE) - 1])
def test_a_stream_that_ends_too_soon_is_noticed_however_it_ends(received_from, length):
    with pytest.raises(DisconnectedError, match="is incomplete: the broker aborted the backup"):
        received_from(answering(WHOLE[:length]))
    with pytest.raises(DisconnectedError, match="is incomplete"):
        received_from(answering(WHOLE[:length], promised_bytes=len(WHOLE)))


def test_something_else_on_that_port_is_noticed(received_from):
    with pytest.raises(DisconnectedError, match="not the content of a store"):
        received_from(answering(b"<html>"))
    with pytest.raises(ConnectError, match="no broker answers"):
        received_from(lambda request: request.wfile.write(b"+PONG\r\n"))


def test_a_refusal_is_passed_on(received_from):
    with pytest.raises(ServerError, match=re.escape('the broker refused: 503 {"error":"shutting down"}')):
        received_from(answering(b'{"error":"shutting down"}', status=503))


@pytest.mark.parametrize(
    ("status", "has_token", "hint"),
    [
        (401, False, "pass -token-file with the token of a user with the role admin for '*'"),
        (401, True, "no user has the token of -token-file"),
        (403, True, "the user of -token-file requires the role admin for '*'"),
    ],
)
def test_a_refusal_of_a_broker_with_users_says_what_to_pass(received_from, tmp_path, status, has_token, hint):
    (tmp_path / "token").write_text("secret\n")
    flags = [f"-token-file={tmp_path / 'token'}"] if has_token else []
    with pytest.raises(ServerError, match=re.escape(f'the broker refused: {status} {{"error":"no"}}; {hint}')):
        received_from(answering(b'{"error":"no"}', status=status), *flags)


def of_shards(request: BaseHTTPRequestHandler) -> None:
    """Answer as a broker with two shards."""
    if request.path == "/backup":
        answering(b'{"error":"each shard has a store","code":"CROSSSHARD","shards":2}', status=400)(request)
        return
    number = ["/shards/0/backup?cut=1", "/shards/1/backup?cut=1"].index(request.path)
    body = MAGIC + encode_pairs(PAIRS[number : number + 1]) + encode_end(1)
    answering(body[:4], promised_bytes=len(body))(request)
    assert request.headers["transfer-encoding"] == "chunked"
    assert request.rfile.read(5) == b"0\r\n\r\n"  # which comes when both have begun
    request.wfile.write(body[4:])


def test_stores_of_all_shards_are_received_at_the_same_time(received_from):
    assert sorted(received_from(of_shards)) == PAIRS  # in which order they come depends on the network


@pytest.mark.parametrize("count", [b"1", b"65", b"10000000000000000", b'"2"', b"null", b"2.5", b"true"])
def test_a_wrong_number_of_shards_is_only_a_refusal(received_from, count):
    with pytest.raises(ServerError, match=r"^the broker refused: 400"):
        received_from(answering(b'{"error":"no","shards":' + count + b"}", status=400))


def test_nobody_there_is_told_with_the_port():
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1 \(-monitor-port\)"):
        received_on(1)
