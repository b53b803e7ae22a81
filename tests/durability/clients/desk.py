"""Clients that request and clients that reply, until the broker is gone: no client gets the reply of another.

REQUEST questions q-7 ─▶ RECEIVE ─▶ REPLY "answer to q-7" ─▶ whoever asked q-7, if he still waits
"""

from itertools import count
from random import Random

import hiredis

from tests.durability.clients.publishers import Ports
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp
from tests.model.acts.request_acts import answer_to

TOPIC = b"questions"
PATIENCES = (b"0.05", b"0.5", b"5")
LEASE_SECONDS = b"0.2"
#: What may become of a question besides an answer.
NO_ANSWER = ("TIMEOUT", "UNKNOWN", "UNAVAILABLE", "READONLY", "DRAINING", "FULL", "LIMIT")
NOT_PASSED_ON = ("GONE", "NOLEASE", "UNKNOWN", "UNAVAILABLE", "READONLY")


class Desk:
    """The topic, from crash to crash."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: set[bytes] = set()  # questions of this run that were asked and not answered
        self._answered: set[bytes] = set()  # and those whose reply was passed on

    def crash(self) -> None:
        """Nobody waits any more."""
        self._waiting.clear()
        self._answered.clear()

    async def ask(self, ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
        """Ask one question after the other; in the form of any client."""
        connection = await Resp.connect(ports.resp)
        try:
            while True:
                question = b"q-%d" % next(self._numbers)
                self._waiting.add(question)
                reply = await connection.ask(b"REQUEST", TOPIC, question, b"TIMEOUT", random.choice(PATIENCES))
                self._waiting.discard(question)
                self._judge(recorder, question, reply)
        finally:
            connection.close()

    def _judge(self, recorder: Recorder, question: bytes, reply: object) -> None:
        report = recorder.checker.report
        if not isinstance(reply, hiredis.ReplyError):
            report.counts["answered"] += 1
            if reply != answer_to(question):
                report.add("broken", f"{question!r} was answered with {reply!r}")
        elif not str(reply).startswith(NO_ANSWER):
            report.add("broken", f"{question!r}: {reply}")
        elif question in self._answered:
            report.add("broken", f"{question!r} was answered, but the requester got {reply}")

    async def answer(self, ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
        """Answer what is asked; some of it late, twice, or not at all."""
        connection = await Resp.connect(ports.resp)
        try:
            while True:
                found = await connection.ask(
                    b"RECEIVE", TOPIC, b"COUNT", b"3", b"WAIT", b"0.1", b"LEASE", LEASE_SECONDS
                )
                assert isinstance(found, list), found
                for receipt, question, _ in found:
                    for _ in range(random.choice((0, 1, 1, 1, 1, 1, 2))):
                        await self._answer(connection, recorder, receipt, bytes(question))
        finally:
            connection.close()

    async def _answer(self, connection: Resp, recorder: Recorder, receipt: bytes, question: bytes) -> None:
        reply = await connection.ask(b"REPLY", TOPIC, receipt, answer_to(question))
        if reply == b"OK":
            if question in self._answered:
                recorder.checker.report.add("broken", f"{question!r} was answered twice")
            self._answered.add(question)
        elif not str(reply).startswith(NOT_PASSED_ON):
            recorder.checker.report.add("broken", f"the answer to {question!r}: {reply}")
