"""What clients of RESP do, at random: each act is a generator that yields a command and is sent the reply.

    act ─▶ words ─▶ whoever has a connection ─▶ reply ─▶ the ledger judges it
                                             └▶ None: it will never come

So the same acts run on a broker without sockets (`walk`) and on one that is killed (`tests.durability.actor`).
"""

from collections.abc import Callable, Generator, Sequence
from random import Random

import hiredis

from tests.model.facts import DEFAULT, Op, Outcome, Share, Wishes
from tests.model.grounds import Ground
from tests.model.ledger import Ledger

Act = Generator[list[bytes], object, None]

#: Error words that say that nothing was done.
REFUSALS = ("READONLY", "DRAINING", "FULL", "LIMIT", "PAUSED")
#: With these nobody knows.
OPEN_ENDS = ("UNKNOWN", "UNAVAILABLE")
LEASES = (0.5, 5, 5, 3600)
REASONS = (b"bad", b"worse")
SOME_IDS = (b"x", b"y", b"z")
SCHEDULED = b"tick"
KEYS = (b"", b"a", b"a", b"b", b"c")


class Acts:
    """Chooses and carries out acts.

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

    def next(self) -> Act:
        """Choose what to do."""
        ground = self.random.choice(self.grounds)
        acts = [self.publish, self.publish, self.publish_many, *[self.receive] * 4, *[self.settle] * 5, self.extend]
        more: list[Callable[[Ground], Act]] = [getattr(self, name) for name in ground.acts]
        return self.random.choice([*acts, *more])(ground)

    # --- publishing -------------------------------------------------------------------------------------------

    def publish(self, ground: Ground) -> Act:
        """PUB, with options of those that this topic is tried with."""
        wishes, words = self._wishes(ground)
        payload = self._next_payload()
        op = self.ledger.publish(ground.name, [payload], wishes)
        reply = yield [b"PUB", ground.name, payload, *words]
        self._published(op, reply)

    def _wishes(self, ground: Ground) -> tuple[Wishes, list[bytes]]:
        random, words = self.random, list[bytes]()
        options = [option for option in sorted(ground.options) if random.random() < 0.25]
        delay_ms = self._paced_ms(random.choice((1, 500, 2000, 20_000))) if "delay" in options else 0
        at_ms = (
            self.ledger.wall_ms() + self._paced_ms(random.choice((-5000, 700, 9000)))
            if "at" in options and not delay_ms
            else 0
        )
        ttl_ms = self._paced_ms(random.choice((100, 1500, 10_000))) if "ttl" in options else None
        key = random.choice(KEYS) if "key" in ground.options else b""
        dedup = random.choice(SOME_IDS) if "dedup" in options else b""
        unique = random.choice(SOME_IDS) if "unique" in options and not dedup else b""
        words += [b"DELAY", b"%g" % (delay_ms / 1000)] if delay_ms else []
        words += [b"AT", b"%d" % at_ms] if at_ms else []
        words += [b"TTL", b"%g" % (ttl_ms / 1000)] if ttl_ms else []
        words += [b"PRIORITY", random.choice((b"high", b"low"))] if "priority" in options else []
        words += [b"HEADER", b"h", b"v"] if "header" in options else []
        for name, value in ((b"KEY", key), (b"DEDUP", dedup), (b"UNIQUE", unique)):
            words += [name, value] if value else []
        return Wishes(delay_ms, at_ms, ttl_ms, key, dedup, unique), words

    def _paced_ms(self, ms: int) -> int:
        return round(ms * self.pace) or 1

    def publish_many(self, ground: Ground) -> Act:
        """MPUBLISH, or PUBBATCH under a dedup id: all or none."""
        payloads = [self._next_payload() for _ in range(self.random.randint(1, 4))]
        id_ = self.random.choice((b"b1", b"b2")) if "dedup" in ground.options and self.random.random() < 0.5 else b""
        op = self.ledger.publish(ground.name, payloads, Wishes(dedup=id_, is_batch=True))
        command = [b"PUBBATCH", ground.name, id_] if id_ else [b"MPUBLISH", ground.name]
        reply = yield [*command, *payloads]
        self._published(op, reply)

    def _published(self, op: Op, reply: object) -> None:
        if self._is_over(op, reply):
            return
        is_duplicate = False
        if op.messages[0].wishes.dedup or op.messages[0].wishes.unique:
            assert isinstance(reply, list), reply
            reply, is_duplicate = reply[0], bool(reply[1])
        ids = reply if isinstance(reply, list) else [reply]
        self.ledger.published(op, ids, is_duplicate=is_duplicate)

    def _is_over(self, op: Op, reply: object, *others: str) -> bool:
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

    # --- consuming --------------------------------------------------------------------------------------------

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
        if reply is None and lease_seconds is None:
            self.ledger.begin_removal(topic.removesuffix(b".dlq"), is_of_held=False)
        if self._is_over(op, reply, "NOGROUP"):
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
        """ACK, NACK, BACK, DACK by receipt: some of what is out, or was."""
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
        op = self.ledger.ask(word.decode())
        is_end = word == b"ACK" or (is_reject and topic.endswith(b".dlq"))
        last = {b"DACK": [b"%g" % (1.5 * self.pace)], b"REJECT": [self.random.choice(REASONS)]}.get(word, [])
        reason = last[0] if is_reject else None
        must = self.ledger.begin_settle(op, receipts, is_end=is_end, reason=reason)
        reply = yield [word, topic, *receipts, *last]
        if not self._is_over(op, reply, "NOLEASE"):
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
        if is_refused or not self._is_over(op, reply):
            self.ledger.extended(op, receipt, seconds, is_live=is_live, is_done=not is_refused)

    # --- what else there is -----------------------------------------------------------------------------------

    def cancel(self, ground: Ground) -> Act:
        """CANCEL one that was delayed, and may be due by now."""
        messages = [m for m in self.ledger.messages.values() if m.topic == ground.name and m.id.count(b"-") == 2]
        if not messages:
            return
        message = self.random.choice(messages[-5:])
        op = self.ledger.ask(f"cancel {message.id!r}", is_durable_at_once=True)
        self.ledger.end(message, op)
        reply = yield [b"CANCEL", ground.name, message.id]
        if not self._is_over(op, reply, "NOMESSAGE", "NOTOPIC"):
            self.ledger.accept(op)

    def purge(self, ground: Ground) -> Act:
        """PURGE in one of its forms."""
        words = self.random.choice(([], [b"STATE", b"ready"], [b"STATE", b"delayed"], [b"OLDER", b"3"]))
        op = self.ledger.ask("purge", is_durable_at_once=True)
        self.ledger.begin_purge(op, ground.name)
        reply = yield [b"PURGE", ground.name, *words]
        if not self._is_over(op, reply, "NOTOPIC"):
            assert isinstance(reply, int), reply
            self.ledger.accept(op)

    def redrive(self, ground: Ground) -> Act:
        """REDRIVE the dead letters."""
        op = self.ledger.ask("redrive")
        self.ledger.begin_redrive(op, ground.name)
        limit = [b"LIMIT", b"2"] if self.random.random() < 0.5 else []
        reply = yield [b"REDRIVE", ground.name + b".dlq", *limit]
        if not self._is_over(op, reply, "NOTOPIC"):
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
        if not self._is_over(op, reply, "NOTOPIC"):
            self.ledger.accept(op)
            if side != b"IN" and not is_end:
                self.ledger.paused_out(op, ground.name)

    def delete(self, ground: Ground) -> Act:
        """TOPIC DELETE, now and then."""
        if self.random.random() < 0.8:
            return
        op = self.ledger.ask("delete", is_durable_at_once=True)
        self.ledger.begin_deletion(op, ground.name)
        reply = yield [b"TOPIC", b"DELETE", ground.name]
        if not self._is_over(op, reply):
            self.ledger.deleted(op, ground.name)

    def read(self, ground: Ground) -> Act:
        """READ the whole log of a topic that keeps it: everything that was published for certain, in order, once."""
        op = self.ledger.ask("read")
        reply = yield [b"READ", ground.name, b"0", b"0", b"COUNT", b"10000"]
        if self._is_over(op, reply, "NOTOPIC", "NOPARTITION"):
            return
        assert isinstance(reply, list), reply
        self.ledger.accept(op)
        page = dict(zip(reply[::2], reply[1::2], strict=True))
        self.ledger.read(op, ground.name, [(bytes(id_), bytes(payload)) for id_, payload, _ in page[b"messages"]])

    def new_group(self, ground: Ground) -> Act:
        """GROUP CREATE, now and then; or GROUP DELETE of the last one, which nobody holds for certain then."""
        group = ground.groups[-1]
        op = self.ledger.ask(f"group {group!r}", is_durable_at_once=True)
        self.ledger.begin_seek(op, ground.name, group)
        words = [b"DELETE", ground.name, group] if self.random.random() < 0.3 else [b"CREATE", ground.name, group]
        reply = yield [b"GROUP", *words]
        if not self._is_over(op, reply, "GROUPEXISTS", "NOGROUP", "GROUPINUSE", "NOTOPIC"):
            self.ledger.accept(op)

    def seek(self, ground: Ground) -> Act:
        """GROUP SEEK to one of the ends: at the earliest there is everything again, where everything is kept."""
        start = self.random.choice((b"earliest", b"latest"))
        op = self.ledger.ask(f"seek {start!r}", is_durable_at_once=True)
        self.ledger.begin_seek(op, ground.name, b"g")
        reply = yield [b"GROUP", b"SEEK", ground.name, b"g", start]
        if not self._is_over(op, reply, "NOGROUP", "NOTOPIC"):
            self.ledger.accept(op)
            if start == b"earliest":
                self.ledger.sought_all(op, ground.name, b"g")

    def look(self, ground: Ground) -> Act:
        """PEEK changes nothing."""
        state = self.random.choice((b"ready", b"leased", b"delayed"))
        op = self.ledger.ask("peek")
        reply = yield [b"PEEK", ground.name, b"STATE", state, b"COUNT", b"5"]
        if not self._is_over(op, reply, "NOTOPIC"):
            self.ledger.accept(op)


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
