"""What was asked and answered, over crashes: what is in force, and what is durable.

ask ─▶ Op ─▶ accept | refuse | lose
crash, stop: every lease is over; what was answered and not committed is open
"""

from collections.abc import Callable

from tests.model.rules.facts import Message, Op, Outcome, Share


class Requests:
    """All requests, and the messages that they are about.

    Args:
      wall_ms: the clock that the broker goes by; seconds are those of its monotonic one.
    """

    def __init__(self, wall_ms: Callable[[], int], monotonic_seconds: Callable[[], float]) -> None:
        self.messages: dict[bytes, Message] = {}
        self.latest_ms = 0
        self.wall_ms = wall_ms
        self._seconds = monotonic_seconds
        self._epoch = 0
        self._index = 0
        self._durable_index: dict[int, float] = {}  # epoch: the index before which all replies are durable
        self._open: dict[Op, None] = {}
        self._receipts: dict[bytes, Share | None] = {}  # None for those that are over
        self._settled: set[bytes] = set()

    @property
    def epoch(self) -> int:
        """How often the broker has lost its memory."""
        return self._epoch

    def ask(self, text: str, *, is_durable_at_once: bool = False) -> Op:
        """Note that something is about to be asked."""
        op = Op(text, self._epoch, self._next(), self.wall_ms(), self._seconds())
        op.is_durable_at_once = is_durable_at_once
        self._open[op] = None
        return op

    def now(self, text: str) -> Op:
        """Note what time it is, for what comes without being asked for."""
        return Op(text, self._epoch, self._next(), self.wall_ms(), self._seconds())

    def _next(self) -> int:
        self._index += 1
        self.latest_ms = max(self.latest_ms, self.wall_ms())
        return self._index

    def accept(self, op: Op) -> None:
        """It was answered: it is done."""
        self._answer(op, Outcome.OK)

    def refuse(self, op: Op) -> None:
        """It was answered: nothing was done."""
        self._answer(op, Outcome.REFUSED)
        for message in self.messages.values():
            for share in message.shares.values():
                if op in share.ends:
                    share.ends.remove(op)

    def lose(self, op: Op) -> None:
        """Nobody will know."""
        if op.outcome is Outcome.OPEN:
            self._answer(op, Outcome.UNKNOWN)

    def _answer(self, op: Op, outcome: Outcome) -> None:
        op.outcome, op.ok_index, op.answered_ms = outcome, self._next(), self.wall_ms()
        self._open.pop(op, None)
        for follow in op.then:
            follow()
        if outcome is Outcome.OK and (op.messages or op.is_durable_at_once):
            self.confirm(op)
        op.epoch = self._epoch  # what is answered now is in force now

    def confirm(self, op: Op) -> None:
        """What was answered before this was asked for is durable, unless the broker has lost its memory in between."""
        if op.epoch == self._epoch:
            self._durable_index[self._epoch] = max(self._durable_index.get(self._epoch, -1), op.index)

    def crash(self) -> None:
        """The process is gone, with all that was asked and not answered."""
        for op in list(self._open):
            self.lose(op)
        self.fault()

    def fault(self) -> None:
        """The broker has lost its memory; who waits may still be answered."""
        self._epoch += 1
        self._receipts = dict.fromkeys(self._receipts)
        for message in self.messages.values():
            for share in message.shares.values():
                share.hold = None

    def stop(self) -> None:
        """It has stopped in good order."""
        self._durable_index[self._epoch] = float("inf")
        self.crash()

    def is_in_force(self, op: Op) -> bool:
        """Whether a settle, or the like, must have its effect; one in a transaction of which something was seen has."""
        if op.exists:
            return True
        if op.outcome is not Outcome.OK:
            return False
        return self._is_durable(op) or op.epoch == self._epoch

    def _is_durable(self, op: Op) -> bool:
        """Whether not even a crash can have undone it."""
        if op.outcome is not Outcome.OK:
            return False
        return op.is_durable_at_once or op.ok_index < self._durable_index.get(op.epoch, -1)
