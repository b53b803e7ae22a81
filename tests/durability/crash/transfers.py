"""Kill shards while messages move from one to another; then count every message.

    producer ─▶ letters (shard 0) ─ REJECT ─▶ lost (shard 1) ─ REDRIVE TO ─▶ found (shard 2)
                    └──── kill -9 of the process of one of the shards, again and again ────┘

Each number is published, with a dedup id, until that is confirmed. At the end, each is exactly once in `found`.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import hiredis

from tests.acceptance.process import run_to_end
from tests.acceptance.shards.conftest import SHARDS, ShardedBroker, topic_in
from tests.durability.clients.resp import Resp
from tests.durability.crash.killed import STUCK_SECONDS, all_of

LETTERS, LOST, FOUND = (topic_in(shard, name).encode() for shard, name in enumerate(("letters", "lost", "found")))
NUMBERS_AT_ONCE = 20
#: The longest time from the moment that messages move again to the next kill.
LOAD_SECONDS = 0.2
#: A shard that is killed returns its leases; if it was only the connection, they end after this time.
LEASE_SECONDS = b"1"


class Counted(NamedTuple):
    """The result of a loop; `moved` counts the messages in replies to REJECT and REDRIVE."""

    kills: int
    messages: int
    moved: int
    findings: list[str]

    def line(self) -> str:
        counts = f"kills={self.kills} messages={self.messages} moved={self.moved}"
        return f"transfers {counts} findings={len(self.findings)}"


class TransferLoop:
    """One broker with shards, many kills of its processes.

    Args:
      directory: empty; the store is kept in it.
      seed: the seed of everything random, except the scheduling.
      report: called after each kill, with what was counted until then.
    """

    def __init__(self, directory: Path, seed: int, report: Callable[[Counted], None] = lambda _: None) -> None:
        self._directory = directory
        self._random = Random(seed)
        self._report = report
        self._confirmed = 0  # all smaller numbers were published
        self._moved = Counter[bytes]()

    def run(self, kills: int) -> Counted:
        """Kill a shard `kills` times; then let everything arrive, and count."""
        broker = ShardedBroker(self._directory)
        try:
            broker.wait_until_ready()
            found = asyncio.run(self._run(broker, kills))
            broker.process.terminate()
            broker.wait()
        finally:
            broker.end()
        checked = run_to_end("check", "-db", "store", cwd=self._directory)
        findings = [] if checked.returncode == 0 else [checked.stdout]
        findings += [line for line in broker.output.splitlines() if "Traceback" in line][:3]
        counts = Counter(found)
        for kind, numbers in {
            "missing": [number for number in range(self._confirmed) if not counts[number]],
            "twice": [number for number, count in counts.items() if count > 1],
        }.items():
            if numbers:
                findings.append(f"{kind}: {sorted(numbers)[:20]}")
        return Counted(kills, self._confirmed, self._moved.total(), findings)

    async def _run(self, broker: ShardedBroker, kills: int) -> list[int]:
        connection = await Resp.connect(broker.resp_port)
        settings = (b"dead_letter_topic", LOST, b"lease_seconds", LEASE_SECONDS)
        assert await connection.ask(b"TOPIC", b"CREATE", LETTERS, *settings) == b"OK"
        assert await connection.ask(b"TOPIC", b"CREATE", LOST, b"lease_seconds", LEASE_SECONDS) == b"OK"
        connection.close()
        acts = (self._publish, self._reject, self._redrive)
        clients = [asyncio.create_task(self._repeat(broker, act)) for act in acts]
        try:
            for number in range(kills):
                before = self._moved.copy()
                async with asyncio.timeout(STUCK_SECONDS):
                    while any(self._moved[topic] == before[topic] for topic in (LETTERS, LOST)):
                        await self._while_they_live(clients)
                    await asyncio.sleep(self._random.uniform(0, LOAD_SECONDS))
                    await self._kill(broker, self._random.randrange(SHARDS))
                self._report(Counted(number + 1, self._confirmed, self._moved.total(), []))
        finally:
            for client in clients:
                client.cancel()
            await asyncio.wait(clients)
        async with asyncio.timeout(STUCK_SECONDS):
            return await self._end(broker)

    async def _kill(self, broker: ShardedBroker, shard: int) -> None:
        """Kill the process of a shard; if it was killed a moment ago, as soon as there is another."""
        while True:
            try:
                os.kill(broker.shard(shard), signal.SIGKILL)
            except (AssertionError, ProcessLookupError):
                await asyncio.sleep(0.01)
            else:
                return

    async def _while_they_live(self, clients: list["asyncio.Task[None]"]) -> None:
        await asyncio.wait(clients, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
        for client in clients:
            if client.done():
                client.result()

    async def _repeat(self, broker: ShardedBroker, act: Callable[[Resp], Awaitable[object]]) -> None:
        """Act repeatedly, on another connection when one has ended."""
        while True:
            try:
                connection = await Resp.connect(broker.resp_port)
                try:
                    while True:
                        await act(connection)
                        await asyncio.sleep(0.005)
                finally:
                    connection.close()
            except ConnectionError:
                await asyncio.sleep(0.01)

    async def _publish(self, connection: Resp) -> None:
        """Publish the next numbers, or those again that were not confirmed."""
        numbers = [b"%d" % (self._confirmed + n) for n in range(NUMBERS_AT_ONCE)]
        connection.send(*((b"PUB", LETTERS, number, b"DEDUP", number) for number in numbers))
        replies = [await connection.hear() for _ in numbers]
        if not any(isinstance(reply, hiredis.ReplyError) for reply in replies):
            self._confirmed += NUMBERS_AT_ONCE

    async def _reject(self, connection: Resp) -> None:
        received = await connection.ask(b"RECEIVE", LETTERS, b"COUNT", b"50")
        if isinstance(received, list) and received:
            replies = await connection.ask(b"REJECT", LETTERS, *(each[0] for each in received), b"broken")
            self._moved[LETTERS] += 0 if isinstance(replies, hiredis.ReplyError) else len(received)

    async def _redrive(self, connection: Resp) -> None:
        count = await connection.ask(b"REDRIVE", LOST, b"TO", FOUND)
        self._moved[LOST] += count if isinstance(count, int) else 0

    async def _end(self, broker: ShardedBroker) -> list[int]:
        """Wait until all messages have arrived; return the numbers in the last topic."""
        acts = (self._reject, self._redrive)
        clients = [asyncio.create_task(self._repeat(broker, act)) for act in acts]
        while True:
            try:
                connection = await Resp.connect(broker.resp_port)
                confirmed = self._confirmed
                while self._confirmed == confirmed:
                    await self._publish(connection)
                while not await self._has_arrived(connection):
                    await self._while_they_live(clients)
                break
            except ConnectionError:
                await asyncio.sleep(0.01)
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)
        found = await all_of(connection, FOUND)
        connection.close()
        return found

    async def _has_arrived(self, connection: Resp) -> bool:
        """Return whether nothing is left in the first two topics, and all that was published is in the last."""
        lengths = [await connection.ask(b"LEN", topic) for topic in (LETTERS, LOST, FOUND)]
        return lengths[:2] == [0, 0] and isinstance(lengths[2], int) and lengths[2] >= self._confirmed
