"""Holds a broker to what it has answered, whatever the acts were: pure, no I/O, no second broker.

    ask ─▶ Op ─▶ accept | refuse | lose          `deliver` judges each message that comes, `settled` each receipt
    crash, stop                                  every lease is over; what was answered and not committed is open
    lost                                         messages that must be there, in the end

What must hold, of every message and in every group: it was published; nobody else holds it; it is not done; its time
has come and is not over; it stands where it may, under the id that it was given, with counts that can be; what has the
same key and is older is done. A dedup id and a unique key stand for one message. What is sure and not done, is there.
"""

from collections.abc import Sequence

from tests.model.facts import Op, Outcome
from tests.model.removing import Removing


class Ledger(Removing):
    """All that is known; arguments as of `Stock`."""

    def read(self, asked: Op, topic: bytes, found: Sequence[tuple[bytes, bytes]]) -> None:
        """Judge all that the log of a topic has that keeps everything."""
        seqs = [int(id_.partition(b"-")[2]) for id_, _ in found]
        assert seqs == sorted(set(seqs)), f"{topic!r} was read out of order: {seqs}"
        for id_, payload in found:
            message = self.messages[payload]
            assert message.topic == topic
            assert message.op.outcome is not Outcome.REFUSED, f"{message} was refused, but can be read"
            message.op.exists = True
            self._name(message, topic, id_)
        payloads = {payload for _, payload in found}
        assert len(payloads) == len(found), f"something is in {topic!r} twice"
        for message in self.messages.values():
            is_before = message.op.outcome is Outcome.OK and message.op.ok_index < asked.index
            if message.topic == topic and is_before and message.id.count(b"-") == 1:
                assert message.payload in payloads, f"{message} cannot be read any more"
