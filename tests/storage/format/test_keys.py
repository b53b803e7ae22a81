"""Keys: parsed as they were made, ordered as what they stand for, and in no other's range."""

import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.cursor.lease import Range
from miniqueue.storage.format import dedup, delays, keys, log_ends, schedules, trace_keys, transfers

TOPICS = st.integers(0, 3) | st.integers(0, 2**64 - 2)
NUMBERS = st.integers(0, 3) | st.integers(0, 2**32 - 2)
SEQS = st.integers(0, 2**64 - 1)
PLACES = st.sampled_from(Range)
ORDERS = st.integers(0, 2**128 - 1)
NAMES = st.binary(min_size=1, max_size=255)

GOLDEN = {
    "02": keys.NEXT_TOPIC,
    "03666f6f": keys.topic(b"foo"),
    "040000000000000102": keys.purge(0x102),
    "070000000000000102": transfers.outbox(0x102),
    "08": transfers.SENT,
    "0900000102": transfers.received(0x102),
    "10000000000000010200000003": keys.head(0x102, 3),
    "1100000000000001020000000300000004": keys.cursor(0x102, 3, 4),
    "1200000000000001020000000300000004010000000000000506": keys.bitmap(0x102, 3, 4, 0x506),
    "1300000000000001020000000300000004010000000000000506": keys.gap(0x102, 3, 4, 0x506),
    "140000000000000102": keys.settings(0x102),
    "05666f6f": schedules.tick(b"foo"),
    "15000000000000010200000003": delays.delays(0x102, 3),
    "16000000000000010200000000000000070000000000000008": dedup.dedup(0x102, 7, 8),
    "18000000000000010200000003": log_ends.start(0x102, 3),
    "1b000000000000010200000003": log_ends.growth(0x102, 3),
    "1a0000000000000102": trace_keys.traces(0x102),
    "20000000000000010200000003010000000000000506": keys.chunk(0x102, 3, 0x506),
    "21000000000000010200000003000000040200000000000000070000000000000008": keys.record(
        0x102, 3, 4, Range.BACK, 7 << 64 | 8
    ),
    "2200000000000001020000000300000000000000070000000000000008": delays.delayed(0x102, 3, 7, 8),
    "2400000000000001020000000300000000000000070000000000000008": trace_keys.trace(0x102, 3, 7, 8),
    "2300000000000001020003666f6f302d37": dedup.unique(0x102, b"foo", b"0-7"),
    "30666f6f": schedules.schedule(b"foo"),
}


@pytest.mark.parametrize(("expected", "key"), GOLDEN.items())
def test_bytes_of_format_version_4(expected, key):
    assert key.hex() == expected


@given(NAMES)
def test_topic_names_round_trip(name):
    key = keys.topic(name)
    assert keys.topic_name(key) == name
    assert contains(keys.topics(), key)


@given(TOPICS, NUMBERS, NUMBERS, SEQS, PLACES, ORDERS)
def test_numbers_round_trip_and_keys_are_in_their_own_range(topic, partition, group, seq, place, order):
    assert keys.purge_topic_id(keys.purge(topic)) == topic
    assert keys.bitmap_first_seq(keys.bitmap(topic, partition, group, seq)) == seq
    assert keys.bitmap_first_seq(keys.gap(topic, partition, group, seq)) == seq
    assert keys.chunk_first_seq(keys.chunk(topic, partition, seq)) == seq
    assert keys.record_order(keys.record(topic, partition, group, place, order)) == order
    assert contains(keys.purges(), keys.purge(topic))
    assert contains(keys.bitmaps(topic, partition, group), keys.bitmap(topic, partition, group, seq))
    assert contains(keys.gaps(topic, partition, group), keys.gap(topic, partition, group, seq))
    record = keys.record(topic, partition, group, place, order)
    assert contains(keys.records(topic, partition, group, place, 0), record)
    assert contains(keys.chunks(topic, partition, 0), keys.chunk(topic, partition, seq))
    assert contains(keys.chunks(topic, partition, seq), keys.chunk(topic, partition, seq))


@given(SEQS, SEQS)
def test_chunks_are_ordered_by_sequence_number(one, other):
    assert (one < other) == (keys.chunk(1, 0, one) < keys.chunk(1, 0, other))
    assert (one < other) == (keys.bitmap(1, 0, 0, one) < keys.bitmap(1, 0, 0, other))


@given(SEQS, SEQS, SEQS, SEQS)
def test_delayed_messages_are_ordered_by_due_time_then_serial(due, other_due, serial, other_serial):
    key, other = delays.delayed(1, 0, due, serial), delays.delayed(1, 0, other_due, other_serial)
    assert delays.due_at_ms_and_serial(key) == (due, serial)
    assert (key < other) == ((due, serial) < (other_due, other_serial))
    assert contains(delays.due_from(1, 0, (due, serial)), other) == ((due, serial) <= (other_due, other_serial))


@given(SEQS, SEQS, SEQS, SEQS)
def test_dedup_ids_are_ordered_by_the_time_of_their_commit(at_ms, other_at_ms, serial, other_serial):
    key, other = dedup.dedup(1, at_ms, serial), dedup.dedup(1, other_at_ms, other_serial)
    assert dedup.committed_at_ms_and_serial(key) == (at_ms, serial)
    assert (key < other) == ((at_ms, serial) < (other_at_ms, other_serial))


@given(NAMES)
def test_a_unique_key_is_parsed_as_it_was_made(name):
    assert dedup.unique_key_and_message_id(dedup.unique(1, name, b"0-7")) == (name, b"0-7")


@given(NAMES, NAMES)
def test_schedules_are_ordered_by_name(name, other):
    assert schedules.name_of(schedules.schedule(name)) == schedules.name_of(schedules.tick(name)) == name
    assert contains(schedules.schedules(after=name), schedules.schedule(other)) == (other > name)


@given(st.integers(0, 2**53), st.integers(0, 2**53), SEQS, SEQS)
def test_traces_are_ordered_by_block_then_serial(block, other_block, serial, other_serial):
    key, other = trace_keys.trace(1, 0, block, serial), trace_keys.trace(1, 0, other_block, other_serial)
    assert trace_keys.block_of(key) == block
    assert (key < other) == ((block, serial) < (other_block, other_serial))
    assert contains(trace_keys.block_range(1, 0, block), other) == (block == other_block)


@given(PLACES, ORDERS, ORDERS)
def test_records_are_ordered_by_order_and_a_range_begins_where_it_is_told(place, one, other):
    key = keys.record(1, 0, 0, place, other)
    assert (one < other) == (keys.record(1, 0, 0, place, one) < key)
    assert contains(keys.records(1, 0, 0, place, one), key) == (other >= one)


#: Makes a key of each kind from the same numbers.
MAKERS = {
    "next topic": lambda n: keys.NEXT_TOPIC,
    "topic": lambda n: keys.topic(n.name),
    "purge": lambda n: keys.purge(n.topic),
    "head": lambda n: keys.head(n.topic, n.partition),
    "cursor": lambda n: keys.cursor(n.topic, n.partition, n.group),
    "bitmap": lambda n: keys.bitmap(n.topic, n.partition, n.group, n.seq),
    "gap": lambda n: keys.gap(n.topic, n.partition, n.group, n.seq),
    "settings": lambda n: keys.settings(n.topic),
    "chunk": lambda n: keys.chunk(n.topic, n.partition, n.seq),
    "record": lambda n: keys.record(n.topic, n.partition, n.group, n.place, n.order),
    "delays": lambda n: delays.delays(n.topic, n.partition),
    "delayed": lambda n: delays.delayed(n.topic, n.partition, n.order >> 64, n.seq),
    "dedup": lambda n: dedup.dedup(n.topic, n.order >> 64, n.seq),
    "traces": lambda n: trace_keys.traces(n.topic),
    "trace": lambda n: trace_keys.trace(n.topic, n.partition, n.order >> 64, n.seq),
    "unique": lambda n: dedup.unique(n.topic, n.name, b"%d-%d" % (n.partition, n.seq)),
    "tick": lambda n: schedules.tick(n.name),
    "schedule": lambda n: schedules.schedule(n.name),
}
#: For each range: how it is made, and which kinds and numbers it is for.
RANGES = {
    "topics": (lambda n: [keys.topics()], {"topic"}, ()),
    "purges": (lambda n: [keys.purges()], {"purge"}, ()),
    "bitmaps": (lambda n: [keys.bitmaps(n.topic, n.partition, n.group)], {"bitmap"}, ("topic", "partition", "group")),
    "chunks": (lambda n: [keys.chunks(n.topic, n.partition, 0)], {"chunk"}, ("topic", "partition")),
    "gaps": (lambda n: [keys.gaps(n.topic, n.partition, n.group)], {"gap"}, ("topic", "partition", "group")),
    "records": (
        lambda n: [keys.records(n.topic, n.partition, n.group, n.place, 0)],
        {"record"},
        ("topic", "partition", "group", "place"),
    ),
    "all delayed": (
        lambda n: [delays.due_from(n.topic, n.partition, (0, 0))],
        {"delayed"},
        ("topic", "partition"),
    ),
    "dedups": (lambda n: [dedup.dedups(n.topic)], {"dedup"}, ("topic",)),
    "all traces": (lambda n: [trace_keys.all_traces()], {"traces"}, ()),
    "blocks": (lambda n: [trace_keys.blocks(n.topic, n.partition, 0)], {"trace"}, ("topic", "partition")),
    "uniques": (lambda n: [dedup.unique_range(n.topic)], {"unique"}, ("topic",)),
    "claims": (lambda n: [dedup.claims(n.topic, n.name)], {"unique"}, ("topic", "name")),
    "ticks": (lambda n: [schedules.ticks()], {"tick"}, ()),
    "schedules": (lambda n: [schedules.schedules()], {"schedule"}, ()),
    "all of a topic": (
        lambda n: keys.of_topic(n.topic),
        MAKERS.keys() - {"next topic", "topic", "purge", "tick", "schedule"},
        ("topic",),
    ),
}


class Numbers(NamedTuple):
    name: bytes
    topic: int
    partition: int
    group: int
    seq: int
    place: Range
    order: int


ANY_NUMBERS = st.builds(
    Numbers,
    # names made of the bytes of other keys are the ones that could collide
    NAMES | TOPICS.map(lambda topic: struct.pack(">QI", topic, 0)),
    TOPICS,
    NUMBERS,
    NUMBERS,
    SEQS,
    PLACES,
    ORDERS,
)


def contains(key_range: keys.KeyRange, key: bytes) -> bool:
    return key_range[0] <= key < key_range[1]


@pytest.mark.parametrize("kind", RANGES)
@given(ANY_NUMBERS, ANY_NUMBERS, st.sampled_from(sorted(MAKERS)))
def test_a_range_holds_its_own_keys_and_no_other(kind, own, other, key_kind):
    make_ranges, kinds, fields = RANGES[kind]
    is_own = key_kind in kinds and all(getattr(own, field) == getattr(other, field) for field in fields)
    key = MAKERS[key_kind](other)
    assert any(contains(key_range, key) for key_range in make_ranges(own)) == is_own


@given(ANY_NUMBERS, ANY_NUMBERS, st.sampled_from(sorted(MAKERS)), st.sampled_from(sorted(MAKERS)))
def test_no_key_of_a_kind_is_a_key_of_another(one, other, one_kind, other_kind):
    if one_kind != other_kind:
        assert MAKERS[one_kind](one) != MAKERS[other_kind](other)
