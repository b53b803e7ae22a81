"""TRACE, at random: the trace of a message is what happened to it."""

from tests.model.acts.acting import Act, Acting
from tests.model.grounds import Ground


class TraceActs(Acting):
    """Looks at traces; arguments as of `Acting`."""

    def trace(self, ground: Ground) -> Act:
        """TRACE of one that was published for certain, in a topic that has been traced from the start."""
        messages = [m for m in self.ledger.messages.values() if m.topic == ground.name and m.id.count(b"-") == 1]
        if not messages:
            return
        message = self.random.choice(messages[-20:])
        op = self.ledger.ask(f"trace {message.id!r}")
        reply = yield [b"TRACE", ground.name, message.id]
        if self.is_over(op, reply):
            return
        assert isinstance(reply, list), reply
        self.ledger.accept(op)
        self.ledger.judge_trace(op, message, [dict(zip(step[::2], step[1::2], strict=True)) for step in reply])
