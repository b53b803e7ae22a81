"""Checks one topic: each group in each partition, delayed messages, growths, and unique keys.

Keys of a deleted group can remain, and chunks that only this group needed; they are skipped.
"""

from typing import NamedTuple

from miniqueue.core.cursor.lease import Range
from miniqueue.core.log.partition import DEFAULT_GROUP
from miniqueue.core.message.lanes import FIRST_OTHER_LANE, partition_of
from miniqueue.core.message.message import Chunk
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.message.parts import first_partition_of
from miniqueue.storage.format import delays, keys
from miniqueue.tools.audit.delays import DelaysAudit
from miniqueue.tools.audit.group import GroupAudit
from miniqueue.tools.audit.problems import Problems
from miniqueue.tools.audit.unique_keys import UniqueAudit


class TopicCounts(NamedTuple):
    """The content of a topic. `messages` are in chunks; the `settled` messages of these remain because others do."""

    chunks: int
    messages: int
    waiting: int
    delayed: int
    returned: int
    settled: int


class TopicAudit:
    """Check of one topic: call the setters as keys come, then pass chunks, then records, then call `finish`.

    Attributes:
      partition_count: number of partitions in the settings; None if they cannot be read.
      is_spread: whether the topic is spread, and so in every shard.
      uniques: check of the unique keys.
    """

    def __init__(self, name: bytes, topic_id: int, problems: Problems) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_count: int | None = 1
        self.is_spread = False
        self.uniques = UniqueAudit(topic_id, problems)
        self._problems = problems
        self._heads: dict[int, tuple[int | None, int]] = {}  # key: partition
        self._kept: dict[int, tuple[int, int | None]] = {}  # key: partition
        self._growths: dict[int, tuple[bytes, dict[int, int]]] = {}  # key: number of partitions
        self._delays: dict[int, DelaysAudit] = {}  # key: partition
        self._groups: dict[tuple[int, int], GroupAudit] = {}  # key: partition and group id
        self._purged: set[int] = set()
        self._entered = {DEFAULT_GROUP: DEFAULT_GROUP_NAME}
        self._phase = 0  # 1 from the first chunk on, 2 from the first record on

    def delays(self, partition: int) -> DelaysAudit:
        """Return the check of the delayed messages of a partition."""
        if partition not in self._delays:
            self._delays[partition] = DelaysAudit(delays.delays(self.topic_id, partition), self._problems)
        return self._delays[partition]

    def set_head(self, partition: int, next_seq: int | None, log_bytes: int) -> None:
        """Take the next sequence number, None if it cannot be read, and the bytes of the log up to there."""
        self._heads[partition] = next_seq, log_bytes

    def set_start(self, partition: int, kept: tuple[int, int | None] | None) -> None:
        """Take the range in which settled chunks are retained; None if it cannot be read."""
        self._kept[partition] = kept or (0, None)

    def set_growth(self, key: bytes, partition_count: int, ends: dict[int, int] | None) -> None:
        """Take the ends of the logs when partitions were added to `partition_count`; None if they cannot be read."""
        self._growths[partition_count] = key, ends or {}

    def set_group(self, group_id: int, name: bytes) -> None:
        """Take the entry of a group."""
        self._entered[group_id] = name

    def set_purged(self, group_id: int) -> None:
        """Take a deleted group of which some keys remain."""
        self._purged.add(group_id)

    def group(self, partition: int, group_id: int) -> GroupAudit:
        """Return the check of a group in a partition, made if necessary; call it before the first chunk."""
        key = partition, group_id
        if key not in self._groups:
            self._groups[key] = GroupAudit((self.topic_id, *key), self._problems)
        return self._groups[key]

    def take_chunk(self, key: bytes, partition: int, chunk: Chunk) -> None:
        """Check the next chunk, for each group of the partition."""
        for audit in self._of(partition, 1, key):
            audit.take_chunk(key, chunk)

    def skip_chunk(self, key: bytes, partition: int, first_seq: int) -> None:
        """Skip a chunk that cannot be read."""
        for audit in self._of(partition, 1, key):
            audit.log.skip(first_seq)

    def reader(self, key: bytes, partition: int, group_id: int) -> GroupAudit | None:
        """Return the check of a record's group; if there is none, return None, and report it unless it is deleted."""
        self._begin(2)
        audit = self._groups.get((partition, group_id))
        if audit is None and group_id not in self._purged:
            self._problems.add("there is no such partition or group", key)
        return audit

    def take_returned(self, attributes: bytes, message_id: bytes, group_id: int) -> None:
        """Take a returned message with its encoded attributes."""
        if group_id not in self._purged and group_id == self._key_group:
            self.uniques.take_waiting(attributes, message_id)

    def finish(self) -> None:
        """Compare the counts, after the last pair."""
        self._begin(2)
        self._compare_partitions()
        for audit in self._groups.values():
            audit.finish()
        for delayed in self._delays.values():
            delayed.finish()
        is_settled = not self._purged  # otherwise some unique keys are not free yet
        if is_settled and all(audit.is_readable for audit in self._groups.values()):
            self.uniques.finish(self._has_waiting, is_strict=self._key_group == DEFAULT_GROUP)

    def _compare_partitions(self) -> None:
        partitions = sorted({number for number, _ in self._groups if number < FIRST_OTHER_LANE})
        first = first_partition_of(self.name)
        if self.partition_count is not None and partitions != [*range(first, first + self.partition_count)]:
            cause = f"of {self.partition_count} partitions there are {partitions}"
            self._problems.add(cause, keys.settings(self.topic_id))
        for count, (key, ends) in self._growths.items():
            if not 0 < count < len(partitions):
                self._problems.add(f"the topic cannot have grown from {count} partitions to {len(partitions)}", key)
            elif not {partition_of(number) for number in ends} <= {*range(first, first + count)}:
                self._problems.add(f"has the end of a log that does not belong to {count} partitions", key)

    def counts(self) -> TopicCounts:
        """Return the content of the topic, as the group with the most waiting messages has it.

        If damage ended the walk before the chunks or the records, these are not counted.
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
            + sum(delayed.message_count for delayed in self._delays.values()),
            returned=sum(counts[Range.FRONT] + counts[Range.BACK] for counts in returned),
            settled=sum(audit.log.settled_count for audit in last),
        )

    def _of(self, partition: int, phase: int, key: bytes) -> list[GroupAudit]:
        self._begin(phase)
        audits = [audit for (number, _), audit in self._groups.items() if number == partition]
        if not audits:
            self._problems.add("there is no such partition or group", key)
        return audits

    def _begin(self, phase: int) -> None:
        """Begin the check of the chunks (1) or of the records (2), unless it has begun."""
        if self._phase < 1 <= phase:
            self._phase = 1
            self._begin_logs()
        if self._phase < 2 <= phase:
            self._phase = 2
            for audit in self._groups.values():
                audit.end_log()

    def _begin_logs(self) -> None:
        for key in [key for key in self._groups if key[1] in self._purged]:
            del self._groups[key]
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
        """The group whose messages hold unique keys: the default group, or the first group by name."""
        names = {group_id: self._entered.get(group_id, b"") for _, group_id in self._groups}
        return min(names, key=lambda group_id: (names[group_id] != DEFAULT_GROUP_NAME, names[group_id], group_id))

    def _has_waiting(self, partition: int, seq: int) -> bool:
        audit = self._groups.get((partition, self._key_group))
        return audit is not None and audit.log.has_waiting(seq)
