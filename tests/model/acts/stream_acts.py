"""SUBSCRIBE with PREFETCH, at random: alone or as a member of a group, until the connection ends.

SUBSCRIBE ─▶ deliveries come ─┬▶ POKE ─▶ a settle ─▶ +OK
                              └▶ POKE ─▶ the connection is lost, with all that is out
"""

from collections import deque
from itertools import count

import hiredis

from tests.model.acts.acting import Act, Acting
from tests.model.grounds import Ground
from tests.model.rules.facts import DEFAULT, Op

#: What a stream is sent when it may do something; and what it says instead of words.
POKE = object()
NOTHING: list[bytes] = []
LEAVE = [b"(leaves)"]
CAUSES = (b"nacks", b"backs", b"dacks", b"timeouts", b"disconnects")
WORDS = (b"ACK", b"ACK", b"ACK", b"NACK", b"BACK", b"DACK")


class StreamActs(Acting):
    """Subscribes; arguments as of `Acting`. Only for those who lose their connection when it is over."""

    stream_numbers = count(1)

    def stream(self, ground: Ground) -> Act:
        """Be one of the consumers of a group until the connection ends."""
        random = self.random
        group = random.choice(ground.groups)
        member = random.choice(ground.members) if ground.members else b""
        stream = Stream(self, ground, group, member)
        words = [b"SUBSCRIBE", ground.name, b"PREFETCH", b"%d" % random.choice((1, 1, 3, 10))]
        words += [b"GROUP", group] if group != DEFAULT else []
        words += [b"MEMBER", member] if member else []
        heard = yield words
        while True:
            if heard is None:
                return stream.end()
            said = stream.act() if heard is POKE else stream.hear(heard)
            if said is LEAVE:
                stream.end()
                yield LEAVE
                return None
            heard = yield said


class Stream:
    """What one stream has."""

    def __init__(self, acts: StreamActs, ground: Ground, group: bytes, member: bytes) -> None:
        self._acts = acts
        self._ledger = acts.ledger
        self._ground = ground
        self._group = group
        self._member = member
        self._prefix = b"stream%d/" % next(acts.stream_numbers)
        self._held: list[bytes] = []
        self._asked: deque[tuple[Op, bytes, list[bool]]] = deque()
        self._since = self._ledger.now("stream")

    def hear(self, heard: object) -> list[bytes]:
        """Take a delivery or a reply; return what to say."""
        if isinstance(heard, list):
            self._deliver(*heard)
        elif self._asked:
            self._settled(heard)
        else:
            assert isinstance(heard, hiredis.ReplyError), heard  # an error of the topic, in place of a message
            return LEAVE
        self._since = self._ledger.now("stream")
        return NOTHING

    def _deliver(self, number: bytes, payload: bytes, words: list[object]) -> None:
        marks = dict(zip(words[::2], words[1::2], strict=True))
        marks[b"deliveries"] = 1 + sum(int(str(marks.get(cause, 0))) for cause in CAUSES)
        marks[b"id"] = self._ledger.known_id(self._ground.name, self._group, payload)
        receipt = self._prefix + number
        share = self._ledger.deliver(self._since, self._ground.name, self._group, receipt, payload, marks)  # type: ignore[arg-type]  # names are bytes
        self._ledger.lease(share, self._ground.name, receipt, self._since, float("inf"), self._member)
        self._held.append(receipt)

    def _settled(self, reply: object) -> None:
        op, receipt, must = self._asked.popleft()
        if self._acts.is_over(op, reply, "NOLEASE"):
            return
        self._ledger.settled(op, [receipt], must, [reply == b"OK"])

    def act(self) -> list[bytes]:
        """Settle one, or leave."""
        random = self._acts.random
        self._since = self._ledger.now("stream")
        if random.random() < 0.15:
            return LEAVE
        if not self._held:
            return NOTHING
        receipt = self._held.pop(random.randrange(len(self._held)))
        word = random.choice(WORDS)
        op = self._ledger.ask(f"{word.decode()} in a stream")
        must = self._ledger.begin_settle(op, [receipt], is_end=word == b"ACK", is_front=word == b"NACK")
        self._asked.append((op, receipt, must))
        last = [b"%g" % (1.5 * self._acts.pace)] if word == b"DACK" else []
        return [word, *last, receipt.removeprefix(self._prefix)]

    def end(self) -> None:
        """The connection is about to end, or has ended."""
        for op, _, _ in self._asked:
            self._ledger.lose(op)
        self._ledger.left(self._held)
