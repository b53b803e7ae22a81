"""Kills a broker and the copy that follows it at random, under load, and judges the copy.

The copy must open, pass `check`, and hold for each publisher everything that was confirmed up to the moment of which
the follower has said last that the copy is complete; and beyond that no holes, nothing twice, nothing out of order.
"""

import json
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.acceptance import patient
from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess, Trust, run_to_end
from tests.durability.follow.load import Ballast, Publisher

PUBLISHERS = 2
#: The interval of the follower's reports.
INTERVAL = "100ms"
_PAGE = 1000
#: The exit code of a store that is in use, or is none that may be continued.
REFUSED = 73


@dataclass
class Judged:
    """The result of a loop."""

    kills: dict[str, int]
    published: int
    copies: int
    continued: int
    lag_seconds: float
    held: int
    findings: list[str] = field(default_factory=list)

    def line(self) -> str:
        kills = " ".join(f"{name}-kills={count}" for name, count in self.kills.items())
        return (
            f"follow {kills} published={self.published} held={self.held} copies={self.copies} "
            f"continued={self.continued} lag={self.lag_seconds:.3f}s findings={len(self.findings)}"
        )


class FollowLoop:
    """A broker, a copy that follows it, and their clients.

    Args:
      directory: an empty directory.
      trust: the certificate of the broker.
      seed: the seed of everything random.
    """

    def __init__(self, directory: Path, trust: Trust, seed: int) -> None:
        self._directory = directory
        self._trust = trust
        self._random = random.Random(seed)
        self._outputs: list[str] = []  # those of followers that were killed
        self._stack = ExitStack()
        self._resp, self._monitor = (port_of(self._stack.enter_context(hold_port())) for _ in range(2))
        self._broker = self._started_broker()
        self._follower = self._started_follower()

    def run(self, kills: int, seconds: float) -> Judged:
        """Kill `kills` times, at random moments of `seconds`; return what came of it."""
        with self._stack:
            publishers = [Publisher(self._resp, f"numbers-{number}") for number in range(PUBLISHERS)]
            clients = [*publishers, Ballast(self._resp)]
            for client in clients:
                client.start()
            counts = {"broker": 0, "follower": 0}
            try:
                for _ in range(kills):
                    time.sleep(self._random.expovariate(kills / seconds))  # the moment of a kill is random
                    counts[self._kill_one()] += 1
                self._follower.wait_for_event("following")
                time.sleep(self._random.uniform(0.5, 1.5))  # so that the copy lags by a random amount
                self._broker.kill()
                self._follower.kill()
            finally:
                for client in clients:
                    client.stop()
            self._outputs.append(self._follower.output)
            self._follower.end()
            self._broker.end()
            return self._judged(counts, publishers)

    def _kill_one(self) -> str:
        if self._random.random() < 0.5:
            self._broker.kill()
            self._broker.end()
            self._broker = self._started_broker()
            return "broker"
        self._follower.kill()
        self._outputs.append(self._follower.output)
        self._follower.end()
        self._follower = self._started_follower()
        return "follower"

    def _started_broker(self, db: str = "data") -> BrokerProcess:
        ports = ["-port", "0", "-resp-port", str(self._resp), "-monitor-port", str(self._monitor)]
        process = BrokerProcess([*ports, *self._trust.flags, "-db", db], cwd=self._directory)
        self._stack.callback(process.end)
        return process.wait_until_ready()

    def _started_follower(self) -> BrokerProcess:
        url = f"http://127.0.0.1:{self._monitor}"
        process = BrokerProcess(["backup", "-follow", url, "-interval", INTERVAL, "copy"], cwd=self._directory)
        self._stack.callback(process.end)
        return process

    # --- the judgement --------------------------------------------------------------------------------------------

    def _judged(self, kills: dict[str, int], publishers: list[Publisher]) -> Judged:
        lines = [json.loads(line) for output in self._outputs for line in output.splitlines() if line.startswith("{")]
        events = [line["event"] for line in lines]
        known = [line for line in lines if line.get("lag_seconds") is not None]
        said_at = datetime.fromisoformat(known[-1]["time"]).timestamp()
        lag_seconds = known[-1]["lag_seconds"]
        judged = Judged(
            kills,
            sum(len(publisher.confirmed) for publisher in publishers),
            events.count("copied"),
            len(self._outputs),
            lag_seconds,
            0,
            [f"a follower failed: {output}" for output in self._outputs if "Traceback" in output],
        )
        checked = run_to_end("check", "-db", "copy", cwd=self._directory)
        if checked.returncode:
            judged.findings.append(f"check: {checked.stdout}{checked.stderr}")
        self._broker = self._started_broker("copy")
        refused = run_to_end("backup", "-follow", "http://127.0.0.1:1", "copy", cwd=self._directory)
        if refused.returncode != REFUSED:
            judged.findings.append(f"a follower goes on beside a broker: {refused.stderr}")
        for publisher in publishers:
            held = self._held(publisher.topic)
            judged.held += len(held)
            judged.findings += findings_in(publisher, held, said_at - lag_seconds)
        self._broker.stop()
        return judged

    def _held(self, topic: str) -> list[int]:
        numbers: list[int] = []
        with patient.Redis(port=self._resp) as client:
            while page := client.execute_command("RECEIVE", topic, "COUNT", _PAGE, "AUTOACK"):
                numbers += [int(payload) for _, payload, _ in page]
        return numbers


def findings_in(publisher: Publisher, held: list[int], complete_of: float) -> list[str]:
    """Return what is wrong with what the copy holds of a publisher."""
    found, numbers = [], set(held)
    due = {number for number, at in publisher.confirmed.items() if at < complete_of}
    if missing := due - numbers:
        found.append(f"{publisher.topic}: {len(missing)} missing that were confirmed in time, such as {min(missing)}")
    newest = max(held, default=-1)
    if holes := {number for number in publisher.confirmed if number < newest} - numbers:
        found.append(f"{publisher.topic}: {len(holes)} holes, such as {min(holes)}")
    if held != sorted(numbers):
        found.append(f"{publisher.topic}: out of order, or twice")
    if newest >= publisher.tried_count:
        found.append(f"{publisher.topic}: {newest} was never published")
    return found
