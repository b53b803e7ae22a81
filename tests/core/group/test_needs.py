"""Who needs a chunk: as asking every group says, and without asking every group."""

from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.group.needs import ChunkNeeds
from miniqueue.core.log.partition import Partition
from miniqueue.core.message.message import Chunk


class Counted(GroupCursor):
    """A cursor that counts how often it is asked."""

    asked_count = 0

    def has_finished(self, first_seq: int) -> bool:
        Counted.asked_count += 1
        return super().has_finished(first_seq)


def partition_with(groups: int, chunks: int, kind: type[GroupCursor] = GroupCursor) -> Partition:
    cursors = {id_: kind(CursorState(), 0, {}, is_new=True, group=id_) for id_ in range(groups)}
    partition = Partition(0, cursors)
    for number in range(chunks):
        partition.next_seq = number + 1
        partition.commit([Chunk(number, 0, [b"m"])])
    return partition


def unneeded(partition: Partition, group: int) -> list[int]:
    """Return the chunks that can go, of those that a group has finished since the last call."""
    changes = partition.cursors[group].changes
    finished, changes.finished = changes.finished, []
    return [one.chunk.first_seq for one in finished if partition.is_unneeded(one)]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["take", "first", "last", "commit", "seek"])), max_size=80)
)
def test_a_chunk_goes_when_the_last_group_is_done_with_it(acts):
    partition = partition_with(3, 12)
    held = {group: [] for group in range(3)}
    for group, act in acts:
        cursor = partition.cursors[group]
        if act == "take" and (lease := cursor.take(1, 0)) is not None:
            held[group].append(lease)
        elif act in ("first", "last") and held[group]:
            cursor.ack(held[group].pop(0 if act == "first" else -1))
        elif act == "seek":
            held[group] = []
            partition.replace(group, GroupCursor(CursorState(), 12, {}, is_new=True, group=group))
        finished = [one.chunk.first_seq for one in cursor.changes.finished] if act != "seek" else []
        by_all = [seq for seq in finished if all(one.has_finished(seq) for one in partition.cursors.values())]
        if act != "seek":
            assert unneeded(partition, group) == by_all
        needs = ChunkNeeds(partition.cursors)
        for seq in range(12):
            is_needed = not all(one.has_finished(seq) for one in partition.cursors.values())
            assert needs.is_any(seq) == partition._needs.is_any(seq) == is_needed


def test_the_last_of_many_groups_asks_the_others_once_and_not_for_each_chunk():
    partition = partition_with(100, 50, Counted)
    for group in range(100):
        cursor = partition.cursors[group]
        while (lease := cursor.take(1, 0)) is not None:
            cursor.ack(lease)
        Counted.asked_count = 0
        assert unneeded(partition, group) == ([] if group < 99 else list(range(50)))
        assert Counted.asked_count <= 50 + 100


def test_groups_that_go_side_by_side_ask_one_other_each():
    partition = partition_with(100, 50, Counted)
    Counted.asked_count = 0
    for _ in range(50):
        for cursor in partition.cursors.values():
            cursor.ack(cursor.take(1, 0))
            unneeded(partition, cursor.group)
    assert Counted.asked_count <= 50 * 100 * 3


def test_a_group_that_holds_an_old_message_is_the_only_one_that_is_asked_about_what_is_behind_it():
    partition = partition_with(100, 50, Counted)
    leases = {}
    for group, cursor in partition.cursors.items():
        leases[group] = [cursor.take(1, 0) for _ in range(50)]
        if group < 99:
            for lease in leases[group][group == 7 :]:
                cursor.ack(lease)
            unneeded(partition, group)
    Counted.asked_count = 0
    for lease in leases[99]:
        partition.cursors[99].ack(lease)
    assert unneeded(partition, 99) == list(range(1, 50))
    assert Counted.asked_count <= 100 + 3 * 50
