"""PUB, MPUBLISH and PUBBATCH, at random."""

import hiredis

from tests.model.acts.acting import Act, Acting
from tests.model.grounds import Ground
from tests.model.rules.facts import Op, Outcome, Wishes

SOME_IDS = (b"x", b"y", b"z")
KEYS = (b"", b"a", b"a", b"b", b"c")


class Publishing(Acting):
    """Publishes; arguments as of `Acting`."""

    def publish(self, ground: Ground) -> Act:
        """PUB, with options of those that this topic is tried with."""
        wishes, words = self._wishes(ground)
        payload = self._payload_for(ground.name)
        op = self.ledger.publish(ground.name, [payload], wishes)
        reply = yield [b"PUB", ground.name, payload, *words]
        self.judge_form([(ground.name, [payload])], reply)
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
        is_replacing = bool(unique) and random.random() < 0.5
        words += [b"DELAY", b"%g" % (delay_ms / 1000)] if delay_ms else []
        words += [b"AT", b"%d" % at_ms] if at_ms else []
        words += [b"TTL", b"%g" % (ttl_ms / 1000)] if ttl_ms else []
        words += [b"PRIORITY", random.choice((b"high", b"low"))] if "priority" in options else []
        words += [b"HEADER", b"h", b"v"] if "header" in options else []
        for name, value in ((b"KEY", key), (b"DEDUP", dedup), (b"UNIQUE", unique)):
            words += [name, value] if value else []
        words += [b"REPLACE"] if is_replacing else []
        return Wishes(delay_ms, at_ms, ttl_ms, key, dedup, unique=unique, is_replacing=is_replacing), words

    def publish_many(self, ground: Ground) -> Act:
        """MPUBLISH, or PUBBATCH under a dedup id with a digest: all or none."""
        payloads = [self._payload_for(ground.name) for _ in range(self.random.randint(1, 4))]
        id_ = self.random.choice((b"b1", b"b2")) if "dedup" in ground.options and self.random.random() < 0.5 else b""
        digest = b"odd" if len(payloads) % 2 else b"even"
        op = self.ledger.publish(ground.name, payloads, Wishes(dedup=id_, digest=digest, is_batch=True))
        command = [b"PUBBATCH", ground.name, b"%b?digest=%b" % (id_, digest)] if id_ else [b"MPUBLISH", ground.name]
        reply = yield [*command, *payloads]
        self.judge_form([(ground.name, payloads)], reply)
        self._published(op, reply)

    def _published(self, op: Op, reply: object) -> None:
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("MISMATCH") and op.outcome is Outcome.OPEN:
            self.ledger.mismatched(op)
            return
        if self.is_over(op, reply, "SCHEMA"):
            return
        is_duplicate = False
        if op.messages[0].wishes.dedup or op.messages[0].wishes.unique:
            assert isinstance(reply, list), reply
            reply, is_duplicate = reply[0], bool(reply[1])
        ids = reply if isinstance(reply, list) else [reply]
        self.ledger.published(op, ids, is_duplicate=is_duplicate)
