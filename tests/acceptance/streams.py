"""One way to speak to two things: a stream of a real Redis, with its commands, and a topic, with what stands for them.

    Stream   XADD    XREADGROUP  XACK  XPENDING     XAUTOCLAIM             XRANGE  XLEN        XINFO STREAM, GROUPS
    Topic    MPUBLISH  RECEIVE   ACK   PEEK leased  RECEIVE, after LEASE   READ    PARTITIONS  STATS, GROUP LIST

Texts stand for messages; each side keeps for itself the handle that it wants back, an id of an entry or a receipt.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

import redis

from tests.acceptance import patient
from tests.acceptance.process import SPREAD
from tests.acceptance.tools import MAX_SECONDS

#: With one receipt a refusal is an error, with several one of the results, as this one always is.
UNKNOWN_RECEIPT = "0000000000000000-0"
#: A stream has an order, and so have the messages of a key, if the topics of the tests are spread.
IN_ORDER = ("KEY", "k") if SPREAD else ()
#: The groups that a topic has before any is created: a spread topic is created by itself.
FIRST_GROUPS = {"default"} if SPREAD else set[str]()
#: Takes messages as a program of its own does, says so, and does nothing more.
CONSUMER = """
import sys, redis
client = redis.Redis(port=int(sys.argv[1]), socket_timeout=None, retry=None)
print(client.execute_command(*sys.argv[2:]), flush=True)
sys.stdin.read()
"""


class Entry(NamedTuple):
    """What a look at the log shows of a message."""

    text: str
    at_ms: int


class GroupFigures(NamedTuple):
    """A group: its name, what it has to settle, and what it was never handed."""

    name: str
    pending: int
    unread: int


class Log(Protocol):
    """What a user of groups does."""

    def add(self, *texts: str) -> None: ...
    def make_group(self, group: str, *, is_new_only: bool = False) -> None: ...
    def move_group_to_start(self, group: str) -> None: ...
    def take(self, group: str, count: int, consumer: str = "ada", lease_seconds: float = 60) -> list[str]: ...
    def take_and_settle(self, group: str, count: int) -> list[str]: ...
    def settle(self, group: str, *texts: str) -> int: ...
    def take_and_crash(self, group: str, count: int, lease_seconds: float) -> None: ...
    def take_over(self, group: str, count: int, lease_seconds: float) -> list[str]: ...
    def pending(self, group: str) -> dict[str, int]: ...
    def range(self, count: int, from_ms: int | None = None) -> list[Entry]: ...
    def length(self) -> int: ...
    def added(self) -> int: ...
    def groups(self) -> list[GroupFigures]: ...


class Stream:
    """A stream of Redis. Who takes over says after how long; here the one who took has said so."""

    def __init__(self, port: int, name: str) -> None:
        self._port, self._name = port, name
        self._client = patient.Redis(port=port, protocol=2, decode_responses=True)
        self._ids: dict[str, str] = {}

    def add(self, *texts: str) -> None:
        for text in texts:
            self._ids[text] = self._client.xadd(self._name, {"text": text})

    def make_group(self, group: str, *, is_new_only: bool = False) -> None:
        self._client.xgroup_create(self._name, group, "$" if is_new_only else "0", mkstream=True)

    def move_group_to_start(self, group: str) -> None:
        self._client.xgroup_setid(self._name, group, "0")

    def _take(self, group: str, count: int, consumer: str, *, acknowledges: bool = False) -> list[str]:
        streams = self._client.xreadgroup(group, consumer, {self._name: ">"}, count, noack=acknowledges)
        return [fields["text"] for _stream, entries in streams for _id, fields in entries]

    def take(self, group: str, count: int, consumer: str = "ada", lease_seconds: float = 60) -> list[str]:
        return self._take(group, count, consumer)

    def take_and_settle(self, group: str, count: int) -> list[str]:
        return self._take(group, count, "ada", acknowledges=True)

    def settle(self, group: str, *texts: str) -> int:
        return int(self._client.xack(self._name, group, *[self._ids[text] for text in texts]))

    def take_and_crash(self, group: str, count: int, lease_seconds: float) -> None:
        crash(self._port, "XREADGROUP", "GROUP", group, "bob", "COUNT", count, "STREAMS", self._name, ">")

    def take_over(self, group: str, count: int, lease_seconds: float) -> list[str]:
        """Ask again and again, as consumers of a stream have to: nothing comes by itself."""
        idle_ms, ends_at = round(lease_seconds * 1000), monotonic() + MAX_SECONDS
        taken: list[str] = []
        while len(taken) < count:
            assert monotonic() < ends_at, taken
            _next, entries, _gone = self._client.xautoclaim(self._name, group, "ada", idle_ms, count=count - len(taken))
            taken += [fields["text"] for _id, fields in entries]
        return taken

    def pending(self, group: str) -> dict[str, int]:
        texts = {entry_id: text for text, entry_id in self._ids.items()}
        rows = self._client.xpending_range(self._name, group, "-", "+", 100)
        return {texts[row["message_id"]]: row["times_delivered"] for row in rows}

    def range(self, count: int, from_ms: int | None = None) -> list[Entry]:
        start = "-" if from_ms is None else str(from_ms)
        entries = self._client.xrange(self._name, start, "+", count)
        return [Entry(fields["text"], int(entry_id.split("-")[0])) for entry_id, fields in entries]

    def length(self) -> int:
        return int(self._client.xlen(self._name))

    def added(self) -> int:
        return int(self._client.xinfo_stream(self._name)["entries-added"])

    def groups(self) -> list[GroupFigures]:
        rows = self._client.xinfo_groups(self._name)
        return [GroupFigures(row["name"], row["pending"], row["lag"]) for row in rows]


class Topic:
    """A topic that keeps what was acknowledged, as a stream does, with `retention=forever`."""

    def __init__(self, port: int, name: str) -> None:
        self._port, self._name = port, name
        self._client = patient.Redis(port=port, protocol=3, decode_responses=True)
        self._receipts: dict[tuple[str, str], str] = {}
        self._partition = 0  # the number of the partition that has all messages

    def _ask(self, *words: object) -> Any:
        return self._client.execute_command(*words)

    def add(self, *texts: str) -> None:
        for text in texts:
            message_id = self._ask("PUB", self._name, text, *IN_ORDER)
            self._partition = int(message_id.partition("-")[0])

    def make_group(self, group: str, *, is_new_only: bool = False) -> None:
        self._ask("GROUP CREATE", self._name, group, "FROM", "latest" if is_new_only else "earliest")
        self._ask("TOPIC SET", self._name, "retention", "forever")

    def move_group_to_start(self, group: str) -> None:
        self._ask("GROUP SEEK", self._name, group, "earliest")

    def _taking(self, group: str, count: int, *options: object) -> tuple[object, ...]:
        return ("RECEIVE", self._name, "GROUP", group, "COUNT", count, *options)

    def _take(self, group: str, count: int, *options: object) -> list[str]:
        received = self._ask(*self._taking(group, count, *options))
        self._receipts |= {(group, text): receipt for receipt, text, _attributes in received}
        return [text for _receipt, text, _attributes in received]

    def take(self, group: str, count: int, consumer: str = "ada", lease_seconds: float = 60) -> list[str]:
        return self._take(group, count, "LEASE", lease_seconds)

    def take_and_settle(self, group: str, count: int) -> list[str]:
        return self._take(group, count, "AUTOACK")

    def settle(self, group: str, *texts: str) -> int:
        receipts = [self._receipts[group, text] for text in texts]
        return self._ask("ACK", self._name, *receipts, UNKNOWN_RECEIPT).count("OK")

    def take_and_crash(self, group: str, count: int, lease_seconds: float) -> None:
        crash(self._port, *self._taking(group, count, "LEASE", lease_seconds))

    def take_over(self, group: str, count: int, lease_seconds: float) -> list[str]:
        """Receive, as ever: what was not settled in time comes by itself."""
        taken: list[str] = []
        while len(taken) < count:
            come = self._take(group, count - len(taken), "WAIT", MAX_SECONDS, "LEASE", 60)
            assert come, taken
            taken += come
        return taken

    def pending(self, group: str) -> dict[str, int]:
        shown = self._ask("PEEK", self._name, "STATE", "leased", "COUNT", 100, "GROUP", group)
        return {text: attributes["deliveries"] for _id, text, attributes in shown}

    def range(self, count: int, from_ms: int | None = None) -> list[Entry]:
        start = (0,) if from_ms is None else ("TIME", from_ms)
        page = self._ask("READ", self._name, self._partition, *start, "COUNT", count)
        return [Entry(text, attributes["published_at_ms"]) for _id, text, attributes in page["messages"]]

    def length(self) -> int:
        return sum(bounds["end"] - bounds["earliest"] for bounds in self._ask("PARTITIONS", self._name))

    def added(self) -> int:
        return int(self._ask("STATS", self._name)["published"])

    def groups(self) -> list[GroupFigures]:
        rows = [row for row in self._ask("GROUP LIST", self._name) if row["name"] not in FIRST_GROUPS]
        return [GroupFigures(row["name"], row["leased"], row["lag"] - row["leased"]) for row in rows]


def crash(port: int, *words: object) -> None:
    """Receive messages in another process, and kill it before it settles any."""
    command = [sys.executable, "-c", CONSUMER, str(port), *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "it has taken nothing"
        process.kill()


@contextmanager
def redis_server(port: int, directory: Path) -> Iterator[int]:
    """Run a Redis that keeps nothing on the disk; yields its port."""
    place = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    with subprocess.Popen(["redis-server", *place, "--save", ""], stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield port
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    """Return when a Redis answers there."""
    ends_at = monotonic() + MAX_SECONDS
    with patient.Redis(port=port) as client:
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                assert monotonic() < ends_at
                sleep(0.02)
            else:
                return
