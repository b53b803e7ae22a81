import pytest

from miniqueue.core.partitioning import MAX_PARTITIONS, partition_for


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
