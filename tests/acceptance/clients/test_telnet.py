"""People with telnet: lines of words, over a real connection, with users and without."""

import socket

import pytest

from tests.acceptance.telnet import Telnet
from tests.acceptance.tools import MAX_SECONDS
from tests.acceptance.users import PASSWORD, UsersFile

pytestmark = pytest.mark.acceptance


class Typing(Telnet):
    """A connection that types lines, each in two pieces as terminals may send them."""

    def type(self, line: str) -> None:
        middle = len(line) // 2
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(line[:middle].encode())
        self.socket.sendall(line[middle:].encode() + b"\r\n")

    def answer(self, line: str, end: bytes = b"\r\n") -> bytes:
        self.type(line)
        return self.read_until(end)


def test_a_message_is_published_taken_and_acknowledged_by_hand(broker, topic):
    with Typing(broker.resp_port) as one, Typing(broker.resp_port) as other:
        assert one.answer(f'PUB {topic} "two words"', b"0-0\r\n") == b"$3\r\n0-0\r\n"
        assert other.answer(f"GET {topic}", b"words\r\n") == b"$9\r\ntwo words\r\n"
        assert one.answer(f"GET {topic}") == b"$-1\r\n"
        assert other.answer(f"BACK {topic}") == b"+OK\r\n"
        assert one.answer(f"GET {topic}", b"words\r\n") == b"$9\r\ntwo words\r\n"
        one.type("QUIT")
        assert one.read_to_close() == b"+OK\r\n"
        assert other.answer(f"SUB {topic}", b"words\r\n") == b"$9\r\ntwo words\r\n"
        assert other.answer("ACK") == b"+OK\r\n"
        assert other.socket.gettimeout() == MAX_SECONDS


def test_http_and_other_lines_still_end_the_connection(broker):
    topic = "never-published-to"
    for line, answer in (
        (f"POST /publish/{topic} HTTP/1.1", b""),
        ("GET / HTTP/1.1", b""),
        (f"PUB {topic} HTTP/1.1", b""),
        ("Host: localhost", b""),
        (f"PUBLISH {topic} x", b"-ERR Protocol error: only "),
        (f"PUB {topic} " + "x" * 1024, b"-ERR Protocol error: too big inline request"),
    ):
        with Typing(broker.resp_port) as telnet:
            telnet.type(line)
            assert telnet.read_to_close().startswith(answer)
    assert topic.encode() not in broker.monitor("/stats")


def test_who_has_not_signed_in_types_who_it_is_and_nothing_else(start_broker, tmp_path):
    users = UsersFile(tmp_path)
    users.add_with_password("ada", "-publisher", "*", "-subscriber", "*")
    broker = start_broker("data", "-users", str(users.path))
    with Typing(broker.resp_port) as telnet:
        telnet.type("PUB letters x")
        assert telnet.read_to_close().startswith(
            b"-ERR Protocol error: only AUTH, HELLO, PING, QUIT can be sent inline"
        )
    with Typing(broker.resp_port) as telnet:
        assert telnet.answer("AUTH ada wrong").startswith(b"-WRONGPASS ")
        assert telnet.answer(f'AUTH ada "{PASSWORD}"') == b"+OK\r\n"
        assert telnet.answer("PUB letters x", b"0-0\r\n") == b"$3\r\n0-0\r\n"
        assert telnet.answer("GET letters", b"x\r\n") == b"$1\r\nx\r\n"
        assert telnet.answer("ACK letters") == b"+OK\r\n"
