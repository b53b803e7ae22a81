"""A partition: sequence numbers from the moment of appending, chunks within their limits, every group served."""

import pytest

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.log import partition as limits
from miniqueue.core.log.partition import DEFAULT_GROUP, Partition


def new_cursor() -> GroupCursor:
    return GroupCursor(CursorState(), 0, {}, is_new=True)


def new_partition(next_seq: int = 0) -> Partition:
    return Partition(next_seq, {DEFAULT_GROUP: new_cursor()})


def append(partition: Partition, payloads: list[bytes]) -> int:
    return partition.append(payloads, sum(map(len, payloads)))


def test_sequence_numbers_are_given_when_a_message_is_appended():
    partition = new_partition(next_seq=40)
    assert append(partition, [b"a", b"b"]) == 40
    assert append(partition, [b"c"]) == 42
    assert partition.next_seq == 43


def test_a_cut_is_one_chunk_of_all_that_was_appended():
    partition = new_partition(next_seq=7)
    append(partition, [b"a", b"b"])
    append(partition, [b"c"])
    [chunk] = partition.cut(99)
    assert (chunk.first_seq, chunk.committed_at_ms, chunk.payloads) == (7, 99, [b"a", b"b", b"c"])
    assert partition.cut(100) == []


def test_a_chunk_ends_where_it_is_told_to():
    partition = new_partition()
    partition.end_chunk()
    append(partition, [b"a", b"b"])
    partition.end_chunk()
    partition.end_chunk()
    append(partition, [b"c"])
    assert [(chunk.first_seq, chunk.payloads) for chunk in partition.cut(1)] == [(0, [b"a", b"b"]), (2, [b"c"])]
    append(partition, [b"d", b"e"])
    partition.end_chunk()
    assert [chunk.payloads for chunk in partition.cut(1)] == [[b"d", b"e"]]


def test_numbers_go_on_after_a_cut():
    partition = new_partition()
    append(partition, [b"a"])
    partition.cut(1)
    assert append(partition, [b"b"]) == 1
    assert partition.cut(1)[0].first_seq == 1


@pytest.mark.parametrize(
    ("sizes", "chunk_lengths"),
    [
        ([], []),
        ([0], [1]),
        ([1] * 4, [4]),
        ([1] * 5, [4, 1]),
        ([1] * 9, [4, 4, 1]),
        ([50, 50], [2]),
        ([50, 51], [1, 1]),
        ([100, 0, 1], [2, 1]),
        ([101], [1]),
        ([101, 1], [1, 1]),
        ([1, 101, 1], [1, 1, 1]),
        ([101, 101], [1, 1]),
        ([0, 0, 0, 0, 0], [4, 1]),
    ],
)
def test_chunks_keep_to_their_limits_unless_one_message_is_over(monkeypatch, sizes, chunk_lengths):
    monkeypatch.setattr(limits, "MAX_CHUNK_MESSAGES", 4)
    monkeypatch.setattr(limits, "MAX_CHUNK_BYTES", 100)
    partition = new_partition()
    payloads = [bytes(size) for size in sizes]
    append(partition, payloads)
    chunks = partition.cut(1)
    assert [len(chunk.payloads) for chunk in chunks] == chunk_lengths
    assert [payload for chunk in chunks for payload in chunk.payloads] == payloads
    assert [chunk.first_seq for chunk in chunks] == [sum(chunk_lengths[:n]) for n in range(len(chunks))]


def test_a_chunk_of_the_usual_limits_is_cut_at_8192_messages():
    partition = new_partition()
    append(partition, [b""] * 8193)
    assert [len(chunk.payloads) for chunk in partition.cut(1)] == [8192, 1]


def test_a_commit_reaches_every_group_and_a_chunk_is_needed_until_all_have_finished():
    groups = {DEFAULT_GROUP: new_cursor(), 1: new_cursor()}
    partition = Partition(0, groups)
    append(partition, [b"a"])
    partition.commit(partition.cut(1))
    for is_unneeded, cursor in zip((False, True), groups.values(), strict=True):
        cursor.ack(cursor.take(1, 0))
        [finished] = cursor.changes.finished
        assert partition.is_unneeded(finished) is is_unneeded


def test_nothing_is_readable_before_its_commit():
    partition = new_partition()
    append(partition, [b"a"])
    chunks = partition.cut(1)
    assert partition.cursors[DEFAULT_GROUP].take(1, 0) is None
    partition.commit(chunks)
    assert partition.cursors[DEFAULT_GROUP].take(1, 0).payloads == [b"a"]


def test_a_chunk_knows_how_long_the_log_is_up_to_its_end():
    partition = Partition(7, {DEFAULT_GROUP: new_cursor()}, log_bytes=100)
    append(partition, [b"abc"])
    append(partition, [b"", b"de"])
    assert partition.log_bytes == 105
    assert [chunk.log_bytes for chunk in partition.cut(1)] == [105]
    append(partition, [b"f"])
    assert [chunk.log_bytes for chunk in partition.cut(1)] == [106]


def test_each_of_the_chunks_of_a_commit_knows_its_own_end(monkeypatch):
    monkeypatch.setattr(limits, "MAX_CHUNK_MESSAGES", 2)
    partition = new_partition()
    append(partition, [b"a", b"bb", b"ccc"])
    assert [chunk.log_bytes for chunk in partition.cut(1)] == [3, 6]


def test_messages_keep_their_attributes_and_plain_chunks_have_none(monkeypatch):
    monkeypatch.setattr(limits, "MAX_CHUNK_MESSAGES", 2)
    partition = new_partition()
    append(partition, [b"a"])
    partition.describe(partition.append([b"b", b"c", b"d", b"e"], 11), [b"", b"one", b"", b"four"])
    append(partition, [b"f", b"g"])
    chunks = partition.cut(1)
    assert [chunk.attributes for chunk in chunks] == [None, [b"one", b""], [b"four", b""], None]
    assert [chunk.log_bytes for chunk in chunks] == [2, 7, 13, 14]
    append(partition, [b"h"])
    assert [chunk.attributes for chunk in partition.cut(2)] == [None]


def test_a_chunk_keeps_to_its_limit_with_the_attributes_counted(monkeypatch):
    monkeypatch.setattr(limits, "MAX_CHUNK_BYTES", 100)
    partition = new_partition()
    partition.describe(partition.append([b""] * 3, 150), [bytes(50), bytes(50), b"x"])
    assert [len(chunk.payloads) for chunk in partition.cut(1)] == [2, 1]
