"""Whether the trace of a message is what happened to it."""

from collections.abc import Mapping, Sequence

from tests.model.rules.facts import Message, Op, Share
from tests.model.rules.logs import Logs

#: Behind these nothing more happens to a message in a group.
ENDS = (b"acknowledged", b"rejected", b"expired", b"dropped", b"purged", b"missed", b"dead_lettered")
Steps = Sequence[Mapping[bytes, object]]


class Traces(Logs):
    """Judges traces; arguments as of `Stock`."""

    def judge_trace(self, asked: Op, message: Message, steps: Steps) -> None:
        """Judge the trace of a message that was published for certain."""
        events = [step[b"event"] for step in steps if step[b"topic"] == message.topic]
        assert b"published" in events, f"{message}: {steps}"
        assert events.count(b"committed") == 1 or message.may_move, f"{message}: {steps}"
        times = [int(str(step[b"at_ms"])) for step in steps]
        assert times == sorted(times), f"{message}: {steps}"
        assert times[0] >= message.op.asked_ms, f"{message}: {steps}"
        assert times[-1] <= self.latest_ms, f"{message}: {steps}"
        for share in message.shares.values() if not message.may_move else ():
            self._judge_share(asked, share, [step for step in steps if step.get(b"group") == share.group])

    def _judge_share(self, asked: Op, share: Share, steps: Steps) -> None:
        events = [step[b"event"] for step in steps]
        is_done = any(self._is_durable(op) and op.ok_index < asked.index for op in share.ends)
        assert not is_done or (events[-1:] and events[-1] in ENDS), f"{share.message} is done: {steps}"
        is_there = self.must_be_there(share) and not share.ends
        assert not (is_there and any(event in ENDS for event in events)), f"{share.message} is there: {steps}"
        ended = [number for number, event in enumerate(events) if event in ENDS]
        assert not ended or ended[0] == len(events) - 1, f"{share.message} was handed out after its end: {steps}"
