"""Which shard has a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.message.slots import SLOT_COUNT, slot_of
from miniqueue.core.settings.placing import MAX_SHARDS, WHOLE, Placing

NAMES = st.binary(min_size=1, max_size=30)
COUNTS = st.integers(1, MAX_SHARDS)


@given(NAMES, COUNTS)
def test_a_topic_is_in_the_shard_with_its_slot(topic, count):
    placing = Placing(0, count)
    if not topic.endswith(b".dlq"):
        assert slot_of(topic) in placing.slots_of(placing.shard_of(topic))


@given(NAMES, COUNTS, st.integers(1, 3))
def test_dead_letters_are_where_their_topic_is(topic, count, depth):
    placing = Placing(0, count)
    assert placing.shard_of(topic + b".dlq" * depth) == placing.shard_of(topic)


@given(NAMES, NAMES, COUNTS)
def test_topics_with_equal_tags_are_together(one, other, count):
    placing = Placing(0, count)
    one, other = (name.replace(b"{", b"").removesuffix(b".dlq") for name in (one, other))
    assert placing.shard_of(b"{eu}" + one) == placing.shard_of(b"{eu}" + other)


@given(NAMES, COUNTS)
def test_exactly_one_shard_has_a_topic(topic, count):
    assert [Placing(number, count).has(topic) for number in range(count)].count(True) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 64])
def test_the_slots_of_the_shards_are_all_slots_in_order(count):
    placing = Placing(0, count)
    slots = [slot for number in range(count) for slot in placing.slots_of(number)]
    assert slots == list(range(SLOT_COUNT))
    sizes = {len(placing.slots_of(number)) for number in range(count)}
    assert max(sizes) - min(sizes) <= 1


def test_a_broker_without_shards_has_every_topic():
    assert WHOLE.has(b"orders")
    assert WHOLE.slots_of(0) == range(SLOT_COUNT)


def test_numbers_of_different_shards_differ():
    numbers = {Placing(number, 3).next_number(1_000) for number in range(3)}

    assert numbers == {1_000, 1_001, 1_002}
    assert WHOLE.next_number(1_000) == 1_000
