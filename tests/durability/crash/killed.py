"""One store, and brokers on it that are killed under load; what they have to do is up to the caller."""

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from miniqueue_client import ConnectError, DisconnectedError
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust, run_to_end
from tests.durability.clients.resp import Resp
from tests.durability.crash.loop import LAUNCHER, ROOT

#: What takes so long will not end.
STUCK_SECONDS = 120


class KilledStore:
    """A store whose brokers are killed.

    Args:
      directory: empty; the store is kept in it.
      trust: the certificate of the brokers.
      plant: a bug of `launcher.PLANTS`.
    """

    def __init__(self, directory: Path, trust: Trust, plant: str | None = None) -> None:
        self._directory = directory
        self._trust = trust
        self._plant = plant

    def start(self) -> BrokerProcess:
        """Start a broker, and wait until clients can connect."""
        plant = () if self._plant is None else ("--plant", self._plant)
        flags = ("-db", str(self._directory / "data"), *FREE_PORTS, *self._trust.flags)
        return BrokerProcess([*plant, *flags], cwd=ROOT, command=LAUNCHER).wait_until_ready()

    def problems(self) -> list[str]:
        """Return what `miniqueue check` finds in the store."""
        checked = run_to_end("check", "-db", "data", cwd=self._directory)
        return [] if checked.returncode == 0 else [checked.stdout]


async def killed_after(seconds: float, broker: BrokerProcess, clients: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run clients, and kill the broker after a time; raises any error that the kill does not explain."""
    try:
        asyncio.get_running_loop().call_later(seconds, broker.process.kill)
        async with asyncio.timeout(STUCK_SECONDS):
            for outcome in await asyncio.gather(*clients, return_exceptions=True):
                if not isinstance(outcome, ConnectionError | ConnectError | DisconnectedError):
                    raise outcome or AssertionError("a client has ended by itself")
    finally:
        broker.end()


async def all_of(connection: Resp, topic: bytes) -> list[int]:
    """Take everything out of a topic."""
    numbers: list[int] = []
    while received := await connection.ask(b"RECEIVE", topic, b"COUNT", b"1000", b"AUTOACK"):
        assert isinstance(received, list), received
        numbers += [int(one[1]) for one in received]
    return numbers
