"""Checks all that a store holds of one topic: each group in each partition, what is delayed, and unique keys.

A group that is deleted may have left keys, and chunks that it alone needed; they are passed over.
"""

from typing import NamedTuple

from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.lanes import partition_of
from miniqueue.core.lease import Range
from miniqueue.core.message import Chunk
from miniqueue.core.partition import DEFAULT_GROUP
from miniqueue.core.partitioning import MAX_PARTITIONS
from miniqueue.storage import delay_keys, keys
from miniqueue.tools.delays_audit import DelaysAudit
from miniqueue.tools.group_audit import GroupAudit
from miniqueue.tools.problems import Problems
from miniqueue.tools.unique_audit import UniqueAudit


class TopicCounts(NamedTuple):
    """What a topic holds. `messages` are in chunks, `settled` ones of them kept for the sake of others."""

    chunks: int
    messages: int
    waiting: int
    delayed: int
    returned: int
    settled: int


class TopicAudit:
    """One topic, for one walk: first `set_…` as keys come, then chunks, then records, then `finish`.

    Attributes:
      partition_count: as the settings have it; None where they cannot be read.
      uniques: the walk over unique keys.
    """

    def __init__(self, name: bytes, topic_id: int, problems: Problems) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_count: int | None = 1
        self.uniques = UniqueAudit(topic_id, problems)
        self._problems = problems
        self._heads: dict[int, tuple[int | None, int]] = {}  # by partition, as all of these
        self._kept: dict[int, tuple[int, int | None]] = {}
        self._growths: dict[int, tuple[bytes, dict[int, int]]] = {}  # by the number of partitions
        self._delays: dict[int, DelaysAudit] = {}
        self._groups: dict[tuple[int, int], GroupAudit] = {}  # by partition and group id
        self._purged: set[int] = set()
        self._entered = {DEFAULT_GROUP: DEFAULT_GROUP_NAME}
        self._phase = 0  # 1 from the first chunk on, 2 from the first record on

    def delays(self, partition: int) -> DelaysAudit:
        """Return the walk over what was published with a delay."""
        if partition not in self._delays:
            self._delays[partition] = DelaysAudit(delay_keys.delays(self.topic_id, partition), self._problems)
        return self._delays[partition]

    def set_head(self, partition: int, next_seq: int | None, log_bytes: int) -> None:
        """Take the next sequence number, None when it could not be read, and the bytes up to there."""
        self._heads[partition] = next_seq, log_bytes

    def set_start(self, partition: int, kept: tuple[int, int | None] | None) -> None:
        """Take from where and up to where finished chunks are kept; None when it could not be read."""
        self._kept[partition] = kept or (0, None)

    def set_growth(self, key: bytes, partition_count: int, ends: dict[int, int] | None) -> None:
        """Take where logs ended when there were no longer so many partitions; None when it could not be read."""
        self._growths[partition_count] = key, ends or {}

    def set_group(self, group_id: int, name: bytes) -> None:
        """Take the entry of a group."""
        self._entered[group_id] = name

    def set_purged(self, group_id: int) -> None:
        """Take a group that is deleted, its keys not yet all."""
        self._purged.add(group_id)

    def group(self, partition: int, group_id: int) -> GroupAudit:
        """Return the walk over what a group has in a partition; in front of the chunks, begun if there is none."""
        place = partition, group_id
        if place not in self._groups:
            self._groups[place] = GroupAudit((self.topic_id, *place), self._problems)
        return self._groups[place]

    def take_chunk(self, key: bytes, partition: int, chunk: Chunk) -> None:
        """Take the next chunk."""
        for audit in self._of(partition, 1, key):
            audit.take_chunk(key, chunk)

    def skip_chunk(self, key: bytes, partition: int, first_seq: int) -> None:
        """Pass a chunk that could not be read."""
        for audit in self._of(partition, 1, key):
            audit.log.skip(first_seq)

    def reader(self, key: bytes, partition: int, group_id: int) -> GroupAudit | None:
        """Return the walk over a group to which a record belongs; None, maybe with a problem, when there is none."""
        self._begin(2)
        audit = self._groups.get((partition, group_id))
        if audit is None and group_id not in self._purged:
            self._problems.add("there is no such partition or group", key)
        return audit

    def note_returned(self, attributes: bytes, message_id: bytes, group_id: int) -> None:
        """Take a message that came back, with its attributes, encoded."""
        if group_id not in self._purged and group_id == self._key_group:
            self.uniques.note(attributes, message_id)

    def finish(self) -> None:
        """Compare the counts, when everything was taken."""
        self._begin(2)
        self._compare_partitions()
        for audit in self._groups.values():
            audit.finish()
        for delays in self._delays.values():
            delays.finish()
        is_settled = not self._purged  # else keys are still to be freed
        if is_settled and all(audit.is_readable for audit in self._groups.values()):
            self.uniques.finish(self._has_waiting, is_strict=self._key_group == DEFAULT_GROUP)

    def _compare_partitions(self) -> None:
        found = sorted({number for number, _ in self._groups if number < MAX_PARTITIONS})
        if self.partition_count is not None and found != [*range(self.partition_count)]:
            cause = f"of {self.partition_count} partitions there are {found}"
            self._problems.add(cause, keys.settings(self.topic_id))
        for count, (key, ends) in self._growths.items():
            if not 0 < count < len(found):
                self._problems.add(f"of {count} partitions it cannot have grown to {len(found)}", key)
            elif not {partition_of(number) for number in ends} <= {*range(count)}:
                self._problems.add(f"there were {count} partitions, and not that many", key)

    def counts(self) -> TopicCounts:
        """Return what the topic holds: chunks as they are there, messages as the group has them that has most.

        Where damage has ended the walk before the chunks, or the records, there are none of them.
        """
        groups: dict[int, list[GroupAudit]] = {}
        for (_, group_id), audit in self._groups.items() if self._phase else ():
            groups.setdefault(group_id, []).append(audit)
        last = max(groups.values(), key=lambda audits: sum(audit.log.waiting_count for audit in audits), default=[])
        returned = [audit.records.counts for audit in last] if self._phase > 1 else []
        return TopicCounts(
            chunks=sum(audit.log.chunk_count for audit in last),
            messages=sum(audit.log.message_count for audit in last),
            waiting=sum(audit.log.waiting_count for audit in last),
            delayed=sum(counts[Range.DELAYED] for counts in returned)
            + sum(delays.message_count for delays in self._delays.values()),
            returned=sum(counts[Range.FRONT] + counts[Range.BACK] for counts in returned),
            settled=sum(audit.log.settled_count for audit in last),
        )

    def _of(self, partition: int, phase: int, key: bytes) -> list[GroupAudit]:
        self._begin(phase)
        found = [audit for (number, _), audit in self._groups.items() if number == partition]
        if not found:
            self._problems.add("there is no such partition or group", key)
        return found

    def _begin(self, phase: int) -> None:
        """Go on to the chunks, or to the records: all that comes before was taken."""
        if self._phase < 1 <= phase:
            self._phase = 1
            self._begin_logs()
        if self._phase < 2 <= phase:
            self._phase = 2
            for audit in self._groups.values():
                audit.end_log()

    def _begin_logs(self) -> None:
        for place in [place for place in self._groups if place[1] in self._purged]:
            del self._groups[place]
        group_ids = {group_id for _, group_id in self._groups}
        if not group_ids:
            self.group(0, DEFAULT_GROUP)
        for group_id in group_ids - self._entered.keys():
            self._problems.add(f"group {group_id} has keys, but no entry")
        is_shared = len(group_ids) > 1 or self._purged
        for (partition, _), audit in self._groups.items():
            kept = (0, None) if is_shared else self._kept.get(partition)
            audit.begin(self._heads.get(partition, (0, 0)), kept)

    @property
    def _key_group(self) -> int:
        """The group whose messages say whether unique keys are free: the default group, or the first by name."""
        names = {group_id: self._entered.get(group_id, b"") for _, group_id in self._groups}
        return min(names, key=lambda group_id: (names[group_id] != DEFAULT_GROUP_NAME, names[group_id], group_id))

    def _has_waiting(self, partition: int, seq: int) -> bool:
        audit = self._groups.get((partition, self._key_group))
        return audit is not None and audit.log.has_waiting(seq)
