"""The names and numbers of the parts of spread topics."""

from collections import Counter
from itertools import pairwise

import pytest

from miniqueue.core.cursor.receipts import first_receipt, lane_index_of, part_of_receipt
from miniqueue.core.message import parts
from miniqueue.core.message.ids import DelayedId, format_message_id
from miniqueue.core.message.lanes import Priority, lane
from miniqueue.core.message.names import check_group, check_name, check_topic
from miniqueue.core.message.partitioning import MAX_PARTITIONS, partition_for
from miniqueue.core.settings.placing import MAX_SHARDS, Placing
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.core.settings.spreading import settings_of_part
from miniqueue.errors import InvalidTopicError
from miniqueue.errors.requests import InvalidGroupError


@pytest.mark.parametrize("number", [0, 1, 9, 10, parts.MAX_PARTS - 1])
def test_the_name_of_a_part_contains_the_topic_and_the_number(number):
    name = parts.part_name(b"orders", number)
    assert parts.parse_part(name) == (b"orders", number)
    assert parts.whole_of(name) == b"orders"
    assert check_topic(name) == name


@pytest.mark.parametrize("name", [b"orders", b"\x1f1", b"o\x1f", b"o\x1f01", b"o\x1f64", b"o\x1f-1", b"o\x1f1\x1f2"])
def test_other_names_are_no_parts(name):
    assert parts.parse_part(name) is None


def test_a_client_can_give_the_name_of_a_part_to_nothing():
    name = parts.part_name(b"orders", 1)
    with pytest.raises(InvalidTopicError):
        check_name(name)
    with pytest.raises(InvalidGroupError):
        check_group(name)
    with pytest.raises(InvalidTopicError):
        check_topic(parts.part_name(b"a b", 1))


def test_dead_letters_of_a_part_are_the_part_of_the_dead_letters():
    part = parts.part_name(b"orders", 3)
    assert TopicSettings().dead_letters_of(part) == parts.part_name(b"orders.dlq", 3)
    assert parts.remove_from(parts.part_name(b"orders.dlq", 3), b".dlq") == part
    assert parts.beside(parts.part_name(b"orders.dlq", 3), b"orders") == part
    assert parts.beside(b"orders.dlq", b"orders") == b"orders"


@pytest.mark.parametrize("shard_count", [2, 3, 8, MAX_SHARDS])
def test_parts_are_in_different_shards_with_their_dead_letters(shard_count):
    placing = Placing(0, shard_count)
    shards = [placing.shard_of(parts.part_name(b"orders", number)) for number in range(shard_count)]
    assert sorted(shards) == [*range(shard_count)]
    assert shards[0] == placing.shard_of(b"orders")
    assert [placing.shard_of(parts.part_name(b"orders.dlq", number)) for number in range(shard_count)] == shards


@pytest.mark.parametrize("number", [0, 1, parts.MAX_PARTS - 1])
@pytest.mark.parametrize("priority", Priority)
def test_ids_contain_the_part(number, priority):
    first = parts.first_partition_of(parts.part_name(b"orders", number))
    for partition in (first, first + MAX_PARTITIONS - 1):
        assert parts.part_of_id(format_message_id(lane(partition, priority), 17)) == number
        assert parts.part_of_id(bytes(DelayedId(partition, 1_700_000_000_000, 17))) == number


@pytest.mark.parametrize("word", [b"", b"x", b"-", b"99999999-1", b"x-1"])
def test_what_is_no_id_is_asked_of_the_first_part(word):
    assert parts.part_of_id(word) == part_of_receipt(word) == 0


def test_receipts_contain_the_part_and_fit_19_digits():
    for number in (0, 1, parts.MAX_PARTS - 1):
        for index in (0, 1, 3 * MAX_PARTITIONS - 1):
            receipt = first_receipt(index, number)
            assert lane_index_of(receipt) == index
            assert part_of_receipt(b"5f0c-%d" % receipt) == part_of_receipt(b"%d" % receipt) == number
            assert len(b"%d" % (receipt + (1 << 45) - 2)) <= 19


def test_ordinary_topics_have_the_receipts_that_they_had():
    assert first_receipt(0, 0) == 1


def test_keys_of_a_part_have_all_of_its_partitions():
    keys = [b"key-%d" % number for number in range(8000)]
    of_part = [key for key in keys if parts.part_for(key, 8) == 5]
    assert 900 < len(of_part) < 1100
    assert min(Counter(partition_for(key, 8) for key in of_part).values()) > 80


def test_the_part_of_a_key_never_changes_between_versions():
    assert [parts.part_for(b"key-%d" % number, 8) for number in range(8)] == PARTS_OF_KEYS


PARTS_OF_KEYS = [7, 7, 2, 1, 4, 0, 7, 6]


def test_limits_are_divided_among_the_parts_and_rounded_up():
    whole = TopicSettings(
        spread=4, max_messages=10, max_bytes=0, max_concurrency=3, max_rate=2.0, key_max_rate=1.0, retention_messages=5
    )
    part = settings_of_part(whole)
    assert part == whole._replace(spread=0, max_messages=3, max_concurrency=1, max_rate=0.5, retention_messages=2)
    assert settings_of_part(TopicSettings(spread=4)) == TopicSettings()


def test_first_partitions_of_parts_leave_room_for_all_partitions():
    firsts = [parts.first_partition_of(parts.part_name(b"t", number)) for number in range(parts.MAX_PARTS)]
    assert firsts[0] == parts.first_partition_of(b"t") == 0
    assert {later - earlier for earlier, later in pairwise(firsts)} == {MAX_PARTITIONS}
    assert firsts[-1] + MAX_PARTITIONS == 1 << 16
