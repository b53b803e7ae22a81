"""Connections at one process with topics of another: slow readers, QUIT, half-closed ones, requests and replies."""

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import hiredis
import pytest

from tests.acceptance.shards.conftest import SHARDS, ShardedBroker, nodes_in, topic_in
from tests.acceptance.tools import MAX_SECONDS, until

pytestmark = pytest.mark.acceptance

DOOR, OWNER, THIRD = range(SHARDS)
PAYLOAD = b"x" * 100_000
#: Of so many replies, each with all messages, only the first fit into the buffers of all processes and of the system.
MESSAGES, REPLIES = 10, 100
#: What the system holds for a client that does not read; without a limit, that can be all replies.
BUFFER_BYTES = 64 << 10
#: The limit of what a client has not read (-max-output) is far above what it costs, because processes stop reading.
UNREAD_BYTES = 32 << 20
#: A client that does not read is charged more than the first; what is charged to others is less than the second.
CHARGED_BYTES, GIVEN_BACK_BYTES = 64 << 10, 1 << 20


class Client:
    """A connection to the port of a shard."""

    def __init__(self, port: int, *, buffer_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.settimeout(MAX_SECONDS)
        self.socket.connect(("127.0.0.1", port))
        self._reader = hiredis.Reader(notEnoughData=self)

    def tell(self, *commands: tuple[bytes, ...]) -> None:
        self.socket.sendall(b"".join(map(hiredis.pack_command, commands)))

    def hear(self) -> object:
        """Return the next reply; None at the end."""
        while (reply := self._reader.gets()) is self:
            received = self.socket.recv(1 << 16)
            if not received:
                return None
            self._reader.feed(received)
        return reply

    def ask(self, *words: bytes) -> object:
        self.tell(words)
        return self.hear()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    with nodes_in(tmp_path_factory.mktemp("connections")) as broker:
        yield broker


@pytest.fixture
def connect(nodes: ShardedBroker) -> Iterator[Callable[..., Client]]:
    """Return a function that connects a client to a shard."""
    clients: list[Client] = []

    def connect_to(shard: int, **options: int) -> Client:
        clients.append(Client(nodes.first_port + shard, **options))
        return clients[-1]

    yield connect_to
    for client in clients:
        client.socket.close()


def owned(name: str) -> bytes:
    """Return the name of a topic of the owner."""
    return topic_in(OWNER, name).encode()


def charged_bytes(nodes: ShardedBroker) -> int:
    """Return what is charged for data that clients have not read, at the door and in the shard of the topics."""
    scrape = nodes.monitor("/metrics").decode()
    pattern = rf'miniqueue_memory_bytes{{shard="[{DOOR}{OWNER}]",purpose="(?:output|leases)"}} (\S+)'
    return int(sum(map(float, re.findall(pattern, scrape))))


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("command", ["PEEK", "READ", "MPUBLISH"])
def test_a_client_that_reads_no_replies_of_another_shard_costs_a_bounded_amount(nodes, connect, command):
    topic = owned(f"unread-{command.lower()}-")
    client, other = connect(DOOR, buffer_bytes=BUFFER_BYTES), connect(DOOR)
    for _ in range(MESSAGES):
        assert isinstance(other.ask(b"PUB", topic, PAYLOAD), bytes)
    pids = [nodes.shard(shard) for shard in (DOOR, OWNER)]
    before = [resident_bytes(pid) for pid in pids]
    words = {
        "PEEK": (b"PEEK", topic, b"COUNT", b"%d" % MESSAGES),
        "READ": (b"READ", topic, b"0", b"0"),
        "MPUBLISH": (b"MPUBLISH", topic, *[b"x"] * 5_000),
    }[command]
    sending = Thread(target=client.tell, args=[words for _ in range(REPLIES)], daemon=True)
    sending.start()
    until(lambda: charged_bytes(nodes) > CHARGED_BYTES)
    assert isinstance(other.ask(b"PUB", owned("beside-"), b"x"), bytes)  # others are served meanwhile
    assert charged_bytes(nodes) < UNREAD_BYTES
    for pid, resident in zip(pids, before, strict=True):
        assert resident_bytes(pid) - resident < 2 * UNREAD_BYTES
    replies = [client.hear() for _ in range(REPLIES)]
    sending.join()
    assert {type(reply) for reply in replies} == {list}
    until(lambda: charged_bytes(nodes) < GIVEN_BACK_BYTES)


def test_a_stream_of_another_shard_that_is_not_read_costs_a_bounded_amount(nodes, connect):
    topic = owned("unread-stream-")
    client, other = connect(DOOR, buffer_bytes=4096), connect(DOOR)
    for _ in range(200):
        assert isinstance(other.ask(b"PUB", topic, PAYLOAD), bytes)
    client.tell((b"SUBSCRIBE", topic, b"PREFETCH", b"1000"))
    until(lambda: charged_bytes(nodes) > CHARGED_BYTES)
    assert isinstance(other.ask(b"PUB", owned("beside-"), b"x"), bytes)
    assert charged_bytes(nodes) < UNREAD_BYTES
    payloads = []
    while len(payloads) < 200:
        reply = client.hear()
        if isinstance(reply, list):
            payloads.append(reply[1])
            client.tell((b"ACK", reply[0]))
    assert payloads == [PAYLOAD] * 200


def test_quit_is_answered_after_all_replies_of_other_shards(nodes, connect):
    topic = owned("quit-")
    client = connect(DOOR)
    client.tell(*[(b"PUB", topic, b"%d" % number) for number in range(50)], (b"LEN", topic), (b"QUIT",))
    replies = [client.hear() for _ in range(52)]
    assert replies[-2:] == [50, b"OK"]
    assert client.hear() is None


@pytest.mark.parametrize("mode", ["SUBSCRIBE", "RECEIVE", "MULTI", "EVENTS", "GET"])
@pytest.mark.parametrize("way", ["QUIT", "half-closed", "closed"])
def test_what_a_client_holds_in_another_shard_returns_when_it_leaves(nodes, connect, mode, way):
    topic = owned(f"leaves-{mode}-{way}-")
    client, other = connect(DOOR), connect(THIRD)
    assert isinstance(other.ask(b"PUB", topic, b"held"), bytes)
    words = {
        "SUBSCRIBE": [(b"SUBSCRIBE", topic)],
        "RECEIVE": [(b"RECEIVE", owned("empty-"), b"WAIT", b"0.3" if way == "QUIT" else b"30")],
        "MULTI": [(b"MULTI",), (b"PUB", topic, b"never")],
        "EVENTS": [(b"EVENTS",)],
        "GET": [(b"GET", topic)],
    }[mode]
    client.tell(*words)
    for _ in words if mode != "RECEIVE" else []:
        assert client.hear() in (b"OK", b"QUEUED", b"held")
    if way == "QUIT":
        client.tell((b"QUIT",))
        assert [client.hear(), client.hear()] == ([[], b"OK"] if mode == "RECEIVE" else [b"OK", None])
    elif way == "half-closed":
        client.socket.shutdown(socket.SHUT_WR)
        assert client.hear() == ([] if mode == "RECEIVE" else None)
    else:
        client.socket.close()
    assert other.ask(b"RECEIVE", topic, b"WAIT", b"30", b"COUNT", b"10")[0][1] == b"held"
    assert other.ask(b"LEN", topic) == 1


def test_requests_and_replies_pass_through_processes_without_the_topic(nodes, connect):
    topic = owned("asked-")
    requester, replier = connect(DOOR), connect(THIRD)
    requester.tell(*[(b"REQUEST", topic, b"%d" % number, b"TIMEOUT", b"30") for number in range(3)])
    for number in range(3):
        [[receipt, payload, _]] = replier.ask(b"RECEIVE", topic, b"WAIT", b"30")
        assert payload == b"%d" % number
        assert replier.ask(b"REPLY", topic, receipt, b"re %d" % number) == b"OK"
        assert requester.hear() == b"re %d" % number
    requester.tell((b"REQUEST", topic, b"x", b"TIMEOUT", b"30"))
    [[receipt, _, _]] = replier.ask(b"RECEIVE", topic, b"WAIT", b"30")
    requester.socket.close()
    until(lambda: str(replier.ask(b"REPLY", topic, receipt, b"late")) != "OK")
