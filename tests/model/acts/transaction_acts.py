"""MULTI … EXEC, at random: publishes to some topics and a settle, all or none.

MULTI ─▶ QUEUED ─▶ QUEUED ─▶ EXEC ─▶ ids and results │ an error: nothing was done │ UNKNOWN: all or nothing
  └ the connection is lost before EXEC: nothing was asked
"""

import hiredis

from tests.model.acts.acting import Act, Acting
from tests.model.acts.consuming import Consuming
from tests.model.grounds import Ground


class TransactionActs(Consuming, Acting):
    """Carries out transactions; arguments as of `Acting`."""

    def transact(self, ground: Ground) -> Act:
        """Publish to this topic and to others, and settle some of what is out, in one transaction."""
        random = self.random
        topics = [ground.name, *(random.choice(self.grounds).name for _ in range(random.choice((0, 1, 2))))]
        parts = [(topic, [self._payload_for(topic) for _ in range(random.choice((1, 2)))]) for topic in topics]
        commands = [[b"MPUBLISH", topic, *payloads] for topic, payloads in parts]
        topic, receipts = self._pick() if random.random() < 0.8 else (b"", [])
        word = random.choice((b"ACK", b"ACK", b"ACK", b"NACK", b"BACK"))
        at = random.randint(0, len(commands))
        if receipts:
            commands.insert(at, [word, topic, *receipts])
        for command in ([b"MULTI"], *commands):
            reply = yield command
            if reply is None:
                return
            assert reply in (b"OK", b"QUEUED"), f"{command}: {reply!r}"
        op = self.ledger.transact(parts)
        must = self.ledger.begin_settle(op, receipts, is_end=word == b"ACK", is_front=word == b"NACK")
        reply = yield [b"EXEC"]
        self.judge_form(parts, reply)
        if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOLEASE"):
            assert f"command {at + 1} of {len(commands)}: " in str(reply), reply
            assert not (all(must) and op.epoch == self.ledger.epoch), f"{receipts} were not accepted"
        if self.is_over(op, reply, "NOLEASE", "SCHEMA"):
            return
        assert isinstance(reply, list), reply
        results = reply.pop(at) if receipts else []
        self.ledger.published(op, [id_ for ids in reply for id_ in ids])
        results = results if isinstance(results, list) else [results]
        self.ledger.settled(op, receipts, must, [bytes(result) == b"OK" for result in results])
