"""Kill the broker while tasks delete and redrive messages by filters; then count every message.

    producer ─┬▶ pile ────────────────────▶ task: DELETE KEY work ─▶ gone
              └▶ letters ─▶ REJECT ─▶ dlq ─▶ task: REDRIVE KEY work ─▶ moved

Every other number has the key `work`. Each number is published, with a dedup id, until that is confirmed. At the end,
the numbers with the key `work` are no longer in `pile`, and exactly once in `moved`; the others are where they were.
The counts of all tasks add up to what was settled.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import hiredis

from tests.acceptance.process import BrokerProcess, Trust
from tests.durability.clients.resp import Resp
from tests.durability.crash.killed import STUCK_SECONDS, KilledStore, all_of, killed_after

PILE, LETTERS, DEAD, MOVED = b"pile", b"letters", b"letters.dlq", b"moved"
WORK, STAY = b"work", b"stay"
#: The command that begins each kind of task.
COMMANDS = {
    b"delete": (b"MESSAGES", b"DELETE", PILE, b"KEY", WORK),
    b"redrive": (b"MESSAGES", b"REDRIVE", DEAD, b"KEY", WORK, b"TO", MOVED),
}
#: Messages per second; the slowest tasks last over several kills.
RATES: tuple[tuple[bytes, ...], ...] = ((), (), (b"RATE", b"300"), (b"RATE", b"50"))
NUMBERS_AT_ONCE = 100
MAX_RUNNING = 4
#: The approximate time from the first task of a round to the kill of the broker.
LOAD_SECONDS = 0.3
#: What may be refused, and then was not done.
REFUSALS = ("NOLEASE", "READONLY", "DRAINING", "NOTOPIC")


class Counted(NamedTuple):
    """The result of a loop; `interrupted` counts the tasks that continued after a kill, at each kill."""

    kills: int
    messages: int
    tasks: int
    interrupted: int
    findings: list[str]

    def line(self) -> str:
        counts = f"kills={self.kills} messages={self.messages} tasks={self.tasks} interrupted={self.interrupted}"
        return f"tasks {counts} findings={len(self.findings)}"


class TaskLoop:
    """One store, many kills.

    Args:
      directory, trust, plant: those of `KilledStore`.
      seed: the seed of everything random, except the scheduling.
    """

    def __init__(self, directory: Path, trust: Trust, seed: int, plant: str | None = None) -> None:
        self._store = KilledStore(directory, trust, plant)
        self._random = Random(seed)
        self._confirmed = 0  # all smaller numbers were published
        self._tasks: dict[bytes, dict[bytes, Any]] = {}  # the last state of each task
        self._interrupted = 0
        self._begun = asyncio.Event()  # a task of the round was begun

    def run(self, kills: int) -> Counted:
        """Kill the broker `kills` times; then let all tasks end, and count."""
        for _ in range(kills):
            asyncio.run(self._round())
        places = asyncio.run(self._end())
        findings = self._judged(places) + self._store.problems()
        return Counted(kills, 2 * self._confirmed, len(self._tasks), self._interrupted, findings)

    async def _round(self) -> None:
        broker, seconds = self._store.start(), self._random.uniform(0.3, 1.7) * LOAD_SECONDS
        self._begun = asyncio.Event()
        clients = [self._produce(broker), self._reject(broker), self._begin_tasks(broker)]
        await killed_after(seconds, self._begun, broker, clients)

    # --- clients ----------------------------------------------------------------------------------------------

    async def _produce(self, broker: BrokerProcess) -> None:
        connection = await Resp.connect(broker.resp_port)
        try:
            while True:
                await self._publish(connection)
        finally:
            connection.close()

    async def _publish(self, connection: Resp) -> None:
        """Publish the next numbers, or those again that were not confirmed."""
        numbers = [b"%d" % number for number in range(self._confirmed, self._confirmed + NUMBERS_AT_ONCE)]
        commands = [
            (b"PUB", topic, number, b"KEY", WORK if int(number) % 2 else STAY, b"DEDUP", number)
            for number in numbers
            for topic in (PILE, LETTERS)
        ]
        connection.send(*commands)
        replies = [await connection.hear() for _ in commands]
        if not any(isinstance(reply, hiredis.ReplyError) for reply in replies):
            self._confirmed += NUMBERS_AT_ONCE

    async def _reject(self, broker: BrokerProcess) -> None:
        """Make dead letters."""
        connection = await Resp.connect(broker.resp_port)
        try:
            while True:
                await self._reject_some(connection)
                await asyncio.sleep(0.002)
        finally:
            connection.close()

    async def _reject_some(self, connection: Resp) -> bool:
        received = await connection.ask(b"RECEIVE", LETTERS, b"COUNT", b"100")
        if isinstance(received, list) and received:
            await connection.ask(b"REJECT", LETTERS, *(one[0] for one in received), b"no")
        return bool(received)

    async def _begin_tasks(self, broker: BrokerProcess) -> None:
        """Begin tasks, a few at a time, and look at them."""
        connection = await Resp.connect(broker.resp_port)
        try:
            self._interrupted += len(await self._running(connection))
            while True:
                if len(await self._running(connection)) < MAX_RUNNING:
                    command = COMMANDS[self._random.choice((b"delete", b"redrive"))]
                    reply = await connection.ask(*command, *self._random.choice(RATES), b"TASK")
                    if isinstance(reply, hiredis.ReplyError):
                        assert str(reply).startswith(REFUSALS), reply
                    else:
                        self._begun.set()
                await asyncio.sleep(self._random.uniform(0, 0.03))
        finally:
            connection.close()

    async def _running(self, connection: Resp) -> list[bytes]:
        """Look at all tasks; return those that run."""
        listed = await connection.ask(b"TASK", b"LIST")
        assert isinstance(listed, list), listed
        tasks = [dict(zip(task[::2], task[1::2], strict=True)) for task in listed]
        self._tasks |= {task[b"id"]: task for task in tasks}
        return [task[b"id"] for task in tasks if task[b"status"] == b"running"]

    # --- the end ----------------------------------------------------------------------------------------------

    async def _end(self) -> dict[bytes, list[int]]:
        """Run tasks on everything that is left; return what is in each topic."""
        broker = self._store.start()
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                connection = await Resp.connect(broker.resp_port)
                await self._publish(connection)  # until now, some of these may be there although no reply said so
                for task in await self._running(connection):
                    assert await connection.ask(b"TASK", b"CANCEL", task) == b"OK"
                while await self._reject_some(connection):
                    pass
                for command in COMMANDS.values():
                    assert not isinstance(await connection.ask(*command, b"TASK"), hiredis.ReplyError)
                while await self._running(connection):  # noqa: ASYNC110 - another process works
                    await asyncio.sleep(0.02)
                places = {topic: await all_of(connection, topic) for topic in (PILE, LETTERS, DEAD, MOVED)}
                connection.close()
            return places
        finally:
            broker.end()

    def _judged(self, places: dict[bytes, list[int]]) -> list[str]:
        worked, stayed = range(1, self._confirmed, 2), range(0, self._confirmed, 2)
        expected: dict[bytes, Sequence[int]] = {PILE: stayed, LETTERS: (), DEAD: stayed, MOVED: worked}
        findings = [_compared(topic, places[topic], expected[topic]) for topic in expected]
        for act in COMMANDS:
            counts = [int(task[b"count"]) for task in self._tasks.values() if task[b"act"] == act]
            is_right = sum(counts) == len(worked)
            findings.append("" if is_right else f"{act.decode()}: {sum(counts)} counted, not {len(worked)}")
        failed = [task for task in self._tasks.values() if task[b"status"] == b"failed"]
        return [finding for finding in findings if finding] + [f"failed: {task}" for task in failed]


def _compared(topic: bytes, found: list[int], expected: Sequence[int]) -> str:
    """Return what is wrong with the numbers in a topic."""
    twice = sorted({number for number in found if found.count(number) > 1}) if len(found) != len(set(found)) else []
    missing, alien = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    kinds = {"twice": twice, "missing": missing, "should not be there": alien}
    wrong = [f"{kind}: {numbers[:20]}" for kind, numbers in kinds.items() if numbers]
    return f"{topic.decode()}: {', '.join(wrong)}" if wrong else ""
