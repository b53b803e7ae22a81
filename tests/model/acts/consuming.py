"""RECEIVE, settles by receipt and EXTEND, at random."""

import hiredis

from tests.model.acts.acting import Act, Acting
from tests.model.grounds import Ground
from tests.model.rules.facts import DEFAULT, Op, Outcome, Share

LEASES = (0.5, 5, 5, 3600)
REASONS = (b"bad", b"worse")
SCHEDULED = b"tick"
#: The share of settles that are answered when they are on the disk.
SYNCED = 0.2


class Consuming(Acting):
    """Receives and settles; arguments as of `Acting`."""

    def receive(self, ground: Ground) -> Act:
        """RECEIVE some, from the topic or from its dead letters; now and then they are done at once."""
        random = self.random
        topic, group = random.choice((ground.name, ground.name, *ground.places)), random.choice(ground.groups)
        lease, is_acked = random.choice(LEASES) * self.pace, random.random() < 0.1
        wait = random.choice((0, 0, 0, 1)) * self.pace
        words = [b"RECEIVE", topic, b"COUNT", b"%d" % random.choice((1, 1, 3, 10)), b"WAIT", b"%g" % wait]
        words += [b"GROUP", group] if group != DEFAULT else []
        member = random.choice(ground.members) if ground.members else b""
        words += [b"MEMBER", member] if member else []
        words += [b"AUTOACK"] if is_acked else [b"LEASE", b"%g" % lease]
        op = self.ledger.ask(f"receive {'and end' if is_acked else ''}")
        reply = yield words
        self.received(op, topic, group, reply, None if is_acked else lease, member)

    def received(
        self, op: Op, topic: bytes, group: bytes, reply: object, lease_seconds: float | None, member: bytes = b""
    ) -> None:
        """Judge what a RECEIVE was answered; `lease_seconds` are None for AUTOACK."""
        if self.is_over(op, reply, "NOGROUP"):
            if op.outcome is Outcome.UNKNOWN and lease_seconds is None:
                self.ledger.lose_reply(topic.removesuffix(b".dlq"), group)
            return
        assert isinstance(reply, list), reply
        shares: list[tuple[bytes, Share]] = []
        for receipt, payload, words in reply:
            marks = marks_of(words)
            is_tick = payload == SCHEDULED
            known = self.ledger.scheduled(topic.removesuffix(b".dlq"), scheduled_at(marks)) if is_tick else payload
            shares.append((receipt, self.ledger.deliver(op, topic, group, receipt, known, marks)))
        self.ledger.accept(op)
        for receipt, share in shares:
            if lease_seconds is None:
                share.ends = [op]
            else:
                self.ledger.lease(share, topic, receipt, op, lease_seconds, member)
                self._out.append((topic, receipt))

    def settle(self, ground: Ground) -> Act:
        """ACK, NACK, BACK, DACK by receipt, now and then with SYNC: some of what is out, or was."""
        yield from self._settle(self.random.choice((b"ACK", b"ACK", b"ACK", b"NACK", b"BACK", b"DACK")))

    def reject(self, ground: Ground) -> Act:
        """REJECT."""
        yield from self._settle(b"REJECT")

    def _settle(self, word: bytes) -> Act:
        topic, receipts = self._pick()
        if not receipts:
            return
        is_reject = word == b"REJECT"
        if is_reject and not self.ledger.rules(topic).has_dead:
            return
        is_synced = self.random.random() < SYNCED
        op = self.ledger.ask(word.decode(), is_durable_at_once=is_synced)
        is_end = word == b"ACK" or (is_reject and topic.endswith(b".dlq"))
        last = {b"DACK": [b"%g" % (1.5 * self.pace)], b"REJECT": [self.random.choice(REASONS)]}.get(word, [])
        reason = last[0] if is_reject else None
        must = self.ledger.begin_settle(op, receipts, is_end=is_end, is_front=word == b"NACK", reason=reason)
        reply = yield [word, topic, *receipts, *([b"SYNC"] if is_synced else []), *last]
        if not self.is_over(op, reply, "NOLEASE"):
            results = reply if isinstance(reply, list) else [reply]
            self.ledger.settled(op, receipts, must, [bytes(result) == b"OK" for result in results])
        elif isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOLEASE"):
            self.ledger.settled(op, receipts, must, [False])

    def _pick(self) -> tuple[bytes, list[bytes]]:
        """Choose some receipts of one topic; most of them are forgotten then."""
        if not self._out:
            return b"", []
        topic, first = self.random.choice(self._out)
        others = [receipt for name, receipt in self._out if name == topic and receipt != first]
        count = min(len(others), self.random.choice((0, 0, 1, 3)))
        receipts = [first, *self.random.sample(others, count)]
        if self.random.random() > self._resting:
            self._out = [one for one in self._out if one[1] not in receipts]
        return topic, receipts

    def extend(self, ground: Ground) -> Act:
        """EXTEND one lease, also to less."""
        if not self._out:
            return
        topic, receipt = self.random.choice(self._out)
        seconds = self.random.choice((0.5, 10.0)) * self.pace
        op = self.ledger.ask("EXTEND")
        is_live = self.ledger.begin_extension(receipt)
        reply = yield [b"EXTEND", topic, receipt, b"%g" % seconds]
        is_refused = isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOLEASE")
        if is_refused or not self.is_over(op, reply):
            self.ledger.extended(op, receipt, seconds, is_live=is_live, is_done=not is_refused)


def scheduled_at(marks: dict[bytes, object]) -> int:
    """Return the time of a tick in ms, which its message has as a header."""
    headers = marks[b"headers"]
    assert isinstance(headers, list)
    return int({bytes(name): bytes(value) for name, value in headers}[b"schedule-at-ms"])


def marks_of(words: list[object]) -> dict[bytes, object]:
    """Return names and values of a message that was received."""
    marks = dict(zip(words[::2], words[1::2], strict=True))
    origin = marks.get(b"origin")
    if isinstance(origin, list):
        marks[b"origin"] = dict(zip(origin[::2], origin[1::2], strict=True))
    return marks  # type: ignore[return-value]  # names are bytes
