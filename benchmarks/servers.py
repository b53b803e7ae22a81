"""The servers under measurement: started on free loopback ports, stopped by pid, their processes watched."""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 60.0


@dataclass
class Server:
    """A running server: its process, and its ports by name."""

    process: subprocess.Popen[bytes]
    ports: dict[str, int]
    start_seconds: float = 0.0
    files: dict[str, Path] = field(default_factory=dict)

    def memory_bytes(self) -> int:
        """Return the resident memory of the process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def kill(self) -> None:
        """End it without any farewell, as a crash would."""
        self.process.kill()
        self.process.wait()


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
        assert process.stderr is not None
        for line in process.stderr:
            entry = json.loads(line)
            if entry["event"] == "ready":
                break
        else:
            raise SystemExit("miniqueue did not start")
        took = time.perf_counter() - began_at
        ports_by_name = {name: int(entry[name]) for name in ("https", "resp", "monitor")}
        yield Server(process, ports_by_name, took, {"ca": folder / "certs" / "ca.pem"})


@contextmanager
def redis(folder: Path, *, appendfsync: str | None = "always") -> Iterator[Server]:
    """Run redis-server with the given fsync policy of its append-only file, or without the file."""
    port = free_port()
    aof = ["--appendonly", "yes", "--appendfsync", appendfsync] if appendfsync else ["--appendonly", "no"]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", *aof]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with _stopped(process):
        _wait_for(port)
        yield Server(process, {"resp": port})


@contextmanager
def noop(certificates: Path) -> Iterator[Server]:
    """Run an ASGI application that does nothing, on the settings that miniqueue gives Hypercorn."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.noop", str(port), str(certificates)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    with _stopped(process):
        _wait_for(port)
        yield Server(process, {"https": port})


def is_installed(program: str) -> bool:
    """Whether a peer or a load tool can be run here."""
    return shutil.which(program) is not None


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nothing listens on port {port}")


@contextmanager
def _stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
