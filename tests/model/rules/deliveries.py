"""Whether a message may come, now, here, and to this group."""

from collections.abc import Callable, Sequence

from tests.model.rules.facts import Hold, Message, Op, Outcome, Share
from tests.model.rules.rules import Rules
from tests.model.rules.stock import Stock

ORIGIN_REASONS = (b"max_deliveries", b"limit", b"expired")


class Deliveries(Stock):
    """Judges what comes; arguments as of `Stock`."""

    def __init__(
        self,
        rules: dict[bytes, Rules],
        wall_ms: Callable[[], int],
        monotonic_seconds: Callable[[], float],
        group_names: dict[bytes, Sequence[bytes]] | None = None,
    ) -> None:
        super().__init__(rules, wall_ms, monotonic_seconds, group_names)
        self.pause_ms = 2000
        self._pausing: dict[bytes, Op] = {}  # what was asked last, by topic
        self._undone: set[Op] = set()  # publishes that cannot have been done, as what they were to end came again
        self._paused: dict[bytes, Op] = {}  # topics of which nothing is handed out, each since when
        self._last: dict[tuple[bytes, bytes, int, bytes], int] = {}  # what came first last, by place and run
        self._redrives: dict[Op, bytes] = {}  # in progress, each with its topic
        self._ordering: dict[bytes, Op] = {}  # what was asked last, by topic
        self._orders: dict[bytes, Op | None] = {}  # topic: since when keys are in order; None while that is unknown

    def pausing(self, op: Op, topic: bytes) -> None:
        """A topic is about to be paused, or resumed, or to go."""
        self._paused.pop(topic, None)
        self._pausing[topic] = op

    def paused_out(self, op: Op, topic: bytes) -> None:
        """Nothing of a topic is handed out for `pause_ms`, unless something else was asked meanwhile."""
        if self._pausing[topic] is op:
            self._paused[topic] = op

    def ordering(self, op: Op, topic: bytes) -> None:
        """A topic is about to keep its keys in order, or no more."""
        self._orders[topic] = None
        self._ordering[topic] = op

    def ordered(self, op: Op, topic: bytes) -> None:
        """What is asked for from now on comes in order, unless something else was asked meanwhile."""
        if self._ordering[topic] is op:
            self._orders[topic] = op

    def _is_ordered(self, asked: Op, topic: bytes) -> bool:
        if not self.rules(topic).is_ordered or topic not in self._orders:
            return self.rules(topic).is_ordered
        op = self._orders[topic]
        return op is not None and op.ok_index < asked.index

    def _is_paused(self, asked: Op, topic: bytes) -> bool:
        op = self._paused.get(topic)
        return op is not None and op.ok_index < asked.index and self.latest_ms < op.asked_ms + self.pause_ms

    def deliver(
        self, asked: Op, topic: bytes, group: bytes, receipt: bytes, payload: bytes, marks: dict[bytes, object]
    ) -> Share:
        """Judge a message that has come; who holds it leases it with `lease` or has acknowledged it."""
        self._next()
        message = self.messages.get(payload)
        assert message is not None, f"{payload!r} was never published"
        assert message.op.outcome is not Outcome.REFUSED, f"{message} was refused, or a duplicate"
        assert message.op not in self._undone, f"{message} came, but what its request was to end came again"
        message.op.exists = True
        share = message.share(group)
        share.handout_count += 1
        assert not self._is_paused(asked, topic), f"{message} came in spite of a pause"
        self._judge_place(share, topic, marks)
        self._judge_end(share, asked)
        self._undone |= {op for op in share.ends if op.messages and 0 <= op.ok_index < asked.index}
        self._judge_time(message, asked, topic, marks)
        self._judge_counts(share, topic, marks)
        if id_ := bytes(marks[b"id"]):  # type: ignore[call-overload]  # an id is bytes
            self._name(message, topic, id_)
            share.log_id = (topic, id_)
            self._judge_first(share, asked, marks)
        share.out_epoch, share.out_index, share.front_index = self._epoch, self._index, -1
        share.ends, share.is_doubtful, share.hold = [], False, None
        self._make_room(message.topic)
        if self._is_ordered(asked, topic):
            self._judge_order(share)
        assert receipt not in self._receipts, f"{receipt!r} is not new"
        if share.receipt:
            self._receipts[share.receipt] = None
        return share

    def lease(
        self, share: Share, topic: bytes, receipt: bytes, asked: Op, lease_seconds: float, member: bytes = b""
    ) -> None:
        """Note which member holds it; no other member holds messages of its partition."""
        lease_seconds = min(lease_seconds, self.rules(topic).handover_seconds)
        share.hold = Hold(self._epoch, asked.asked_seconds + lease_seconds, member)
        for other in self.shares(topic, share.group) if member else ():
            if self._is_held(other) and self._place(other) == self._place(share):
                assert other.hold is None or other.hold.member == member, f"{share.message} and {other.message}"
        if member:
            self._judge_growth(share, is_ordered=self._is_ordered(asked, topic))
        self._receipts[receipt] = share
        share.receipt, share.member = receipt, member
        share.message.may_move = share.message.may_move or bool(self.rules(share.message.topic).max_deliveries)
        max_held = self.rules(topic).max_held
        here = [other for other in self.shares(topic, share.group) if other.log_id and other.log_id[0] == topic]
        held = [other for other in here if self._is_held(other)]
        assert not max_held or len(held) <= max_held, f"{len(held)} of {topic!r} are out"

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

    def _judge_end(self, share: Share, asked: Op) -> None:
        is_sought = (share.message.topic, share.group) in self._seeks.values()
        for op in share.ends if not is_sought else ():
            is_too_late = (op.is_seek or op.is_replacing) and asked.index < op.ok_index  # it was handed out before
            assert is_too_late or not self.is_in_force(op), f"{share.message} came after {op.text}"

    def _judge_time(self, message: Message, asked: Op, topic: bytes, marks: dict[bytes, object]) -> None:
        assert self.latest_ms >= message.due_at_ms, f"{message} came {message.due_at_ms - self.latest_ms} ms early"
        expires_at_ms = marks.get(b"expires_at_ms")
        now_ms = min(asked.asked_ms, self.wall_ms())
        if isinstance(expires_at_ms, int):
            assert now_ms < expires_at_ms, f"{message} came after its time"
        elif ttl_ms := self.rules(topic).ttl_ms:
            assert now_ms < int(str(marks[b"published_at_ms"])) + ttl_ms, f"{message} came after the time of its topic"

    def _judge_first(self, share: Share, asked: Op, marks: dict[bytes, object]) -> None:
        """Nothing comes for the first time before what was published before it, or is in front of it."""
        topic, id_ = share.log_id or (b"", b"")
        if not self.rules(topic).is_in_order or marks[b"deliveries"] != 1:
            return
        place, seq = (topic, share.group, self._epoch, id_.partition(b"-")[0]), int(id_.partition(b"-")[2])
        last = self._last.get(place, -1)
        assert seq > last, f"{share.message} came after {last}"
        self._last[place] = seq
        for other in self.shares(topic, share.group):
            if other is not share and self._place(other) == self._place(share) and self.must_be_there(other):
                is_older = int(self._log_id(other).partition(b"-")[2]) < seq
                assert not (is_older and not other.handout_count), f"{share.message} came before {other.message}"
                is_front = 0 <= other.front_index < asked.index and other.out_epoch == self._epoch
                assert not is_front, f"{share.message} came while {other.message} was in front of it"

    def known_id(self, topic: bytes, group: bytes, payload: bytes) -> bytes:
        """Return the id of a message where it is not told, as far as it is known."""
        message = self.messages.get(payload)
        share = None if message is None else message.share(group)
        if share is None or (share.log_id is not None and share.log_id[0] == topic):
            return b"" if share is None else self._log_id(share)
        return b"" if share.message.may_move else self._log_id(share)

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
        self._judge_growth(share, is_ordered=True)

    def _judge_growth(self, share: Share, *, is_ordered: bool) -> None:
        """What is of the same key in another partition was published before partitions were added, or after."""
        key, (topic, _) = share.message.wishes.key, share.log_id or (b"", b"")
        if not key or share.message.id.count(b"-") != 1:
            return
        for other in self.shares(topic, share.group):
            message = other.message
            is_older = message.id.count(b"-") == 1 and 0 <= message.op.ok_index < share.message.op.index
            is_away = self._place(other) != self._place(share) and _priority(message) == _priority(share.message)
            is_aside = bool(other.handout_count) and not is_ordered  # it may have come back
            is_there = is_older and is_away and not is_aside and message.wishes.key == key and not message.may_move
            assert not (is_there and self.must_be_there(other)), f"{share.message} came before {message} of its key"

    def _place(self, share: Share) -> tuple[bytes, bytes]:
        """Return where it was received: the topic and the partition."""
        topic, id_ = share.log_id or (share.message.topic, self._log_id(share))
        return topic, id_.partition(b"-")[0].partition(b".")[0]

    def _log_id(self, share: Share) -> bytes:
        if share.log_id is not None:
            return share.log_id[1]
        return share.message.id if share.message.id.count(b"-") == 1 else b""


def _priority(message: Message) -> bytes:
    return message.id.partition(b"-")[0].partition(b".")[2]
