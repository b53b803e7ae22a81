"""REQUEST and REPLY, at random: a requester gets the reply to its own request, or the error that there is none."""

import hiredis

from tests.model.acts.acting import Act, Acting
from tests.model.grounds import Ground
from tests.model.rules.facts import Wishes

PATIENCE_SECONDS = (0.5, 3, 20)


def answer_to(payload: bytes) -> bytes:
    """Return the one answer to a request."""
    return b"answer to " + payload


class RequestActs(Acting):
    """Requests and replies; arguments: those of `Acting`. A requester requires another client that replies."""

    def request(self, ground: Ground) -> Act:
        """REQUEST: the answer to it, and to nothing else; or that there is none in time."""
        seconds = self.random.choice(PATIENCE_SECONDS) * self.pace
        payload = self._next_payload()
        op = self.ledger.publish(ground.name, [payload], Wishes(ttl_ms=round(1000 * seconds), is_request=True))
        reply = yield [b"REQUEST", ground.name, payload, b"TIMEOUT", b"%g" % seconds]
        is_too_late = isinstance(reply, hiredis.ReplyError) and str(reply).startswith("TIMEOUT")
        if is_too_late:
            assert payload not in self.ledger.answered, f"{payload!r} was answered, but not told so"
            assert self.ledger.wall_ms() >= op.asked_ms + round(1000 * seconds), f"{payload!r} was given up early"
            self.ledger.lose(op)
        elif isinstance(reply, hiredis.ReplyError) and str(reply).startswith("DRAINING"):
            self.ledger.lose(op)  # perhaps it was published before
        elif not self.is_over(op, reply):
            assert reply == answer_to(payload), f"{payload!r} was answered with {reply!r}"
            self.ledger.accept(op)

    def answer(self, ground: Ground) -> Act:
        """REPLY to some message that is held, or was: what asks nothing stays as it is."""
        held = [receipt for topic, receipt in self._out if topic == ground.name]
        if not held:
            return
        receipt = self.random.choice(held)
        self._out.remove((ground.name, receipt))
        op = self.ledger.ask("REPLY")
        payload = self.ledger.payload_of(receipt) or b"no message"
        must = self.ledger.begin_settle(op, [receipt], is_end=True)
        reply = yield [b"REPLY", ground.name, receipt, answer_to(payload)]
        word = "OK" if reply == b"OK" else str(reply).partition(" ")[0]
        is_done = word in ("OK", "GONE")  # the requester has left, but the message is acknowledged
        if not is_done and self.is_over(op, reply, "NOLEASE", "NOREQUEST") and word not in ("NOLEASE", "NOREQUEST"):
            return
        if word == "OK":
            self.ledger.answered.add(payload)
        if word == "NOREQUEST":
            self.ledger.not_settled(op, receipt)
        else:
            self.ledger.settled(op, [receipt], must, [is_done])
