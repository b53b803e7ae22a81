"""Brokers with three shards, one for all tests of a module."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from miniqueue.core.settings.placing import Placing
from tests.acceptance.ports import hold_ports, port_of
from tests.acceptance.process import FREE_PORTS, BrokerProcess
from tests.acceptance.tools import until

SHARDS = 3
PLACING = Placing(0, SHARDS)


class ShardedBroker(BrokerProcess):
    """A broker with three shards on a store in a directory."""

    first_port = 0

    def __init__(self, directory: Path, *flags: str) -> None:
        store = ("-db", str(directory / "store"))
        super().__init__([*FREE_PORTS, *store, "-shards", str(SHARDS), "-period", "50ms", *flags], cwd=directory)

    def shard(self, number: int) -> int:
        """Return the process id of a shard: of the child that has its store open, which is waited for."""
        pids: list[int] = []

        def is_there() -> bool:
            parent = self.process.pid
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            pids[:] = [int(child) for child in children if any(f"/shard-{number}/" in file for file in files_of(child))]
            return bool(pids)

        until(is_there)
        return pids[0]

    @contextlib.contextmanager
    def stopped(self, number: int) -> Iterator[None]:
        """Suspend the process of a shard while the block runs."""
        pid = self.shard(number)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


def files_of(pid: str) -> list[str]:
    """Return the files that a process has open, of those that it neither opens nor closes meanwhile."""
    files: list[str] = []
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                files.append(os.readlink(file))
    return files


@contextlib.contextmanager
def nodes_in(directory: Path, *flags: str) -> Iterator[ShardedBroker]:
    """Yield a broker whose shards have ports: `first_port` and those that follow."""
    held = hold_ports(SHARDS)
    broker = ShardedBroker(directory, "-shard-ports", str(port_of(held[0])), *flags)
    try:
        broker.first_port = port_of(held[0])
        broker.wait_until_ready()
        yield broker
        broker.stop()
    finally:
        broker.end()
        for each in held:
            each.close()


def readers(broker: ShardedBroker, topics: list[str], **options: Any) -> list[int]:
    """Return the shard whose client was the last to receive from each topic; -1 if none was connected to its owner."""
    with redis.Redis(port=broker.resp_port, decode_responses=True, **options) as client:
        lines = client.execute_command("CLIENT", "LIST")
    found = {match[2]: int(match[1]) % SHARDS for match in re.finditer(r"id=(\d+) .*topic=(\S+) ", lines)}
    return [found.get(topic, -1) for topic in topics]


def topic_in(shard: int, prefix: str) -> str:
    """Return the name of a topic in a shard."""
    return next(name for number in range(1_000) if PLACING.shard_of((name := f"{prefix}{number}").encode()) == shard)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    broker = ShardedBroker(tmp_path_factory.mktemp("sharded"))
    try:
        broker.wait_until_ready()
        yield broker
        broker.stop()
    finally:
        broker.end()
