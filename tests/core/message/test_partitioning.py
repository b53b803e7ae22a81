import pytest

from miniqueue.core.message.partitioning import (
    MAX_PARTITIONS,
    indexes_by_number,
    indexes_by_run,
    partition_for,
    partitions_for,
)


@pytest.mark.parametrize(
    ("key", "of_8", "of_1000"),
    [(b"123456789", 6, 262), (b"a", 3, 907), (b"order-17", 4, 420), (b"\xff\x00", 5, 293)],
)
def test_a_key_has_the_same_partition_for_ever(key, of_8, of_1000):
    assert partition_for(key, 1) == 0
    assert partition_for(key, 8) == of_8
    assert partition_for(key, 1000) == of_1000


def test_keys_are_spread_evenly():
    counts = [0] * 8
    for number in range(8000):
        counts[partition_for(b"customer-%d" % number, 8)] += 1
    assert max(counts) - min(counts) < 200


def test_there_may_be_as_many_partitions_as_numbers():
    assert {partition_for(b"%d" % number, MAX_PARTITIONS) for number in range(20_000)} == {*range(MAX_PARTITIONS)}


def test_keys_together_have_the_partitions_that_they_have_alone():
    keys = [b"123456789", b"a", b"order-17", b"a"]
    assert partitions_for(keys, 8, 7) == [6, 3, 4, 3]
    assert partitions_for([*keys, b""], 8, 7) == [6, 3, 4, 3, 7]
    for indexes_of in (indexes_by_number, indexes_by_run):
        assert indexes_of([6, 3, 3, 4, 3]) == {6: [0], 3: [1, 2, 4], 4: [3]}
        assert indexes_of([]) == {}
