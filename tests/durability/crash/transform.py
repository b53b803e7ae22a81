"""Kill the broker under a pipeline that consumes, transforms, and publishes; compare its output with its input.

    producer ─▶ in ─▶ RECEIVE ─▶ workers ─▶ MULTI  PUBLISH a  PUB b  ACK in  EXEC ─▶ a, b
                                     └────▶ POST /transactions

Every input has a number, and is published until that is confirmed, with a dedup id. A worker remembers nothing: an EXEC
without an answer is forgotten. At the end each number has come out of `a` and of `b` exactly once.
"""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import hiredis

from miniqueue_client import ServerError, connect
from tests.acceptance.process import BrokerProcess, Trust
from tests.durability.clients.resp import Resp
from tests.durability.crash.killed import STUCK_SECONDS, KilledStore, all_of, killed_after

INPUT, OUTPUTS = b"in", (b"a", b"b")
WORKERS = 3
#: The approximate time from the first transaction of a round to the kill of the broker.
LOAD_SECONDS = 0.3
#: What may be refused, and then was not done: a lease ends with each kill, or the broker is stopping.
REFUSALS = ("NOLEASE", "READONLY", "DRAINING")


class Transformed(NamedTuple):
    """The result of a loop: the numbers of kills and of inputs, and everything that was wrong."""

    kills: int
    inputs: int
    transactions: int
    unknown: int
    findings: list[str]

    def line(self) -> str:
        counts = f"kills={self.kills} inputs={self.inputs} transactions={self.transactions} unknown={self.unknown}"
        return f"transform {counts} findings={len(self.findings)}"


class TransformLoop:
    """One pipeline, many kills.

    Args:
      directory, trust, plant: those of `KilledStore`.
      seed: the seed of everything random, except the scheduling.
    """

    def __init__(self, directory: Path, trust: Trust, seed: int, plant: str | None = None) -> None:
        self._trust = trust
        self._store = KilledStore(directory, trust, plant)
        self._random = Random(seed)
        self._confirmed = 0  # all smaller numbers are inputs
        self._counts: Counter[str] = Counter()
        self._begun = asyncio.Event()  # a transaction of the round was carried out

    def run(self, kills: int) -> Transformed:
        """Kill the broker `kills` times under load; then let the pipeline end, and judge its output."""
        for _ in range(kills):
            asyncio.run(self._round())
        outputs = asyncio.run(self._end())
        findings = [finding for topic in OUTPUTS for finding in self._compared(topic, outputs[topic])]
        findings += self._store.problems()
        return Transformed(kills, self._confirmed, self._counts["done"], self._counts["unknown"], findings)

    async def _round(self) -> None:
        broker, seconds = self._store.start(), self._random.uniform(0.2, 1.8) * LOAD_SECONDS
        self._begun = asyncio.Event()
        workers = [self._work(broker) for _ in range(WORKERS)]
        clients = [self._produce(broker), self._work_over_http(broker), *workers]
        await killed_after(seconds, self._begun, broker, clients)

    async def _end(self) -> dict[bytes, list[int]]:
        """Wait until the workers have done the rest; return the output in each topic, in order."""
        broker = self._store.start()
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                workers = [asyncio.create_task(self._work(broker)) for _ in range(WORKERS)]
                connection = await Resp.connect(broker.resp_port)
                while await connection.ask(b"LEN", INPUT):  # noqa: ASYNC110 - another process works
                    await asyncio.sleep(0.02)
                # LEN counts what is settled before it is durable; what the last transaction published comes after that.
                await connection.ask(b"PUB", b"end", b"")
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
                outputs = {topic: await all_of(connection, topic) for topic in OUTPUTS}
                connection.close()
            return outputs
        finally:
            broker.end()

    def _compared(self, topic: bytes, numbers: list[int]) -> list[str]:
        expected, counts = range(self._confirmed), Counter(numbers)
        twice = [number for number, count in counts.items() if count > 1]
        missing = [number for number in expected if number not in counts]
        # The last input can be there although it was never confirmed.
        unknown = [number for number in counts if number > self._confirmed]
        kinds = {"twice": twice, "missing": missing, "never put in": unknown}
        return [f"{topic.decode()}: {kind}: {found[:20]}" for kind, found in kinds.items() if found]

    # --- clients ----------------------------------------------------------------------------------------------

    async def _produce(self, broker: BrokerProcess) -> None:
        """Publish the next numbers, one commit each, again until they are confirmed."""
        connection = await Resp.connect(broker.resp_port)
        try:
            while True:
                number = b"%d" % self._confirmed
                reply = await connection.ask(b"PUB", INPUT, number, b"DEDUP", number)
                if not isinstance(reply, hiredis.ReplyError):
                    self._confirmed += 1
        finally:
            connection.close()

    async def _work(self, broker: BrokerProcess) -> None:
        """Receive messages, and publish and acknowledge them in one transaction, over RESP."""
        connection = await Resp.connect(broker.resp_port)
        try:
            while True:
                received = await connection.ask(b"RECEIVE", INPUT, b"COUNT", b"%d" % self._random.randint(1, 5))
                if not isinstance(received, list) or not received:
                    await asyncio.sleep(0.002)
                    continue
                receipts, numbers = [one[0] for one in received], [one[1] for one in received]
                publishes = [(b"PUBLISH", OUTPUTS[0], number) for number in numbers]
                publishes += [(b"PUB", OUTPUTS[1], number, b"KEY", number) for number in numbers]
                commands = [*publishes, (b"ACK", INPUT, *receipts)]
                self._random.shuffle(commands)
                connection.send((b"MULTI",), *commands, (b"EXEC",))
                self._counts["unknown"] += 1
                replies = [await connection.hear() for _ in range(len(commands) + 2)]
                self._counts["unknown"] -= 1
                self._note(replies[-1])
        finally:
            connection.close()

    async def _work_over_http(self, broker: BrokerProcess) -> None:
        """Receive messages, and publish and acknowledge them in one transaction, over HTTP."""
        http = await connect("localhost", broker.https_port, cafile=self._trust.ca)
        try:
            while True:
                received = await http.receive(INPUT.decode(), count=3)
                if not received:
                    await asyncio.sleep(0.002)
                    continue
                transaction = http.transaction()
                acts = [
                    partial(transaction.publish, topic.decode(), one.payload) for one in received for topic in OUTPUTS
                ]
                acts.append(partial(transaction.ack, INPUT.decode(), *received))
                self._random.shuffle(acts)
                self._counts["unknown"] += 1
                reply: object = []
                try:
                    async with transaction:
                        for act in acts:
                            act()
                except ServerError as exc:
                    reply = hiredis.ReplyError(exc.code)
                self._counts["unknown"] -= 1
                self._note(reply)
        finally:
            http.close()

    def _note(self, reply: object) -> None:
        if isinstance(reply, list):
            self._counts["done"] += 1
            self._begun.set()
        else:
            assert str(reply).startswith((*REFUSALS, "UNKNOWN")), reply
