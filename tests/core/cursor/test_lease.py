"""Chunk progress and leases: runs of what is left, bits of what is done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.cursor.lease import ChunkLease, ChunkProgress, Lease, Range, RecordLease, unset_runs
from miniqueue.core.message.message import NEVER_RETURNED, Chunk, Counts, Record


def chunk_of(count: int, first_seq: int = 100) -> Chunk:
    return Chunk(first_seq, 5, [b"%d" % n for n in range(count)])


@pytest.mark.parametrize(
    ("settled", "runs"),
    [
        (0b0000, [(0, 4)]),
        (0b0001, [(1, 4)]),
        (0b1000, [(0, 3)]),
        (0b0110, [(0, 1), (3, 4)]),
        (0b0101, [(1, 2), (3, 4)]),
        (0b1111, []),
        (0b0111, [(3, 4)]),
        (0b1110, [(0, 1)]),
    ],
)
def test_runs_are_what_is_not_settled(settled, runs):
    progress = ChunkProgress(chunk_of(4), settled)
    assert list(reversed(progress.runs)) == runs
    assert progress.unsettled_count == sum(stop - start for start, stop in runs)
    assert progress.is_stored is (settled != 0)


@given(st.integers(1, 200), st.integers(0), st.integers(1, 9))
def test_taking_hands_out_every_unset_index_once_and_in_order(size, bits, max_count):
    settled = bits & ((1 << size) - 1)
    progress = ChunkProgress(chunk_of(size), settled)
    handed_out = []
    while progress.runs:
        start, stop = progress.take(max_count)
        assert 0 < stop - start <= max_count
        handed_out += range(start, stop)
    assert handed_out == [i for i in range(size) if not settled >> i & 1]


@given(st.integers(0, (1 << 60) - 1), st.randoms(use_true_random=False))
def test_what_is_removed_leaves_the_run_that_has_it(settled, chance):
    progress = ChunkProgress(chunk_of(60), settled)
    while progress.runs:
        first, end = chance.choice(progress.runs)
        start = chance.randrange(first, end)
        stop = chance.randrange(start + 1, end + 1)
        progress.remove(start, stop)
        settled |= (1 << stop) - (1 << start)
        assert progress.runs == unset_runs(settled, 60)


def test_settling_sets_bits():
    progress = ChunkProgress(chunk_of(8), 1)
    progress.settle(2, 3)
    progress.settle(7, 1)
    assert progress.settled == 0b10011101
    assert progress.unsettled_count == 3


def test_a_chunk_lease_becomes_records_with_their_sequence_numbers():
    lease = ChunkLease(1, ChunkProgress(chunk_of(5)), 2, count=2)
    assert lease.payloads == [b"2", b"3"]
    assert lease.counts == NEVER_RETURNED
    assert lease.records() == [Record(102, 5, NEVER_RETURNED, b"2"), Record(103, 5, NEVER_RETURNED, b"3")]


def test_a_record_lease_keeps_its_counts():
    record = Record(7, 5, Counts(dacks=2), b"x")
    lease = RecordLease(1, record, Range.BACK, 9)
    assert (lease.payloads, lease.counts, lease.records()) == ([b"x"], Counts(dacks=2), [record])


def test_a_plain_lease_does_not_know_where_its_messages_are():
    with pytest.raises(NotImplementedError):
        Lease().records()


def test_a_part_of_a_lease_has_the_same_messages_under_the_same_receipts():
    lease = ChunkLease(10, ChunkProgress(chunk_of(9)), 2, count=6)
    part = lease.part(12, 15)
    assert (part.receipt, part.count, part.payloads) == (12, 3, [b"4", b"5", b"6"])


def test_counts_grow_by_cause():
    assert Counts().plus("nacks").plus("backs").plus("backs") == Counts(nacks=1, backs=2)


def test_sizes_count_payloads_and_what_objects_cost():
    assert chunk_of(10).size_bytes > 10
    assert chunk_of(10).end_seq == 110
    assert Record(1, 1, NEVER_RETURNED, bytes(100)).size_bytes > 100


def test_range_values_are_stored_and_never_change():
    assert [(place.name, place.value) for place in Range] == [("FRONT", 0), ("DELAYED", 1), ("BACK", 2), ("LOG", 3)]
