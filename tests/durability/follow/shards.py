"""Kill shards, a broker with shards, and the copy that follows it, while messages move between shards.

    producer ─▶ letters (shard 0) ─ REJECT ─▶ lost (shard 1) ─ REDRIVE TO ─▶ found (shard 2)
                    └─── kill -9 of a shard, of all processes, or of the follower, again and again

At the end, all are killed, and a broker starts on the copy. It must have each number once that was confirmed up to the
moment of which the follower has said last that the copy is complete; and the others not more than once.
"""

import asyncio
import json
import time
from collections import Counter
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess, run_to_end
from tests.acceptance.shards.conftest import SHARDS, ShardedBroker
from tests.durability.clients.resp import Resp
from tests.durability.crash.killed import STUCK_SECONDS, all_of
from tests.durability.crash.transfers import FOUND, LETTERS, LOST, TransferLoop

INTERVAL = "50ms"
#: The longest time between two kills.
LOAD_SECONDS = 0.6


class Followed(NamedTuple):
    """The result of a loop; `moved` counts the messages in replies to REJECT and REDRIVE."""

    kills: dict[str, int]
    published: int
    moved: int
    copies: int
    lag_seconds: float
    held: int
    findings: list[str]

    def line(self) -> str:
        kills = " ".join(f"{name}-kills={count}" for name, count in self.kills.items())
        counts = f"published={self.published} moved={self.moved} held={self.held} copies={self.copies}"
        return f"follow-shards {kills} {counts} lag={self.lag_seconds:.3f}s findings={len(self.findings)}"


class FollowShardsLoop(TransferLoop):
    """A broker with shards, a copy that follows it, and many kills of the processes of both.

    Args:
      directory: empty; both stores are kept in it.
      seed: the seed of everything random, except the scheduling.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory / "original", seed)
        self._root = directory
        self._confirmed_at: list[tuple[int, float]] = []
        self._outputs: list[str] = []

    def follow(self, kills: int) -> Followed:
        """Kill `kills` times, at random moments; then all; count what the copy has."""
        self._directory.mkdir()
        with ExitStack() as stack:
            ports = [str(port_of(stack.enter_context(hold_port()))) for _ in range(2)]
            flags = ("-resp-port", ports[0], "-monitor-port", ports[1])
            self._broker = self._started_broker(stack, flags)
            self._broker.wait_until_ready()
            self._follower = self._started_follower(stack, ports[1])
            counts = asyncio.run(self._run_followed(stack, kills, flags, ports[1]))
            self._outputs.append(self._follower.output)
            return self._judged(counts, flags)

    def _started_broker(self, stack: ExitStack, flags: tuple[str, ...]) -> ShardedBroker:
        broker = ShardedBroker(self._directory, *flags)
        stack.callback(broker.end)
        return broker

    def _started_follower(self, stack: ExitStack, port: str) -> BrokerProcess:
        words = ["backup", "-follow", f"http://127.0.0.1:{port}", "-interval", INTERVAL, "copy/store"]
        (self._root / "copy").mkdir(exist_ok=True)
        follower = BrokerProcess(words, cwd=self._root)
        stack.callback(follower.end)
        return follower

    async def _run_followed(self, stack: ExitStack, kills: int, flags: tuple[str, ...], port: str) -> dict[str, int]:
        connection = await Resp.connect(self._broker.resp_port)
        settings = (b"dead_letter_topic", LOST, b"lease_seconds", b"1")
        assert await connection.ask(b"TOPIC", b"CREATE", LETTERS, *settings) == b"OK"
        assert await connection.ask(b"TOPIC", b"CREATE", LOST, b"lease_seconds", b"1") == b"OK"
        connection.close()
        acts = (self._publish, self._reject, self._redrive)
        clients = [asyncio.create_task(self._repeat(self._broker, act)) for act in acts]
        counts = dict.fromkeys(("shard", "broker", "follower"), 0)
        try:
            for number in range(kills):
                await asyncio.sleep(self._random.uniform(0, LOAD_SECONDS))
                kind = list(counts)[number % len(counts)]
                counts[kind] += 1
                if kind == "shard":
                    await self._kill(self._broker, self._random.randrange(SHARDS))
                elif kind == "broker":
                    self._broker.kill()
                    self._broker.end()
                    self._broker = self._started_broker(stack, flags)
                    await asyncio.to_thread(self._broker.wait_until_ready)
                else:
                    self._follower.kill()
                    self._outputs.append(self._follower.output)
                    self._follower.end()
                    self._follower = self._started_follower(stack, port)
            await asyncio.to_thread(self._follower.wait_for_event, "following")
            await asyncio.sleep(self._random.uniform(0.2, 1))
            self._broker.kill()
            self._follower.kill()
        finally:
            for client in clients:
                client.cancel()
            await asyncio.wait(clients)
        self._broker.end()
        return counts

    async def _publish(self, connection: Resp) -> None:
        await super()._publish(connection)
        self._confirmed_at.append((self._confirmed, time.time()))

    # --- the judgement --------------------------------------------------------------------------------------------

    def _judged(self, kills: dict[str, int], flags: tuple[str, ...]) -> Followed:
        lines = [json.loads(line) for output in self._outputs for line in output.splitlines() if line.startswith("{")]
        said = [line for line in lines if line.get("lag_seconds") is not None][-1]
        complete_of = datetime.fromisoformat(said["time"]).timestamp() - said["lag_seconds"]
        due = max((count for count, at in self._confirmed_at if at < complete_of), default=0)
        findings = [f"a follower failed: {output}" for output in self._outputs if "Traceback" in output]
        checked = run_to_end("check", "-db", "copy/store", cwd=self._root)
        findings += [] if checked.returncode == 0 else [f"check: {checked.stdout}{checked.stderr}"]
        copies = sum(line["event"] == "copied" for line in lines)
        moved, published = self._moved.total(), self._confirmed
        with ExitStack() as stack:
            broker = ShardedBroker(self._root / "copy", *flags)
            stack.callback(broker.end)
            broker.wait_until_ready()
            counts = Counter(asyncio.run(self._all_moved(broker)))
        for kind, numbers in {
            "missing": [number for number in range(due) if not counts[number]],
            "twice": [number for number, count in counts.items() if count > 1],
            "never published": [number for number in counts if number >= published + 20],
        }.items():
            if numbers:
                findings.append(f"{kind}: {sorted(numbers)[:20]}")
        return Followed(kills, published, moved, copies, said["lag_seconds"], len(counts), findings)

    async def _all_moved(self, broker: ShardedBroker) -> list[int]:
        """Move everything that the copy has to the last topic; return the numbers there."""
        clients = [asyncio.create_task(self._repeat(broker, act)) for act in (self._reject, self._redrive)]
        connection = await Resp.connect(broker.resp_port)
        async with asyncio.timeout(STUCK_SECONDS):
            for topic in (LETTERS, LOST):  # each stays empty once all before it is
                while await connection.ask(b"LEN", topic) != 0 or await asyncio.to_thread(_waiting_count, broker):
                    await self._while_they_live(clients)
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)
        found = await all_of(connection, FOUND)
        connection.close()
        return found


def _waiting_count(broker: ShardedBroker) -> float:
    """Return how many messages are on their way between shards."""
    lines = broker.monitor("/metrics").decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("miniqueue_outbox_messages{"))
