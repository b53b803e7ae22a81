"""What all acts need: who judges, who chooses, and what is said of requests that came to nothing."""

from collections.abc import Callable, Generator, Sequence
from random import Random

import hiredis

from tests.model.grounds import Ground
from tests.model.rules.facts import Op, Outcome
from tests.model.rules.ledger import Ledger

Act = Generator[list[bytes], object, None]

#: Error words that say that nothing was done.
REFUSALS = ("READONLY", "DRAINING", "FULL", "LIMIT", "PAUSED")
#: Replies that leave the outcome unknown.
OPEN_ENDS = ("UNKNOWN", "UNAVAILABLE")


class Acting:
    """Carries out acts.

    Args:
      ledger: judges what comes.
      random: chooses.
      grounds: the topics.
      next_payload: makes one that never was before.
      pace: how long a second is, for delays, leases and times to live.
    """

    def __init__(
        self,
        ledger: Ledger,
        random: Random,
        grounds: Sequence[Ground],
        next_payload: Callable[[], bytes],
        pace: float = 1.0,
    ) -> None:
        self.ledger = ledger
        self.random = random
        self.grounds = grounds
        self.pace = pace
        self._next_payload = next_payload
        self._out: list[tuple[bytes, bytes]] = []  # topic and receipt, of all that came
        self._resting = 0.2  # the share of settles among old receipts

    def _paced_ms(self, ms: int) -> int:
        return round(ms * self.pace) or 1

    def _payload_for(self, topic: bytes) -> bytes:
        """Make a payload; now and then it is not what the topic accepts."""
        payload = self._next_payload()
        is_formed = self.ledger.rules(topic).is_formed and self.random.random() < 0.7
        return b'"%b"' % payload if is_formed else payload

    def judge_form(self, parts: Sequence[tuple[bytes, Sequence[bytes]]], reply: object) -> None:
        """Judge the reply to publishes that are done all or none: they are refused if one does not fit, and only so."""
        is_error = isinstance(reply, hiredis.ReplyError)
        fits = all(
            payload.startswith(b'"')
            for topic, payloads in parts
            for payload in payloads
            if self.ledger.rules(topic).is_formed
        )
        assert fits or is_error or reply is None, f"{parts} was accepted"
        assert not (fits and is_error and str(reply).startswith("SCHEMA")), f"{parts}: {reply}"

    def is_over(self, op: Op, reply: object, *others: str) -> bool:
        """Note a request that was lost or refused, also for what `others` say; return whether it was."""
        if op.outcome is not Outcome.OPEN:
            return True  # there was a crash first
        if reply is None:
            self.ledger.lose(op)
        elif isinstance(reply, hiredis.ReplyError):
            word = str(reply).partition(" ")[0]
            assert word in (*REFUSALS, *OPEN_ENDS, *others), f"{op.text}: {reply}"
            (self.ledger.lose if word in OPEN_ENDS else self.ledger.refuse)(op)
        return op.outcome is not Outcome.OPEN
