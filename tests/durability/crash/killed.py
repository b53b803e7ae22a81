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


async def killed_after(
    seconds: float, begun: asyncio.Event, broker: BrokerProcess, clients: Iterable[Coroutine[Any, Any, None]]
) -> None:
    """Run clients, and kill the broker some time after they have begun; raises any error that this does not explain.

    They set `begun` when what is to be interrupted has begun: on a busy machine, that alone can take longer.
    """
    running = [asyncio.create_task(client) for client in clients]
    beginning = asyncio.create_task(begun.wait())
    try:
        async with asyncio.timeout(STUCK_SECONDS):
            await asyncio.wait([beginning, *running], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(seconds)
            broker.process.kill()
            for outcome in await asyncio.gather(*running, return_exceptions=True):
                if not isinstance(outcome, ConnectionError | ConnectError | DisconnectedError):
                    raise outcome or AssertionError("a client has ended by itself")
    finally:
        beginning.cancel()
        broker.end()


async def all_of(connection: Resp, topic: bytes) -> list[int]:
    """Take everything out of a topic."""
    numbers: list[int] = []
    while received := await connection.ask(b"RECEIVE", topic, b"COUNT", b"1000", b"AUTOACK"):
        assert isinstance(received, list), received
        numbers += [int(one[1]) for one in received]
    return numbers
