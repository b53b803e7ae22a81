"""Whether a log shows what it must: what was published, in order, as long as it is to be kept.

log:  ░░░░░ given back ░░░░░ [ earliest … end ) ▒▒ perhaps published ▒▒
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from zlib import crc32

from tests.model.acts.removing import Removing
from tests.model.rules.facts import Message, Op, Outcome

#: How long a thing holds that nothing has ended so far.
FOR_EVER = float("inf")


class Page(NamedTuple):
    """A page of a log, as READ tells it; `messages` are ids and payloads."""

    earliest: int
    end: int
    missed: int
    next: int
    messages: list[tuple[bytes, bytes]]


class Bounds(NamedTuple):
    """How far a log reached in a reply at `ok_index`, in which run of the broker."""

    ok_index: int
    epoch: int
    earliest: int
    end: int


class Logs(Removing):
    """Judges what is read; arguments as of `Stock`."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # passed on
        self._bounds: dict[tuple[bytes, bytes], list[Bounds]] = {}  # keys: topic and partition
        self._partition_counts: dict[
            bytes, list[tuple[int, int, float]]
        ] = {}  # counts, each with its first and last index

    def read(self, asked: Op, topic: bytes, partition: bytes, offset: int | None, page: Page) -> None:
        """Judge a page of a log that keeps what is finished; from the time `asked` names if there is no offset."""
        seqs = [int(id_.partition(b"-")[2]) for id_, _ in page.messages]
        first = seqs[0] if seqs else page.next
        assert seqs == [*range(first, first + len(seqs))], f"{topic!r} was read out of order: {seqs}"
        assert page.next == first + len(seqs), f"{page}"
        assert page.earliest <= first <= page.next <= page.end, f"{page}"
        if offset is not None:
            assert page.missed == first - offset == max(0, page.earliest - offset), f"from {offset}: {page}"
        for id_, payload in page.messages:
            message = self.messages[payload]
            assert message.topic == topic
            assert message.op.outcome is not Outcome.REFUSED, f"{message} was refused, but can be read"
            message.op.exists = True
            self._name(message, topic, id_)
        self._judge_bounds(asked, topic, partition, page)
        payloads = {payload for _, payload in page.messages}
        assert len(payloads) == len(seqs), f"something is in {topic!r} twice"
        for seq, message in self._log(topic, partition):
            is_before = message.op.outcome is Outcome.OK and message.op.ok_index < asked.index
            if is_before and self._must_be_readable(message, asked):
                assert seq >= page.earliest, f"{message} cannot be read any more"
                is_in_page = first <= seq < page.next
                assert not is_in_page or message.payload in payloads, f"{message} is not where it was published"
                assert seq < page.end, f"{message} cannot be read yet"

    def judge_time(self, asked: Op, topic: bytes, partition: bytes, start_ms: int, page: Page) -> None:
        """Judge where a page begins that was asked for by a time."""
        first = page.next - len(page.messages)
        for seq, message in self._log(topic, partition):
            is_before = message.op.outcome is Outcome.OK and message.op.ok_index < asked.index
            if is_before and page.earliest <= seq:
                is_late = self.is_committed_since(message, start_ms)
                assert is_late is not True or seq >= first, f"{message} is not in the page from {start_ms} on: {page}"
                assert is_late is not False or seq < first, f"{message} is in the page from {start_ms} on: {page}"

    def is_committed_since(self, message: Message, start_ms: int) -> bool | None:
        """Return whether a message was committed then or later; None if that is unknown."""
        if message.op.asked_ms >= start_ms:
            return True
        return False if 0 <= message.op.answered_ms < start_ms else None

    def judge_count(self, op: Op, topic: bytes, is_behind: Callable[[Message], bool | None], count: object) -> None:
        """Judge how many messages there are from some place on, in a topic that keeps all."""
        published = [m for m in self.messages.values() if m.topic == topic and m.op.outcome is not Outcome.REFUSED]
        sure = [m for m in published if m.is_published and m.op.ok_index < op.index and m.id.count(b"-") == 1]
        must = sum(is_behind(message) is True for message in sure)
        may = len(published) - sum(is_behind(message) is False for message in sure)
        assert isinstance(count, int)
        assert must <= count <= may, f"{count} messages from {op.text} on, not {must} to {may}"

    def _judge_bounds(self, asked: Op, topic: bytes, partition: bytes, page: Page) -> None:
        known = self._bounds.setdefault((topic, partition), [])
        for bounds in known:
            if bounds.ok_index < asked.index:
                is_back = (
                    page.earliest < bounds.earliest and bounds.epoch == self._epoch
                )  # otherwise settles are forgotten
                assert not is_back, f"{topic!r} begins at {page.earliest}, after {bounds}"
                assert page.end >= bounds.end, f"{topic!r} ends at {page.end}, after {bounds}"
        known[:] = [*known[-5:], Bounds(asked.ok_index, self._epoch, page.earliest, page.end)]

    def _log(self, topic: bytes, partition: bytes) -> Iterator[tuple[int, Message]]:
        for message in self.messages.values():
            if message.topic == topic and message.id.count(b"-") == 1:
                number, _, seq = message.id.partition(b"-")
                if number == partition:
                    yield int(seq), message

    def _must_be_readable(self, message: Message, asked: Op) -> bool:
        is_over = self._may_be_given_back(message)
        is_unread = any(not share.handout_count and self.must_be_there(share) for share in message.shares.values())
        return not is_over or (is_unread and not self.rules(message.topic).drops_unread)

    # --- partitions -------------------------------------------------------------------------------------------

    def begin_growth(self, op: Op, topic: bytes, count: int) -> None:
        """A topic is about to have so many partitions."""
        counts = self._counts(topic)
        counts.append((count, op.index, FOR_EVER))
        op.then.append(lambda: self._end_growth(op, topic, count))

    def _end_growth(self, op: Op, topic: bytes, count: int) -> None:
        if op.outcome is Outcome.REFUSED:
            self._partition_counts[topic] = [known for known in self._counts(topic) if known[1] != op.index]
        elif op.outcome is Outcome.OK:
            self._partition_counts[topic] = [
                (n, since, min(until, op.ok_index) if n < count else until) for n, since, until in self._counts(topic)
            ]

    def _counts(self, topic: bytes) -> list[tuple[int, int, float]]:
        return self._partition_counts.setdefault(topic, [(self.rules(topic).partitions, 0, FOR_EVER)])

    def partition_count(self, topic: bytes) -> int:
        """Return how many partitions a topic may have."""
        return max(count for count, _, _ in self._counts(topic))

    def published(self, op: Op, ids: Sequence[bytes], *, is_duplicate: bool = False) -> None:
        """A publish was answered with ids."""
        super().published(op, ids, is_duplicate=is_duplicate)
        if not is_duplicate:
            self._judge_partition(op)

    def _judge_partition(self, op: Op) -> None:
        """Messages are where their key says, and all of a request to one topic in one place."""
        places = {(message.topic, message.id.partition(b"-")[0].partition(b".")[0]) for message in op.messages}
        key, topic = op.messages[0].wishes.key, op.messages[0].topic
        assert len(places) == len({name for name, _ in places}), f"{op.text} is in {places}"
        partitions = {partition for name, partition in places if name == topic}
        if key and op.messages[0].id.count(b"-") == 1:
            counts = [n for n, since, until in self._counts(topic) if until > op.index and since < op.ok_index]
            expected = {b"%d" % (crc32(key) % count) for count in counts}
            assert partitions <= expected, f"{op.messages[0]} with the key {key!r} is not in {expected}"

    def judge_members(self, topic: bytes, members: Mapping[bytes, object], moving: Mapping[bytes, object]) -> None:
        """Judge which member reads which partition: each has one reader, or will; shares are equal."""
        shares: dict[bytes, list[int]] = {}
        for name, partitions in members.items():
            assert isinstance(partitions, list)
            shares[name] = [int(number) for number in partitions]
        for number, name in moving.items():
            shares[bytes(name)].append(int(number))  # type: ignore[call-overload]  # a name is bytes
        sizes = [len(numbers) for numbers in shares.values()] or [0]
        all_numbers = sorted(number for numbers in shares.values() for number in numbers)
        assert max(sizes) - min(sizes) <= 1, f"{topic!r} is shared out as {shares}"
        counts = {count for count, _, _ in self._counts(topic)} if shares else {0}
        assert all_numbers == [*range(len(all_numbers))], f"{topic!r} is shared out as {shares}"
        assert len(all_numbers) in counts, f"{topic!r} is shared out as {shares}, and has {counts} partitions"

    # --- figures ----------------------------------------------------------------------------------------------

    def judge_groups(self, topic: bytes, groups: Mapping[bytes, Mapping[bytes, object]], published: int) -> None:
        """Judge the figures of groups that have been there from the start, while nothing is under way."""
        for name, figures in groups.items():
            numbers = {key: value for key, value in figures.items() if isinstance(value, int)}
            ended = sum(numbers[key] for key in (b"acknowledged", b"dropped", b"moved"))
            assert ended + numbers[b"lag"] == published, f"{name!r} of {topic!r}: {numbers} of {published}"
            assert numbers[b"missed"] == numbers[b"dropped"], f"{name!r} of {topic!r}: {numbers}"
            self._judge_missed(topic, name, numbers[b"missed"], numbers[b"lag"], published)

    def _judge_missed(self, topic: bytes, group: bytes, missed: int, lag: int, published: int) -> None:
        shares = list(self.shares(topic, group))
        done = sum(any(map(self.is_in_force, share.ends)) for share in shares)
        assert missed <= published - done, f"{group!r} of {topic!r} missed {missed} of {published}, {done} are done"
        unseen = [share for share in shares if not (share.handout_count or share.may_have_come)]
        must = sum(share.message.is_published for share in unseen) - lag
        assert must <= missed, f"{group!r} of {topic!r} has missed {must} messages, but {missed} were reported"
