"""What must hold of dedup ids and of unique keys: each stands for one message of its topic."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.model.rules.facts import DEFAULT, Message, Op, Outcome

if TYPE_CHECKING:
    from tests.model.rules.ledger import Ledger

WINDOW_MS = 120_000  # the default dedup window


class Repeats:
    """Judges publishes that may be duplicates."""

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._by_id: dict[tuple[bytes, bytes], list[Op]] = {}
        self._by_key: dict[tuple[bytes, bytes], list[Op]] = {}
        self._doubtful: set[Op] = set()  # their topic may have been deleted

    def doubt(self, topic: bytes) -> None:
        """The topic is about to be another one."""
        for seen in (self._by_id, self._by_key):
            self._doubtful |= {op for place, ops in seen.items() if place[0] == topic for op in ops}

    def forget(self, deletion: Op, topic: bytes) -> None:
        """The topic is another one, in which nothing is that was answered before that was asked for."""
        for seen in (self._by_id, self._by_key):
            for place, ops in seen.items():
                is_left = place[0] != topic
                ops[:] = [op for op in ops if is_left or op.outcome is Outcome.OPEN or op.ok_index > deletion.index]

    def begin(self, op: Op) -> None:
        """A publish is about to be asked for."""
        first = op.messages[0]
        for name, seen in ((first.wishes.dedup, self._by_id), (first.wishes.unique, self._by_key)):
            if name:
                seen.setdefault((first.topic, name), []).append(op)
        if first.wishes.is_replacing:
            self._replace(op)
            op.then.append(lambda: self._replace(op))

    def _replace(self, op: Op) -> None:
        """What has the key may go while this publish is open, and has gone when it is done."""
        first = op.messages[0]
        for other in self._by_key.get((first.topic, first.wishes.unique), ()):
            if other is not op and Outcome.REFUSED not in (op.outcome, other.outcome):
                is_sure = 0 <= other.ok_index < op.index and other not in self._doubtful
                self._ledger.replace(op, other.messages[0], is_sure=is_sure)

    def judge(self, op: Op, ids: Sequence[bytes], *, is_duplicate: bool) -> None:
        """A publish was answered."""
        first = op.messages[0]
        if first.wishes.dedup:
            others = [other for other in self._by_id.get((first.topic, first.wishes.dedup), ()) if other is not op]
            self._judge_id(op, others, ids, is_duplicate=is_duplicate)
        elif first.wishes.unique:
            others = [other for other in self._by_key.get((first.topic, first.wishes.unique), ()) if other is not op]
            self._judge_key(op, others, ids, is_duplicate=is_duplicate)

    def mismatch(self, op: Op) -> None:
        """A publish was refused since there was one with its id and another digest."""
        first = op.messages[0]
        others = self._by_id.get((first.topic, first.wishes.dedup), ())
        known = [other for other in others if other.outcome is not Outcome.REFUSED and _differs(other, op)]
        assert known, f"{first} has the same content as all that was published under its id"

    def _judge_id(self, op: Op, others: list[Op], ids: Sequence[bytes], *, is_duplicate: bool) -> None:
        if is_duplicate:
            firsts = [other for other in others if _may_be(other, ids) and not _differs(other, op)]
            assert firsts, f"{op.messages[0]} is a duplicate of nothing with {ids}"
            _show(firsts, ids)
            return
        for other in self._sure(others):
            is_remembered = other.index < op.index and op.answered_ms < other.asked_ms + WINDOW_MS
            if is_remembered and other.outcome is Outcome.OK:
                assert other.ok_index > op.index, f"{op.messages[0]} was not known to be {other.messages[0]}"
            if is_remembered and other.outcome is Outcome.UNKNOWN and other.ok_index < op.index:
                assert not other.exists, f"{op.messages[0]} was not known to be {other.messages[0]}"
                other.outcome = Outcome.REFUSED  # it has not been published

    def _judge_key(self, op: Op, others: list[Op], ids: Sequence[bytes], *, is_duplicate: bool) -> None:
        if is_duplicate:
            firsts = [other for other in others if _may_be(other, ids) and self._may_have_been_there(other, op)]
            assert firsts, f"{op.messages[0]} is a duplicate of nothing with {ids}"
            is_replaced = op.is_replacing and not any(map(_may_have_been_held, firsts))
            assert not is_replaced, f"{op.messages[0]} does not replace {firsts[0].messages[0]}, which was not leased"
            if len(firsts) == 1:
                _show(firsts, ids)
            return
        for other in self._sure(others):
            message = other.messages[0]
            if other.outcome is not Outcome.REFUSED and 0 <= other.ok_index < op.index:
                is_there = self._ledger.must_be_there(message.share(DEFAULT)) and not message.may_move
                assert not is_there, f"{op.messages[0]} came beside {message}"

    def _sure(self, others: list[Op]) -> list[Op]:
        return [other for other in others if other not in self._doubtful]

    def _may_have_been_there(self, other: Op, op: Op) -> bool:
        ends = other.messages[0].share(DEFAULT).ends
        return not any(self._ledger.is_in_force(end) and end.ok_index < op.index for end in ends)


def _may_be(other: Op, ids: Sequence[bytes]) -> bool:
    """Whether a publish may be the one with these ids."""
    if other.outcome is Outcome.REFUSED:
        return False
    known: list[Message] = [message for message in other.messages if message.id]
    if not known or _was_delayed(other):
        return True
    return [message.id for message in other.messages] == list(ids)


def _may_have_been_held(op: Op) -> bool:
    shares = op.messages[0].shares.values()
    return op.outcome is not Outcome.OK or any(share.handout_count or share.is_doubtful for share in shares)


def _differs(one: Op, other: Op) -> bool:
    """Whether digests show that two publishes are not the same."""
    digests = {op.messages[0].wishes.digest for op in (one, other)} - {b""}
    return len(digests) > 1


def _was_delayed(op: Op) -> bool:
    return any(
        message.id.count(b"-") == 2 or message.wishes.delay_ms or message.wishes.at_ms for message in op.messages
    )


def _show(firsts: list[Op], ids: Sequence[bytes]) -> None:
    """The message whose id a duplicate got is durable; if it can only be one message, it is known now."""
    if len(firsts) == 1 and firsts[0].outcome is Outcome.UNKNOWN:
        firsts[0].exists = True
