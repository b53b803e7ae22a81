"""Holds a broker to what it has answered, whatever the acts were: pure, no I/O, no second broker.

    ask ─▶ Op ─▶ accept | refuse | lose          `deliver` judges each message that comes, `settled` each receipt
    crash, stop                                  every lease is over; what was answered and not committed is open
    lost                                         messages that must be there, in the end

What must hold, of every message and in every group: it was published; nobody else holds it; it is not done; its time
has come and is not over; it stands where it may, under the id that it was given, with counts that can be; what has the
same key and is older is done. A dedup id and a unique key stand for one message. What is sure and not done, is there.
"""

from collections.abc import Callable, Iterator, Sequence

from tests.model.facts import DEFAULT, Hold, Message, Op, Outcome, Share, Wishes
from tests.model.repeats import Repeats
from tests.model.rules import Rules

ORIGIN_REASONS = (b"max_deliveries", b"limit", b"expired")


class Ledger:
    """All that is known.

    Args:
      rules: of topics, by name; those of others are plain.
      wall_ms: the clock that the broker goes by; seconds are those of its monotonic one.
      group_names: that exist from before the first publish on, by topic; the default group always does.
    """

    def __init__(
        self,
        rules: dict[bytes, Rules],
        wall_ms: Callable[[], int],
        monotonic_seconds: Callable[[], float],
        group_names: dict[bytes, Sequence[bytes]] | None = None,
    ) -> None:
        self.messages: dict[bytes, Message] = {}
        self.groups: dict[bytes, set[bytes]] = {name: {DEFAULT, *more} for name, more in (group_names or {}).items()}
        self.latest_ms = 0
        self.pause_ms = 2000
        self._rules = rules
        self.wall_ms = wall_ms
        self._seconds = monotonic_seconds
        self._epoch = 0
        self._index = 0
        self._durable_index: dict[int, float] = {}  # of each epoch: what was answered before is durable
        self._open: dict[Op, None] = {}
        self._pausing: dict[bytes, Op] = {}  # what was asked last, by topic
        self._paused: dict[bytes, Op] = {}  # topics of which nothing is handed out, each since when
        self._ticks: dict[bytes, list[int]] = {}  # of schedules, by topic
        self._redrives: dict[Op, bytes] = {}  # that are under way, each with its topic
        self._seeks: dict[Op, tuple[bytes, bytes]] = {}  # likewise, with topic and group
        self._purges: dict[Op, bytes] = {}  # that are under way, each with its topic
        self._ids: dict[tuple[bytes, bytes], Message] = {}  # by topic and id
        self._receipts: dict[bytes, Share | None] = {}  # None for those that are over
        self._repeats = Repeats(self)

    # --- requests ---------------------------------------------------------------------------------------------

    def ask(self, text: str, *, is_durable_at_once: bool = False) -> Op:
        """Note that something is about to be asked."""
        op = Op(text, self._epoch, self._next(), self.wall_ms(), self._seconds())
        op.is_durable_at_once = is_durable_at_once
        self._open[op] = None
        return op

    def _next(self) -> int:
        self._index += 1
        self.latest_ms = max(self.latest_ms, self.wall_ms())
        return self._index

    def accept(self, op: Op) -> None:
        """It was answered: it is done."""
        self._answer(op, Outcome.OK)

    def refuse(self, op: Op) -> None:
        """It was answered: nothing was done."""
        self._answer(op, Outcome.REFUSED)
        for message in self.messages.values():
            for share in message.shares.values():
                if op in share.ends:
                    share.ends.remove(op)

    def lose(self, op: Op) -> None:
        """Nobody will know."""
        if op.outcome is Outcome.OPEN:
            self._answer(op, Outcome.UNKNOWN)

    def _answer(self, op: Op, outcome: Outcome) -> None:
        op.outcome, op.ok_index, op.answered_ms = outcome, self._next(), self.wall_ms()
        self._open.pop(op, None)
        self._end_purge(op)
        if (sought := self._seeks.pop(op, None)) is not None:
            self._loosen(*sought)  # what was taken meanwhile may have been before it, or behind
        self._forget_rejections(self._redrives.pop(op, None))
        is_commit = outcome is Outcome.OK and (op.messages or op.is_durable_at_once)
        if is_commit and op.epoch == self._epoch:
            self._durable_index[op.epoch] = max(self._durable_index.get(op.epoch, -1), op.index)
        op.epoch = self._epoch  # what is answered now is in force now

    def crash(self) -> None:
        """The process is gone, with all that was asked and not answered."""
        for op in list(self._open):
            self.lose(op)
        self.fault()

    def fault(self) -> None:
        """The broker has lost its memory; who waits may still be answered."""
        self._epoch += 1
        self._receipts = dict.fromkeys(self._receipts)
        for message in self.messages.values():
            for share in message.shares.values():
                share.hold = None

    def stop(self) -> None:
        """It has stopped in good order."""
        self._durable_index[self._epoch] = float("inf")
        self.crash()

    def is_in_force(self, op: Op) -> bool:
        """Whether a settle, or the like, must have its effect."""
        if op.outcome is not Outcome.OK:
            return False
        is_durable = op.is_durable_at_once or op.ok_index < self._durable_index.get(op.epoch, -1)
        return is_durable or op.epoch == self._epoch

    # --- publishing -------------------------------------------------------------------------------------------

    def publish(self, topic: bytes, payloads: Sequence[bytes], wishes: Wishes) -> Op:
        """Messages are about to be published, in one request: all of them or none."""
        op = self.ask(f"publish {wishes}")
        for payload in payloads:
            message = self.messages[payload] = Message(payload, topic, op, wishes)
            op.messages.append(message)
            for group in self.groups.get(topic, {DEFAULT}):
                is_sought = (topic, group) in self._seeks.values()
                message.shares[group] = Share(message, group, is_doubtful=is_sought)
        self._repeats.begin(op)
        self._make_room(topic)
        return op

    def scheduled(self, topic: bytes, at_ms: int) -> bytes:
        """Note that a tick of a schedule has its message; return by what it is known."""
        payload = b"%b@%d" % (topic, at_ms)
        if payload not in self.messages:
            assert at_ms <= self.latest_ms, f"{payload!r} came early"
            op = self.ask("schedule")
            self.messages[payload] = message = Message(payload, topic, op)
            message.shares[DEFAULT] = Share(message, DEFAULT)
            self.accept(op)
            self._ticks.setdefault(topic, []).append(at_ms)
        return payload

    def missed_ticks(self, topic: bytes, every_ms: int) -> list[int]:
        """Return the ticks that have no message, between the first and the last that have one."""
        seen = self._ticks.get(topic, [0])
        return sorted({*range(min(seen), max(seen) + 1, every_ms)} ^ {*seen})

    def _make_room(self, topic: bytes) -> None:
        """What may have to give way is not sure to be there."""
        rules = self.rules(topic)
        there = [share for share in self.shares(topic, DEFAULT) if self.may_be_there(share)]
        if rules.max_messages and len(there) > rules.max_messages:
            for share in there:  # also what comes just now: what came back is spared longer
                share.message.may_move = share.message.may_move or rules.has_dead
                share.is_doubtful = share.is_doubtful or rules.drops_oldest

    def published(self, op: Op, ids: Sequence[bytes], *, is_duplicate: bool = False) -> None:
        """A publish was answered with ids."""
        if is_duplicate:
            self.refuse(op)
        else:
            self.accept(op)
            for message, id_ in zip(op.messages, ids, strict=True):
                message.id = id_
                if id_.count(b"-") == 1:
                    self._name(message, message.topic, id_)
        self._repeats.judge(op, ids, is_duplicate=is_duplicate)

    def _name(self, message: Message, topic: bytes, id_: bytes) -> None:
        other = self._ids.setdefault((topic, id_), message)
        assert other is message, f"{message} has the id {id_!r} of {other}"

    def rules(self, topic: bytes) -> Rules:
        return self._rules.get(topic) or Rules()

    # --- who is there -----------------------------------------------------------------------------------------

    def shares(self, topic: bytes, group: bytes) -> Iterator[Share]:
        for message in self.messages.values():
            if message.topic == topic and group in message.shares:
                yield message.shares[group]

    def must_be_there(self, share: Share) -> bool:
        message = share.message
        ends = [op for op in share.ends if op.outcome is not Outcome.REFUSED]
        return message.is_published and not ends and not share.is_doubtful and not self._may_be_expired(message)

    def may_be_there(self, share: Share) -> bool:
        return share.message.op.outcome is not Outcome.REFUSED and not any(map(self.is_in_force, share.ends))

    def _may_be_expired(self, message: Message) -> bool:
        rules = self.rules(message.topic)
        ttl_ms = rules.ttl_ms if message.wishes.ttl_ms is None else message.wishes.ttl_ms
        is_over = bool(ttl_ms) and self.latest_ms >= message.due_at_ms + ttl_ms
        message.may_move = message.may_move or (is_over and not rules.drops_expired)
        return is_over and rules.drops_expired

    def bounds(self, topic: bytes) -> tuple[int, int]:
        """Return how many messages there must be, and may be, in a topic and its dead letters."""
        self._next()
        shares = list(self.shares(topic, DEFAULT))
        return sum(map(self.must_be_there, shares)), sum(map(self.may_be_there, shares))

    def lost(self) -> list[Share]:
        """Return what has not come to an end that somebody asked for."""
        return [s for m in self.messages.values() for s in m.shares.values() if self.must_be_there(s)]

    def pausing(self, op: Op, topic: bytes) -> None:
        """A topic is about to be paused, or resumed, or to go."""
        self._paused.pop(topic, None)
        self._pausing[topic] = op

    def paused_out(self, op: Op, topic: bytes) -> None:
        """Nothing of a topic is handed out for `pause_ms`, unless something else was asked meanwhile."""
        if self._pausing[topic] is op:
            self._paused[topic] = op

    def _is_paused(self, asked: Op, topic: bytes) -> bool:
        op = self._paused.get(topic)
        return op is not None and op.ok_index < asked.index and self.latest_ms < op.asked_ms + self.pause_ms

    # --- deliveries -------------------------------------------------------------------------------------------

    def deliver(
        self, asked: Op, topic: bytes, group: bytes, receipt: bytes, payload: bytes, marks: dict[bytes, object]
    ) -> Share:
        """Judge a message that has come; who holds it leases it with `lease` or has acknowledged it."""
        self._next()
        message = self.messages.get(payload)
        assert message is not None, f"{payload!r} was never published"
        assert message.op.outcome is not Outcome.REFUSED, f"{message} was refused, or a duplicate"
        message.op.exists = True
        share = message.share(group)
        share.handout_count += 1
        pause = self._paused.get(topic)
        is_paused = (
            pause is not None and pause.ok_index < asked.index and self.latest_ms < pause.asked_ms + self.pause_ms
        )
        assert not is_paused, f"{message} came in spite of a pause"
        self._judge_place(share, topic, marks)
        self._judge_end(share)
        self._judge_time(message, asked, topic, marks)
        self._judge_counts(share, topic, marks)
        self._name(message, topic, bytes(marks[b"id"]))  # type: ignore[arg-type]  # an id is bytes
        share.log_id = (topic, bytes(marks[b"id"]))  # type: ignore[arg-type]  # likewise
        share.ends, share.is_doubtful, share.hold = [], False, None
        self._make_room(message.topic)
        if self.rules(topic).is_ordered:
            self._judge_order(share)
        assert receipt not in self._receipts, f"{receipt!r} is not new"
        if share.receipt:
            self._receipts[share.receipt] = None
        return share

    def lease(
        self, share: Share, topic: bytes, receipt: bytes, asked: Op, lease_seconds: float, member: bytes = b""
    ) -> None:
        """Note who holds it; nobody else does of its partition, where there are members."""
        lease_seconds = min(lease_seconds, self.rules(topic).handover_seconds)
        share.hold = Hold(self._epoch, asked.asked_seconds + lease_seconds, member)
        for other in self.shares(topic, share.group) if member else ():
            if self._is_held(other) and self._place(other) == self._place(share):
                assert other.hold is None or other.hold.member == member, f"{share.message} and {other.message}"
        self._receipts[receipt] = share
        share.receipt, share.member = receipt, member
        share.message.may_move = share.message.may_move or bool(self.rules(share.message.topic).max_deliveries)
        max_held = self.rules(topic).max_held
        here = [other for other in self.shares(topic, share.group) if other.log_id and other.log_id[0] == topic]
        held = [other for other in here if self._is_held(other)]
        assert not max_held or len(held) <= max_held, f"{len(held)} of {topic!r} are out"

    def _is_held(self, share: Share) -> bool:
        hold = share.hold
        return hold is not None and hold.epoch == self._epoch and self._seconds() < hold.until_seconds

    def _judge_place(self, share: Share, topic: bytes, marks: dict[bytes, object]) -> None:
        message = share.message
        assert not self._is_held(share), f"{message} came while it was held"
        self._may_be_expired(message)
        is_dead = topic != message.topic
        if is_dead:
            assert topic == message.topic + b".dlq", f"{message} came from {topic!r}"
            assert message.may_move, f"{message} is a dead letter for no reason"
            origin = marks[b"origin"]
            assert isinstance(origin, dict)
            assert origin[b"topic"] == message.topic
            assert origin[b"reason"] in (*ORIGIN_REASONS, *share.reasons), origin
        elif not message.may_move and message.id.count(b"-") == 1:
            assert marks[b"id"] == message.id, f"{message} has the id {marks[b'id']!r}"
        is_redriven = message.topic in self._redrives.values()
        is_same = message.may_move or share.log_id in (None, (topic, marks[b"id"]))
        assert is_same, f"{message} came as {share.log_id} and as {marks[b'id']!r}"
        if share.reject is not None and not is_dead and not is_redriven and self.rules(topic).has_dead:
            assert not self.is_in_force(share.reject), f"{message} came back after its rejection"

    def _judge_end(self, share: Share) -> None:
        is_sought = (share.message.topic, share.group) in self._seeks.values()
        for op in share.ends if not is_sought else ():
            assert not self.is_in_force(op), f"{share.message} came after {op.text}"

    def _judge_time(self, message: Message, asked: Op, topic: bytes, marks: dict[bytes, object]) -> None:
        assert self.latest_ms >= message.due_at_ms, f"{message} came {message.due_at_ms - self.latest_ms} ms early"
        expires_at_ms = marks.get(b"expires_at_ms")
        now_ms = min(asked.asked_ms, self.wall_ms())
        if isinstance(expires_at_ms, int):
            assert now_ms < expires_at_ms, f"{message} came after its time"
        elif ttl_ms := self.rules(topic).ttl_ms:
            assert now_ms < int(str(marks[b"published_at_ms"])) + ttl_ms, f"{message} came after the time of its topic"

    def _judge_counts(self, share: Share, topic: bytes, marks: dict[bytes, object]) -> None:
        deliveries = int(str(marks[b"deliveries"]))
        is_seen = deliveries <= share.handout_count or share.is_miscounted
        assert is_seen, f"{share.message}: {deliveries} deliveries, {share.handout_count} seen"
        max_deliveries = self.rules(topic).max_deliveries
        assert not max_deliveries or deliveries <= max_deliveries, f"{share.message}: {deliveries} deliveries"

    def _judge_order(self, share: Share) -> None:
        """Nothing older of its key is there, and nothing of its key is out."""
        key, (topic, id_) = share.message.wishes.key, share.log_id or (b"", b"")
        if not key:
            return
        lane, _, seq = id_.partition(b"-")
        for other in self.shares(topic, share.group):
            if other is share or other.message.wishes.key != key or other.message.may_move:
                continue
            other_lane, _, other_seq = self._log_id(other).partition(b"-")
            if other_lane == lane:
                assert not self._is_held(other), f"{share.message} came while {other.message} of its key was out"
                is_older = int(other_seq) < int(seq)
                assert not (is_older and self.must_be_there(other)), f"{share.message} came before {other.message}"

    def _place(self, share: Share) -> tuple[bytes, bytes]:
        """Return where it was received: the topic and the partition."""
        topic, id_ = share.log_id or (b"", b"")
        return topic, id_.partition(b"-")[0].partition(b".")[0]

    def _log_id(self, share: Share) -> bytes:
        if share.log_id is not None:
            return share.log_id[1]
        return share.message.id if share.message.id.count(b"-") == 1 else b""

    # --- settling ---------------------------------------------------------------------------------------------

    def begin_settle(
        self, op: Op, receipts: Sequence[bytes], *, is_end: bool, reason: bytes | None = None
    ) -> list[bool]:
        """Receipts are about to be settled; return which of them must be accepted, as of now."""
        held = []
        for receipt in receipts:
            share = self._receipts.get(receipt)
            held.append(share is not None and share.receipt == receipt and self._is_held(share))
            if share is None:
                continue
            if reason is not None:
                share.reject = op
                share.reasons.add(reason)
                share.message.may_move = True
            if is_end:
                share.ends.append(op)
            if share.receipt == receipt:
                share.hold, share.receipt = None, b""  # it may come again before the reply does
        return held

    def settled(self, op: Op, receipts: Sequence[bytes], must: Sequence[bool], results: Sequence[bool]) -> None:
        """It was answered for each receipt."""
        is_same_run = op.epoch == self._epoch
        if op.outcome is Outcome.OPEN:
            self.accept(op)
        for receipt, is_live, is_settled in zip(receipts, must, results, strict=True):
            share = self._receipts.get(receipt)
            if is_settled:
                assert share is not None, f"{receipt!r} was settled once more"
            elif share is not None:
                assert not (is_live and is_same_run), f"{receipt!r} of {share.message} was not accepted"
                if op in share.ends:
                    share.ends.remove(op)
                if share.reject is op:
                    share.reject = None
            self._receipts[receipt] = None

    def extended(self, op: Op, receipt: bytes, lease_seconds: float, *, is_live: bool, is_done: bool) -> None:
        """A lease was given another time, or could not be."""
        is_same_run = op.epoch == self._epoch
        self.accept(op)
        share = self._receipts.get(receipt)
        if is_done:
            assert share is not None, f"{receipt!r} was extended when it was over"
            share.receipt = receipt
            lease_seconds = min(lease_seconds, self.rules(share.message.topic).handover_seconds)
            share.hold = Hold(op.epoch, op.asked_seconds + lease_seconds, share.member)
        else:
            assert not (is_live and is_same_run), f"{receipt!r} cannot be extended"
            self._receipts[receipt] = None

    def begin_extension(self, receipt: bytes) -> bool:
        """A lease is about to be given another time; return whether it is one for certain."""
        share = self._receipts.get(receipt)
        is_live = share is not None and share.receipt == receipt and self._is_held(share)
        if share is not None and share.receipt == receipt:
            share.hold, share.receipt = None, b""
        return is_live

    # --- reading ----------------------------------------------------------------------------------------------

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

    # --- removing many ----------------------------------------------------------------------------------------

    def begin_removal(self, topic: bytes, *, is_of_held: bool) -> None:
        """Some of the messages of a topic are about to go, or all; who knows which."""
        for message in self.messages.values():
            for share in message.shares.values() if message.topic == topic else ():
                share.is_doubtful = share.is_doubtful or is_of_held or not self._is_held(share)

    def begin_purge(self, op: Op, topic: bytes) -> None:
        """What nobody holds may go, and so may what comes back until it is over."""
        self.begin_removal(topic, is_of_held=False)
        self._purges[op] = topic

    def _end_purge(self, op: Op) -> None:
        topic = self._purges.pop(op, None)
        for message in self.messages.values():
            if message.topic == topic and message.op.index < op.index:
                for share in message.shares.values():
                    share.is_doubtful = share.is_doubtful or not self._is_held(share)

    def begin_deletion(self, op: Op, topic: bytes) -> None:
        """A topic is about to go, with all that is in it and known of it."""
        self.begin_removal(topic, is_of_held=True)
        self.pausing(op, topic)
        self._repeats.doubt(topic)
        self._ids = {place: message for place, message in self._ids.items() if place[0] != topic}
        for message in self.messages.values():
            for share in message.shares.values() if message.topic == topic else ():
                share.hold = None

    def begin_redrive(self, op: Op, topic: bytes) -> None:
        """Dead letters of a topic are about to come back."""
        self._redrives[op] = topic
        self._forget_rejections(topic)

    def _forget_rejections(self, topic: bytes | None) -> None:
        for message in self.messages.values():
            for share in message.shares.values() if message.topic == topic else ():
                share.reject = None
                share.is_miscounted = True  # what is taken and not moved counts as returned

    def begin_seek(self, op: Op, topic: bytes, group: bytes) -> None:
        """A group is about to read something else, or to come and go; whatever it was done with may come again."""
        self._seeks[op] = (topic, group)
        self._loosen(topic, group)

    def _loosen(self, topic: bytes, group: bytes) -> None:
        for message in self.messages.values():
            if message.topic == topic:
                share = message.share(group)
                share.ends, share.hold, share.is_doubtful, share.receipt = [], None, True, b""

    def sought_all(self, op: Op, topic: bytes, group: bytes) -> None:
        """A group has everything again that was published before that was asked."""
        for message in self.messages.values():
            is_before = message.is_published and 0 <= message.op.ok_index < op.index
            if message.topic == topic and is_before and message.id.count(b"-") == 1:
                message.share(group).is_doubtful = False

    def deleted(self, op: Op, topic: bytes) -> None:
        """A topic is gone, with all that was published before that was asked; its ids begin anew."""
        self.accept(op)
        for message in self.messages.values():
            is_before = message.op.outcome is not Outcome.OPEN and message.op.ok_index < op.index
            if message.topic == topic and is_before and not message.may_move:  # else it may be a dead letter
                for share in message.shares.values():
                    share.ends, share.hold = [op], None
        self._ids = {place: message for place, message in self._ids.items() if place[0] != topic}
        self._repeats.forget(op, topic)

    def end(self, message: Message, op: Op) -> None:
        """One message is about to go by this request."""
        message.share(DEFAULT).ends.append(op)
