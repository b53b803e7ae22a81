"""Turns what changed in a topic into the keys and values of a commit."""

from miniqueue.broker.group import Group
from miniqueue.broker.held import MANY_PARTITIONS
from miniqueue.broker.summing import changed as changed_of
from miniqueue.broker.topic import Topic
from miniqueue.core import cursor_view
from miniqueue.core.changes import Changes
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.delayed import DelaysState
from miniqueue.core.message import Chunk
from miniqueue.core.partition import Partition
from miniqueue.storage import dedup_keys, dedup_records, delay_keys, delay_records, group_keys, keys, records

#: The chunks of a commit, with the partition where they become readable; what it leaves of the delayed messages there,
#: where it changes them.
Appended = tuple[Topic, Partition, list[Chunk], DelaysState | None]


def new_topic(topic: Topic, now_ms: int) -> dict[bytes, bytes | None]:
    """Return what registers a topic that is empty, whose id is the highest so far, with its groups."""
    assert topic.id is not None
    batch = {
        keys.NEXT_TOPIC: records.encode_number(topic.id + 1),
        keys.topic(topic.name): records.encode_topic(topic.id, now_ms),
        **new_partition(topic.id, topic.partitions[0]),
    }
    for group in topic.existing_groups:
        batch |= new_group(topic.id, group, now_ms)
    return batch


def new_group(topic_id: int, group: Group, now_ms: int) -> dict[bytes, bytes | None]:
    """Return what registers a group, beside its cursors."""
    if not group.id:  # the default group, whose cursor says that it is there
        return {}
    return {group_keys.group(topic_id, group.name): records.encode_topic(group.id, now_ms)}


def new_cursor(topic_id: int, cursor: GroupCursor) -> dict[bytes, bytes | None]:
    """Return what registers where a group begins in a partition."""
    place = topic_id, cursor.partition, cursor.group
    batch: dict[bytes, bytes | None] = {keys.cursor(*place): records.encode_cursor(cursor.state)}
    for first_seq, bits in cursor_view.settled_bits(cursor).items():
        batch[keys.bitmap(*place, first_seq)] = records.encode_bitmap(bits)
    for start, stop in cursor.gaps.runs():
        batch[keys.gap(*place, start)] = records.encode_number(stop)
    return batch


def new_partition(topic_id: int, partition: Partition) -> dict[bytes, bytes | None]:
    """Return what registers a partition that is empty, with the groups that read it."""
    state = records.encode_cursor(CursorState())
    return {keys.cursor(topic_id, partition.number, group): state for group in partition.cursors}


def add_topic(batch: dict[bytes, bytes | None], topic: Topic, now_ms: int) -> list[Appended]:
    """Add to `batch` everything that changed in `topic` since the last commit; return its new chunks."""
    assert topic.id is not None
    appended: list[Appended] = []
    is_small = len(topic.partitions) < MANY_PARTITIONS
    partitions = topic.partitions if is_small else changed_of(topic.partitions, topic.cursors)
    for number, partition in partitions.items():
        chunks = partition.cut(now_ms)
        for chunk in chunks:
            batch[keys.chunk(topic.id, number, chunk.first_seq)] = records.encode_chunk(chunk)
        delays = _add_delays(batch, topic.id, partition) if partition.delays.changes else None
        if chunks or delays is not None:
            appended.append((topic, partition, chunks, delays))
        changed = [(group, cursor) for group, cursor in partition.cursors.items() if cursor.changes]
        for group, cursor in changed:
            _add_cursor(batch, (topic.id, number, group), partition, cursor)
        # No chunk is deleted without: a start finds the next number here, or behind the last chunk.
        if changed or partition.is_head_due:
            batch[keys.head(topic.id, number)] = records.encode_head(partition.next_seq, partition.log_bytes)
            partition.is_head_due = False
    if topic.trace is not None:
        topic.trace.commit(batch, appended, now_ms)
    if topic.partition_count > 1 and appended:
        topic.turn()
    if topic.dedup is not None and topic.dedup.is_changed:
        ids = topic.dedup.cut(now_ms)
        batch[dedup_keys.dedup(topic.id, now_ms, ids.serial)] = dedup_records.encode_dedup(ids.entries)
    if topic.unique_keys.changed or topic.unique_keys.writing:
        for key, claims in topic.unique_keys.cut().items():
            for message_id, expires_at_ms in claims.items():
                value = None if expires_at_ms is None else dedup_records.encode_unique(expires_at_ms)
                batch[dedup_keys.unique(topic.id, key, message_id)] = value
    return appended


def _add_delays(batch: dict[bytes, bytes | None], topic_id: int, partition: Partition) -> DelaysState:
    delays, number = partition.delays, partition.number
    for place, message in delays.cut().items():
        value = None if message is None else delay_records.encode_delayed(message)
        batch[delay_keys.delayed(topic_id, number, *place)] = value
    batch[delay_keys.delays(topic_id, number)] = delay_records.encode_delays(delays.state)
    return delays.state


def _add_cursor(
    batch: dict[bytes, bytes | None], place: tuple[int, int, int], partition: Partition, cursor: GroupCursor
) -> None:
    changes, cursor.changes = cursor.changes, Changes()
    batch[keys.cursor(*place)] = records.encode_cursor(cursor.state)
    for (kind, order), record in changes.records.items():
        batch[keys.record(*place, kind, order)] = None if record is None else records.encode_record(record)
    for first_seq, progress in changes.touched.items():
        batch[keys.bitmap(*place, first_seq)] = records.encode_bitmap(progress.settled)
        progress.is_stored = True
    for first_seq, stop in changes.gaps.items():
        batch[keys.gap(*place, first_seq)] = None if stop is None else records.encode_number(stop)
    for progress in changes.finished:
        first_seq = progress.chunk.first_seq
        if progress.is_stored:
            batch[keys.bitmap(*place, first_seq)] = None
        if partition.is_unneeded(progress):
            batch[keys.chunk(place[0], place[1], first_seq)] = None
            partition.consumed_bytes += progress.chunk.size_bytes
