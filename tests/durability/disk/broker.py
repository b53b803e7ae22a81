"""A broker whose disk is about to fail, and what it owes afterwards.

    publish, note every reply ─▶ fault ─▶ publish ─▶ fault ends ─▶ publish ─▶ kill ─▶ check ─▶ start, drain, compare

What was acknowledged must come, once; what got `UNKNOWN` or no reply may come; what was refused must not.
"""

import hashlib
import itertools
import json
import resource
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

import hiredis

from tests.acceptance.process import (
    COMMAND,
    FREE_PORTS,
    OTHER_COMMAND,
    START_SECONDS,
    BrokerProcess,
    Trust,
    environment,
)
from tests.meta.modules import ROOT

#: With write buffers of 64 KiB: every few messages a log begins and a table is written.
LAUNCHER = OTHER_COMMAND or (sys.executable, "-m", "tests.durability.crash.launcher")
TOPIC = b"orders"
PAYLOAD_BYTES = 20_000
PREFETCH = 500
#: Maximum time until the broker notices that a fault has ended: it tries every 10 s.
RECOVERY_SECONDS = 60.0


def payload_of(number: int, size_bytes: int = PAYLOAD_BYTES) -> bytes:
    """Return bytes that begin with `number` and cannot be compressed."""
    return b"%d:" % number + hashlib.shake_128(b"%d" % number).digest(size_bytes)


class Connection:
    """One RESP connection; errors are returned, not raised."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS)
        self._replies = hiredis.Reader()

    def ask(self, *words: bytes) -> object:
        self.tell(*words)
        return self.hear()

    def tell(self, *words: bytes) -> None:
        """Send a command whose reply comes among others."""
        self._socket.sendall(hiredis.pack_command(words))

    def hear(self) -> object:
        while (reply := self._replies.gets()) is False:
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionResetError("closed by the broker")
            self._replies.feed(received)
        return reply

    def close(self) -> None:
        self._socket.close()


class DiskBroker:
    """A broker on a store that outlives it, and the account of what it was given.

    Args:
      directory: the directory of its files; the store is `database`.
      trust: the certificate that it uses.
      flags: the flags of every start.
    """

    def __init__(self, directory: Path, trust: Trust, database: Path, flags: Sequence[str] = ()) -> None:
        self.database = database
        self.process: BrokerProcess | None = None
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()
        self.settled: set[int] = set()
        self.replies: Counter[str] = Counter()
        self._directory = directory
        self._arguments = [*FREE_PORTS, *trust.flags, "-db", str(database), *flags]
        self._numbers = itertools.count()
        self._connections: list[Connection] = []

    # --- its life ---------------------------------------------------------------------------------------------

    def launch(self, *prefix: str) -> BrokerProcess:
        """Start it, with the words of a tracer in front if there are any; it need not get ready."""
        env = environment(PYTHONPATH=str(ROOT))
        self.process = BrokerProcess(self._arguments, self._directory, command=[*prefix, *LAUNCHER], env=env)
        return self.process

    def start(self) -> "DiskBroker":
        self.launch().wait_until_ready()
        return self

    @property
    def running(self) -> BrokerProcess:
        assert self.process is not None
        return self.process

    @property
    def pid(self) -> int:
        return int((self.database / "miniqueue.lock").read_text())

    def end(self) -> None:
        for connection in self._connections:
            connection.close()
        if self.process is not None:
            self.process.end()

    # --- what is asked of it ----------------------------------------------------------------------------------

    def connect(self) -> Connection:
        self._connections.append(Connection(self.running.resp_port))
        return self._connections[-1]

    def publish(self, connection: Connection, size_bytes: int = PAYLOAD_BYTES) -> str:
        """Publish the next message; return `OK` or the word of the error."""
        number = next(self._numbers)
        self.unknown.add(number)
        reply = connection.ask(b"PUBLISH", TOPIC, payload_of(number, size_bytes))
        word = "OK" if reply == b"OK" else str(reply).split(maxsplit=1)[0]
        if word != "UNKNOWN":
            self.unknown.discard(number)
        if word == "OK":
            self.acknowledged.add(number)
        self.replies[word] += 1
        return word

    def publish_until(self, connection: Connection, word: str, *, count: int = 5000) -> None:
        """Publish until that is the answer."""
        for _ in range(count):
            if self.publish(connection) == word:
                return
        raise AssertionError(f"no {word} in {count} publishes, but {self.replies}:\n{self.running.output[-3000:]}")

    def consume(self, count: int) -> None:
        """Take and acknowledge messages; they count as settled when the broker goes on."""
        connection = self.connect()
        self.settled |= set(self._take(connection, count))
        connection.close()

    def _take(self, connection: Connection, count: int) -> list[int]:
        """Take and acknowledge; every reply is read, since closing before would reset the ACKs on their way."""
        numbers: list[int] = []
        settled = 0
        if count:
            connection.tell(b"SUBSCRIBE", TOPIC, b"PREFETCH", b"%d" % PREFETCH)
        while settled < count:
            reply = connection.hear()
            if isinstance(reply, list):
                receipt, payload, _counts = reply
                number = int(payload[: payload.index(b":")])
                assert payload == payload_of(number, len(payload) - len(b"%d:" % number)), "other bytes"
                numbers.append(number)
                connection.tell(b"ACK", receipt)
            else:
                assert reply == b"OK", reply
                settled += 1
        return numbers

    def readiness(self) -> list[str]:
        """Return the reasons why it is not ready."""
        reasons: list[str] = []
        try:
            reasons = json.loads(self.running.monitor("/readyz")).get("reasons", [])
        except HTTPError as refusal:
            with refusal:
                reasons = json.loads(refusal.read())["reasons"]
        return reasons

    def wait_until(self, is_so: Callable[[], bool], seconds: float = RECOVERY_SECONDS) -> None:
        """Look every 50 ms; there is nothing to wait on in another process."""
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, self.running.output[-3000:]
            assert self.running.is_alive(), self.running.output[-3000:]
            time.sleep(0.05)

    def wait_until_ready(self) -> None:
        self.wait_until(lambda: not self.readiness())

    # --- what it owes -----------------------------------------------------------------------------------------

    def settle_accounts(self) -> None:
        """Kill it, check its store, start it again, and compare what it has with what it acknowledged."""
        self.end()
        check(self.database, self._directory)
        self.start()
        drained = self._take(self.connect(), self._depth())
        assert len(drained) == len(set(drained)), "doubled"
        assert self.acknowledged - self.settled <= set(drained), "lost"
        assert set(drained) <= self.acknowledged | self.unknown, "refused, and there all the same"
        assert drained == sorted(drained), "out of order"
        self.running.stop()
        self.settled |= set(drained)

    def _depth(self) -> int:
        topics = json.loads(self.running.monitor("/stats"))["topics"]
        return topics[TOPIC.decode()]["ready"] if TOPIC.decode() in topics else 0


def check(database: Path, cwd: Path) -> None:
    """Verify every invariant of a store with `miniqueue check`."""
    command = [*COMMAND, "check", "-db", str(database)]
    env = environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def limited(pid: int, name: str, limit: int) -> Iterator[None]:
    """Give a running process a soft limit while the block runs; `name` is that of RLIMIT_*."""
    kind: int = getattr(resource, f"RLIMIT_{name.upper()}")
    before = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, kind, before)
