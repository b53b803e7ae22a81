"""What is done with topics as a whole, at random."""

from tests.model.acts.acting import Act, Acting
from tests.model.grounds import Ground


class TopicActs(Acting):
    """Purges, pauses, deletes and looks; arguments as of `Acting`."""

    def cancel(self, ground: Ground) -> Act:
        """CANCEL one that was delayed, and may be due by now."""
        messages = [m for m in self.ledger.messages.values() if m.topic == ground.name and m.id.count(b"-") == 2]
        if not messages:
            return
        message = self.random.choice(messages[-5:])
        op = self.ledger.ask(f"cancel {message.id!r}", is_durable_at_once=True)
        self.ledger.end(message, op)
        reply = yield [b"CANCEL", ground.name, message.id]
        if not self.is_over(op, reply, "NOMESSAGE", "NOTOPIC"):
            self.ledger.accept(op)

    def purge(self, ground: Ground) -> Act:
        """PURGE in one of its forms."""
        words = self.random.choice(([], [b"STATE", b"ready"], [b"STATE", b"delayed"], [b"OLDER", b"3"]))
        op = self.ledger.ask("purge", is_durable_at_once=True)
        self.ledger.begin_purge(op, ground.name)
        reply = yield [b"PURGE", ground.name, *words]
        if not self.is_over(op, reply, "NOTOPIC"):
            assert isinstance(reply, int), reply
            self.ledger.accept(op)

    def redrive(self, ground: Ground) -> Act:
        """REDRIVE the dead letters."""
        op = self.ledger.ask("redrive")
        self.ledger.begin_redrive(op, ground.name)
        limit = [b"LIMIT", b"2"] if self.random.random() < 0.5 else []
        reply = yield [b"REDRIVE", ground.name + b".dlq", *limit]
        if not self.is_over(op, reply, "NOTOPIC"):
            self.ledger.accept(op)

    def pause(self, ground: Ground) -> Act:
        """PAUSE one side for a moment, or RESUME."""
        side = self.random.choice((b"IN", b"OUT", b"BOTH"))
        op = self.ledger.ask("pause", is_durable_at_once=True)
        self.ledger.pausing(op, ground.name)
        is_end = self.random.random() < 0.4
        reply = (
            yield [b"RESUME", ground.name]
            if is_end
            else [b"PAUSE", ground.name, side, b"%g" % (self.ledger.pause_ms / 1000)]
        )
        if not self.is_over(op, reply, "NOTOPIC"):
            self.ledger.accept(op)
            if side != b"IN" and not is_end:
                self.ledger.paused_out(op, ground.name)

    def order(self, ground: Ground) -> Act:
        """TOPIC SET: have keys be in order, or only take turns, or neither, while others receive."""
        is_ordered, is_fair = self.random.choice(((True, False), (True, False), (False, True), (False, False)))
        op = self.ledger.ask(f"order {is_ordered}", is_durable_at_once=True)
        self.ledger.ordering(op, ground.name)
        words = [b"ordered", b"true" if is_ordered else b"false", b"fair", b"true" if is_fair else b"false"]
        reply = yield [b"TOPIC", b"SET", ground.name, *words]
        if not self.is_over(op, reply, "NOTOPIC"):
            self.ledger.accept(op)
            if is_ordered:
                self.ledger.ordered(op, ground.name)

    def delete(self, ground: Ground) -> Act:
        """TOPIC DELETE, now and then."""
        if self.random.random() < 0.8:
            return
        op = self.ledger.ask("delete", is_durable_at_once=True)
        self.ledger.begin_deletion(op, ground.name)
        reply = yield [b"TOPIC", b"DELETE", ground.name]
        if not self.is_over(op, reply):
            self.ledger.deleted(op, ground.name)

    def look(self, ground: Ground) -> Act:
        """PEEK changes nothing."""
        state = self.random.choice((b"ready", b"leased", b"delayed"))
        op = self.ledger.ask("peek")
        reply = yield [b"PEEK", ground.name, b"STATE", state, b"COUNT", b"5"]
        if not self.is_over(op, reply, "NOTOPIC"):
            self.ledger.accept(op)
