"""The servers under measurement: started on free loopback ports, stopped by pid, their processes watched."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import MeasurementError, last_line

START_SECONDS = 300.0
STOP_SECONDS = 30.0
#: The topic, stream or subject of all loads.
TOPIC = "bench"


@dataclass
class Server:
    """A running server.

    Attributes:
      process: its only process; servers that fork are not measured here.
      command: the command that started it.
      ports: the ports, by name of the protocol.
      start_seconds: from its start until it took connections, or said that it was ready.
      ca: the authority to trust, of servers with TLS.
    """

    process: subprocess.Popen[bytes]
    command: Sequence[str]
    ports: dict[str, int]
    start_seconds: float = 0.0
    ca: Path = Path()

    @property
    def port(self) -> int:
        """The port of the protocol that the server is named for."""
        return next(iter(self.ports.values()))

    def memory_mb(self) -> float:
        """Return the resident memory, in millions of bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024 / 1e6

    def cpu_seconds(self) -> float:
        """Return the time that its threads have been running, without those that ended."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def miniqueue(folder: Path, *options: str) -> Iterator[Server]:
    """Run miniqueue in `folder`, with its store in `folder/data`."""
    ports = ["-port", "0", "-resp-port", "0", "-monitor-port", "0"]
    command = [sys.executable, "-m", "miniqueue", "-level", "info", *ports, *options]
    began_at = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE)
    with _stopped(process):
        entry = _ready_line(process)
        took = time.perf_counter() - began_at
        ports_by_name = {name: int(entry[name]) for name in ("resp", "https", "monitor")}
        yield Server(process, command, ports_by_name, took, folder / "certs" / "ca.pem")


def _ready_line(process: subprocess.Popen[bytes]) -> dict[str, str]:
    assert process.stderr is not None
    line = b""
    for line in process.stderr:
        if line.startswith(b"{"):
            entry: dict[str, str] = json.loads(line)
            if entry["event"] == "ready":
                return entry
    raise MeasurementError(last_line(line) or "miniqueue did not start")


@contextmanager
def redis(folder: Path, *, appendfsync: str | None = "always") -> Iterator[Server]:
    """Run redis-server with the given fsync policy of its append-only file, or without the file.

    The file is not rewritten while it is measured: a rewrite in a minute of a run and none in the next would only
    spread the figures.
    """
    port = free_port()
    aof = ["--appendonly", "yes", "--appendfsync", appendfsync] if appendfsync else ["--appendonly", "no"]
    address = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    options = ["--save", "", "--auto-aof-rewrite-percentage", "0", *aof]
    with _listening(["redis-server", *address, *options], {"resp": port}, reply=(b"PING\r\n", b"+PONG")) as server:
        yield server


@contextmanager
def beanstalkd(folder: Path, *, is_durable: bool) -> Iterator[Server]:
    """Run beanstalkd in memory, or with a binlog and an fsync for each write."""
    port = free_port()
    binlog = ["-b", str(folder), "-f", "0"] if is_durable else []
    command = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-z", str(2**20), *binlog]
    with _listening(command, {"beanstalk": port}) as server:
        yield server


@contextmanager
def nats(folder: Path) -> Iterator[Server]:
    """Run nats-server with a JetStream stream in files, on its own settings for fsync (every 2 minutes)."""
    port = free_port()
    command = ["nats-server", "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)]
    with _listening(command, {"nats": port}) as server:
        jetstream(port, f"STREAM.CREATE.{TOPIC}", {"name": TOPIC, "subjects": [TOPIC], "storage": "file"})
        consumer = {"durable_name": "group", "ack_policy": "explicit", "max_ack_pending": 100_000}
        jetstream(port, f"CONSUMER.DURABLE.CREATE.{TOPIC}.group", {"stream_name": TOPIC, "config": consumer})
        yield server


def jetstream(port: int, request: str, body: dict[str, object]) -> None:
    """Make one request of JetStream's API and wait for the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, connection.makefile("rb") as lines:
        content = json.dumps(body).encode()
        connection.sendall(b'CONNECT {"verbose":false}\r\nSUB inbox 1\r\n')
        connection.sendall(b"PUB $JS.API.%b inbox %d\r\n%b\r\n" % (request.encode(), len(content), content))
        answer = next((line for line in lines if line.startswith(b"{")), b"no answer")
    if b'"error"' in answer or not answer.startswith(b"{"):
        raise MeasurementError(f"JetStream {request}: {last_line(answer)}")


@contextmanager
def noop(folder: Path, *flags: str) -> Iterator[Server]:
    """Run an ASGI application that does nothing, on the settings that miniqueue gives its HTTP server."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.noop", str(port), str(folder), *flags]
    with _listening(command, {"https": port}) as server:
        yield server


@contextmanager
def _listening(
    command: Sequence[str], ports: dict[str, int], reply: tuple[bytes, bytes] | None = None
) -> Iterator[Server]:
    began_at = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with _stopped(process):
        server = Server(process, command, ports)
        while not _answers(server.port, reply):
            if process.poll() is not None or time.perf_counter() - began_at > START_SECONDS:
                raise MeasurementError(f"{command[0]} did not start")
            time.sleep(0.02)
        server.start_seconds = time.perf_counter() - began_at
        yield server


def _answers(port: int, reply: tuple[bytes, bytes] | None) -> bool:
    """Whether a server takes connections and, if a question is given, gives the answer (Redis says LOADING first)."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as probe:
            if reply is not None:
                probe.sendall(reply[0])
            return reply is None or probe.recv(1024).startswith(reply[1])
    except OSError:
        return False


@contextmanager
def _stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()
