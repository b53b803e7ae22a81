"""A broker with users, 10,000 topics, and everything else that hostile clients look for."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust
from tests.acceptance.users import UsersFile
from tests.durability.clients.resp import Resp
from tests.durability.hostile.clients import LARGE, LARGE_MESSAGES, MESSAGE_BYTES, WIDE, Target

TOPICS = 10_000
PARTITIONS = 64
#: How many topics are made by one pipeline.
TOPICS_AT_ONCE = 500
MIB = 1 << 20
MAX_MEMORY_BYTES = 512 * MIB
#: What the process may use beyond that: the interpreter, the libraries, and what is not charged.
SPARE_BYTES = 100 * MIB


class Victim(NamedTuple):
    """A broker, and the tokens of its users."""

    process: BrokerProcess
    ca: str
    hostile_token: str
    innocent_token: str

    @property
    def target(self) -> Target:
        """What a hostile client knows of it."""
        process = self.process
        return Target(process.resp_port, process.https_port, process.monitor_port, self.ca, self.hostile_token)

    def metrics(self) -> str:
        """Return the metrics, as the innocent user sees them."""
        return self.process.monitor("/metrics", {"Authorization": f"Bearer {self.innocent_token}"}).decode()


class Filled(NamedTuple):
    """A directory with a users file and a store; a copy of it is as good.

    Attributes:
      tokens: those of the hostile and of the innocent user.
    """

    directory: Path
    tokens: tuple[str, str]


def filled(directory: Path, trust: Trust, topics: int = TOPICS) -> Filled:
    """Fill a store with a broker."""
    users = UsersFile(directory)
    tokens = users.add("hostile", "-admin", "*"), users.add("innocent", "-admin", "*")
    users.add_with_password("human", "-monitor", "*")
    flags = [*FREE_PORTS, *trust.flags, "-users", "users.toml", "-sync", "never"]
    with _running(BrokerProcess(flags, cwd=directory)) as process:
        asyncio.run(_fill(Victim(process, trust.ca, *tokens).target, topics))
    return Filled(directory, tokens)


@contextmanager
def victim(
    store: Filled,
    trust: Trust,
    *flags: str,
    max_memory_bytes: int = MAX_MEMORY_BYTES,
    command: Sequence[str] | None = None,
) -> Iterator[Victim]:
    """Start a broker under a limit of memory; stop it at the end of the block.

    What is measured contains nothing of the filling, which another broker has done.
    """
    words = [*FREE_PORTS, *trust.flags, "-users", "users.toml", *flags, "-max-memory", str(max_memory_bytes)]
    options = {} if command is None else {"command": command}
    with _running(BrokerProcess(words, cwd=store.directory, **options)) as process:
        yield Victim(process, trust.ca, *store.tokens)


@contextmanager
def _running(process: BrokerProcess) -> Iterator[BrokerProcess]:
    try:
        yield process.wait_until_ready()
        process.stop()
    finally:
        process.end()


async def _fill(target: Target, topics: int) -> None:
    connection = await Resp.connect(target.resp)
    try:
        assert await connection.ask(b"AUTH", b"hostile", target.token.encode()) == b"OK"
        await _carry_out(
            connection,
            [
                (b"TOPIC", b"CREATE", WIDE, b"partitions", b"%d" % PARTITIONS),
                (b"GROUP", b"CREATE", WIDE, b"hostile"),
                *[(b"PUBLISH", LARGE, bytes(MESSAGE_BYTES))] * LARGE_MESSAGES,
                *[(b"PUBLISH", WIDE, bytes(100))] * 1000,
            ],
        )
        names = [b"topic-%05d" % number for number in range(topics)]
        for start in range(0, topics, TOPICS_AT_ONCE):
            made = names[start : start + TOPICS_AT_ONCE]
            await _carry_out(connection, [(b"PUBLISH", name, bytes(100)) for name in made])
    finally:
        connection.close()


async def _carry_out(connection: Resp, commands: list[tuple[bytes, ...]]) -> None:
    connection.send(*commands)
    for _ in commands:
        assert await connection.hear() == b"OK"


def quantiles_of_lag(metrics: str) -> Mapping[str, float]:
    """Return how late the timers of the broker's loop fired in the last minute, in seconds, by quantile."""
    found = re.findall(r'^miniqueue_loop_lag_seconds\{quantile="([0-9.]+)"\} (\S+)$', metrics, re.MULTILINE)
    return {quantile: float(seconds) for quantile, seconds in found}


def charged_bytes(metrics: str) -> int:
    """Return the sum of the memory that clients make the broker use, of all purposes."""
    found = re.findall(r'^miniqueue_memory_bytes\{purpose="\w+"\} (\S+)$', metrics, re.MULTILINE)
    return sum(int(float(size_bytes)) for size_bytes in found)
