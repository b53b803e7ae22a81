"""Encodes the changes of a topic as the keys and values of a commit."""

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter

from miniqueue.broker.model.held import MANY_PARTITIONS
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import Changes, CursorState
from miniqueue.core.group import view
from miniqueue.core.log.delayed import DelaysState
from miniqueue.core.log.partition import Partition
from miniqueue.core.message.message import Chunk
from miniqueue.storage.format import dedup, groups, keys, values
from miniqueue.storage.format import delays as delay_keys
from miniqueue.storage.format import delays as delay_records

#: The chunks of a commit, with the partition in which they become readable; and the state of the delayed messages
#: there after the commit, if it changes them.
Appended = tuple[Topic, Partition, list[Chunk], DelaysState | None]

_of_partition = attrgetter("appended", "delays.changes", "is_head_due")
_of_cursor = attrgetter("changes.records", "changes.touched", "changes.finished")
_is_changed, _number, _partition_number = attrgetter("is_changed"), attrgetter("partition"), attrgetter("number")


def new_topic(topic: Topic, now_ms: int) -> dict[bytes, bytes | None]:
    """Return the values that register an empty topic, whose id is the highest so far, and its groups."""
    assert topic.id is not None
    batch = {
        keys.NEXT_TOPIC: values.encode_number(topic.id + 1),
        keys.topic(topic.name): values.encode_topic(topic.id, now_ms),
        **new_partitions(topic.id, [topic.plain]),
    }
    for group in topic.existing_groups:
        batch |= new_group(topic.id, group, now_ms)
    return batch


def new_group(topic_id: int, group: Group, now_ms: int) -> dict[bytes, bytes | None]:
    """Return the values that register a group, except its cursors."""
    if not group.id:  # The default group exists if its cursor does.
        return {}
    return {groups.group(topic_id, group.name): values.encode_topic(group.id, now_ms)}


def new_cursor(topic_id: int, cursor: GroupCursor) -> dict[bytes, bytes | None]:
    """Return the values that register the position at which a group begins in a partition."""
    position = topic_id, cursor.partition, cursor.group
    batch: dict[bytes, bytes | None] = {keys.cursor(*position): values.encode_cursor(cursor.state)}
    for first_seq, bits in view.settled_bits(cursor).items():
        batch[keys.bitmap(*position, first_seq)] = values.encode_bitmap(bits)
    for start, stop in cursor.gaps.runs():
        batch[keys.gap(*position, start)] = values.encode_number(stop)
    return batch


def new_partitions(topic_id: int, partitions: Sequence[Partition]) -> dict[bytes, bytes | None]:
    """Return the values that register empty partitions, all with the groups that read the first one."""
    batch: dict[bytes, bytes | None] = {}
    numbers, state = [*map(_partition_number, partitions)], values.encode_cursor(CursorState())
    for group in partitions[0].cursors:
        batch |= dict.fromkeys(keys.cursors(topic_id, numbers, group), state)
    return batch


def add_topic(batch: dict[bytes, bytes | None], topic: Topic, now_ms: int) -> list[Appended]:
    """Add to `batch` everything that changed in `topic` since the last commit; return its new chunks."""
    assert topic.id is not None
    appended: list[Appended] = []
    is_small = len(topic.partitions) < MANY_PARTITIONS
    partitions = topic.partitions if is_small else _changed(topic)
    for number, partition in partitions.items():
        chunks = partition.cut(now_ms)
        for chunk in chunks:
            batch[keys.chunk(topic.id, number, chunk.first_seq)] = values.encode_chunk(chunk)
        delays = _add_delays(batch, topic.id, partition) if partition.delays.changes else None
        if chunks or delays is not None:
            appended.append((topic, partition, chunks, delays))
        cursors = partition.cursors
        changed = list(compress(cursors.items(), map(any, map(_of_cursor, cursors.values()))))
        for group, cursor in changed:
            _add_cursor(batch, (topic.id, number, group), partition, cursor)
        # Each commit that deletes chunks writes the head: startup finds the next number there, or after the last chunk.
        if changed or partition.is_head_due:
            batch[keys.head(topic.id, number)] = values.encode_head(partition.next_seq, partition.log_bytes)
            partition.is_head_due = False
    if topic.trace is not None:
        topic.trace.commit(batch, appended, now_ms)
    if topic.partition_count > 1 and appended:
        topic.turn()
    if topic.dedup is not None and topic.dedup.is_changed:
        ids = topic.dedup.cut(now_ms)
        batch[dedup.dedup(topic.id, now_ms, ids.serial)] = dedup.encode_dedup(ids.entries)
    if topic.unique_keys.changed or topic.unique_keys.writing:
        for key, claims in topic.unique_keys.cut().items():
            for message_id, expires_at_ms in claims.items():
                value = None if expires_at_ms is None else dedup.encode_unique(expires_at_ms)
                batch[dedup.unique(topic.id, key, message_id)] = value
    return appended


def _add_delays(batch: dict[bytes, bytes | None], topic_id: int, partition: Partition) -> DelaysState:
    delays, number = partition.delays, partition.number
    for position, message in delays.cut().items():
        value = None if message is None else delay_records.encode_delayed(message)
        batch[delay_keys.delayed(topic_id, number, *position)] = value
    batch[delay_keys.delays(topic_id, number)] = delay_records.encode_delays(delays.state)
    return delays.state


def _changed(topic: Topic) -> dict[int, Partition]:
    """Return the partitions of a topic of which the next commit may have something to write, by number.

    There can be a thousand, and twenty times as many cursors: no line of Python runs for each, and C looks once.
    """
    partitions, numbers = topic.partitions, set[int]()
    with_changes = dict(compress(partitions.items(), map(any, map(_of_partition, partitions.values()))))
    for group in topic.groups.values():
        numbers.update(map(_number, compress(group.cursors, map(_is_changed, group.cursors))))
    return with_changes | {number: partitions[number] for number in numbers}


def _add_cursor(
    batch: dict[bytes, bytes | None], position: tuple[int, int, int], partition: Partition, cursor: GroupCursor
) -> None:
    changes, cursor.changes, cursor.is_changed = cursor.changes, Changes(), False
    batch[keys.cursor(*position)] = values.encode_cursor(cursor.state)
    for (kind, order), record in changes.records.items():
        batch[keys.record(*position, kind, order)] = None if record is None else values.encode_record(record)
    for first_seq, progress in changes.touched.items():
        batch[keys.bitmap(*position, first_seq)] = values.encode_bitmap(progress.settled)
        progress.is_stored = True
    for first_seq, stop in changes.gaps.items():
        batch[keys.gap(*position, first_seq)] = None if stop is None else values.encode_number(stop)
    for progress in changes.finished:
        first_seq = progress.chunk.first_seq
        if progress.is_stored:
            batch[keys.bitmap(*position, first_seq)] = None
        if partition.is_unneeded(progress):
            batch[keys.chunk(position[0], position[1], first_seq)] = None
            partition.consumed_bytes += progress.chunk.size_bytes
