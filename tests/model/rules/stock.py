"""What was published, and what of it must be there, or may be."""

from collections.abc import Callable, Iterator, Sequence

from tests.model.acts.repeats import Repeats
from tests.model.acts.requests import Requests
from tests.model.rules.facts import DEFAULT, Message, Op, Outcome, Share, Wishes
from tests.model.rules.rules import Rules


class Stock(Requests):
    """The messages of all topics.

    Args:
      rules: the rules of topics, by name; other topics have the default rules.
      group_names: the groups that exist before the first publish, by topic; the default group always does.
    """

    def __init__(
        self,
        rules: dict[bytes, Rules],
        wall_ms: Callable[[], int],
        monotonic_seconds: Callable[[], float],
        group_names: dict[bytes, Sequence[bytes]] | None = None,
    ) -> None:
        super().__init__(wall_ms, monotonic_seconds)
        self.groups: dict[bytes, set[bytes]] = {name: {DEFAULT, *more} for name, more in (group_names or {}).items()}
        self._rules = rules
        self._ticks: dict[bytes, list[int]] = {}  # the ticks of schedules, by topic
        self._seeks: dict[Op, tuple[bytes, bytes]] = {}  # in progress, each with topic and group
        self._ids: dict[tuple[bytes, bytes], Message] = {}  # keys: topic and id
        self._deleted_index: dict[
            bytes, float
        ] = {}  # the end of each topic; earlier requests may be about another topic of that name
        self.answered: set[bytes] = set()  # requests that are, by their payloads
        self._repeats = Repeats(self)
        self._not_done: set[Op] = set()  # transactions of unknown outcome, once it is known

    def publish(self, topic: bytes, payloads: Sequence[bytes], wishes: Wishes) -> Op:
        """Messages are about to be published, in one request: all of them or none."""
        op = self.ask(f"publish {wishes}", is_durable_at_once=wishes.is_replacing)
        self._add(op, topic, payloads, wishes)
        self._repeats.begin(op)
        self._make_room(topic)
        return op

    def transact(self, parts: Sequence[tuple[bytes, Sequence[bytes]]]) -> Op:
        """Messages are about to be published to several topics, in one transaction; its settles belong to it, too."""
        op = self.ask("transaction", is_durable_at_once=True)
        for topic, payloads in parts:
            self._add(op, topic, payloads, Wishes())
            self._make_room(topic)
        return op

    def _add(self, op: Op, topic: bytes, payloads: Sequence[bytes], wishes: Wishes) -> None:
        for payload in payloads:
            message = self.messages[payload] = Message(payload, topic, op, wishes)
            op.messages.append(message)
            for group in self.groups.get(topic, {DEFAULT}):
                is_sought = (topic, group) in self._seeks.values()
                message.shares[group] = Share(message, group, is_doubtful=is_sought)

    def replace(self, op: Op, message: Message, *, is_sure: bool) -> None:
        """A message may go with this publish; if that is sure, it must, unless something else ends it."""
        is_sure = is_sure and not (message.may_move or self._may_be_expired(message))
        for share in message.shares.values():
            if op in share.ends:
                share.ends.remove(op)
            if is_sure and share.group == DEFAULT:
                share.ends.append(op)
            else:
                share.is_doubtful = True

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
        """Messages that may have been evicted are not certain to be there."""
        rules = self.rules(topic)
        there = [share for share in self.shares(topic, DEFAULT) if self.may_be_there(share)]
        if rules.max_messages and len(there) > rules.max_messages:
            for share in there:  # even this delivery: returned messages are spared longer
                share.message.may_move = share.message.may_move or rules.has_dead
                share.is_doubtful = share.is_doubtful or rules.drops_oldest

    def published(self, op: Op, ids: Sequence[bytes], *, is_duplicate: bool = False) -> None:
        """A publish was answered with ids."""
        if is_duplicate:
            self.confirm(op)  # what was settled before it was asked for is durable, as with any publish
            self.refuse(op)
        else:
            self.accept(op)
            for message, id_ in zip(op.messages, ids, strict=True):
                message.id = id_
                if id_.count(b"-") == 1:
                    self._name(message, message.topic, id_)
        self._repeats.judge(op, ids, is_duplicate=is_duplicate)

    def mismatched(self, op: Op) -> None:
        """A publish was refused because another content was published under its dedup id."""
        self.refuse(op)
        self._repeats.mismatch(op)

    def _name(self, message: Message, topic: bytes, id_: bytes) -> None:
        if message.op.index < self._deleted_index.get(topic, -1):
            return  # it may be of the topic that there was before
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
        ends = [op for op in share.ends if op.outcome is not Outcome.REFUSED and op not in self._not_done]
        is_open = message.is_published and not ends and not share.is_doubtful
        return is_open and not self._may_be_expired(message) and not self._may_be_missed(share)

    def may_be_there(self, share: Share) -> bool:
        return share.message.op.outcome is not Outcome.REFUSED and not any(map(self.is_in_force, share.ends))

    def _may_be_expired(self, message: Message) -> bool:
        rules = self.rules(message.topic)
        ttl_ms = rules.ttl_ms if message.wishes.ttl_ms is None else message.wishes.ttl_ms
        is_over = bool(ttl_ms) and self.latest_ms >= message.due_at_ms + ttl_ms
        message.may_move = message.may_move or (is_over and not rules.drops_expired)
        return is_over and rules.drops_expired

    def _may_be_missed(self, share: Share) -> bool:
        """Whether a group may be too late for a message; a leased message stays."""
        message = share.message
        is_over = self.rules(message.topic).drops_unread and self._may_be_given_back(message)
        share.is_doubtful = share.is_doubtful or (is_over and not self._is_held(share))
        return share.is_doubtful

    def _may_be_given_back(self, message: Message) -> bool:
        """Whether a log need not keep a message that is finished."""
        rules = self.rules(message.topic)
        is_old = bool(rules.keeps_ms) and self.latest_ms >= message.op.asked_ms + rules.keeps_ms
        if is_old or not (rules.keeps_bytes or rules.keeps_count):
            return is_old
        behind = self._behind(message)
        is_big = bool(rules.keeps_bytes) and sum(map(len, behind)) >= rules.keeps_bytes
        return is_big or (bool(rules.keeps_count) and len(behind) >= rules.keeps_count)

    def _behind(self, message: Message) -> list[bytes]:
        """Return what may have been published after a message."""
        others = [m for m in self.messages.values() if m.topic == message.topic and m is not message]
        return [
            other.payload
            for other in others
            if other.op.outcome is not Outcome.REFUSED
            and (other.op.ok_index < 0 or other.op.ok_index > message.op.index or other.op is message.op)
        ]

    def _is_held(self, share: Share) -> bool:
        hold = share.hold
        return hold is not None and hold.epoch == self._epoch and self._seconds() < hold.until_seconds

    def bounds(self, topic: bytes) -> tuple[int, int]:
        """Return how many messages there must be, and may be, in a topic and its dead letters."""
        self._next()
        shares = list(self.shares(topic, DEFAULT))
        return sum(map(self.must_be_there, shares)), sum(map(self.may_be_there, shares))

    def lost(self) -> list[Share]:
        """Return the messages that are not settled although everything was delivered."""
        ops = {end for m in self.messages.values() for s in m.shares.values() for end in s.ends}
        self._not_done = {op for op in ops if self._was_not_done(op)}
        return [s for m in self.messages.values() for s in m.shares.values() if self.must_be_there(s)]

    def _was_not_done(self, op: Op) -> bool:
        """Whether nothing of a transaction can have been done, as none of its messages has come."""
        is_open = op.outcome is Outcome.UNKNOWN and not op.exists and bool(op.messages)
        return is_open and not any(
            share.is_doubtful or share.ends or self._may_be_expired(message) or message.may_move
            for message in op.messages
            for share in message.shares.values()
        )
