"""From pages of a log to batches."""

from miniqueue.commands.copying.batches import batches_of
from miniqueue_client import Message, Page
from miniqueue_client.calls.messages import Outgoing

NOW_MS = 1_700_000_000_000


def message(offset, payload=b"x", partition="0", **attributes):
    return Message("t", f"{partition}-{offset}", payload, published_at_ms=NOW_MS, **attributes)


def page(*messages, next_offset=None):
    last = int(messages[-1].id.rpartition("-")[2]) + 1 if messages else 0
    return Page(messages, next_offset or last, 0, 0, 100)


def test_a_page_without_messages_has_no_batches():
    assert list(batches_of("0", page(), NOW_MS)) == []


def test_everything_that_the_publisher_set_is_kept():
    headers = (("a", b"1"), ("a", b"2"))
    [batch] = batches_of(
        "0.high", page(message(7, b"p", "0.high", key=b"k", headers=headers, expires_at_ms=NOW_MS + 1500)), NOW_MS
    )
    assert batch.messages == (Outgoing(b"p", headers, b"k", 1.5),)
    assert batch.priority == "high"
    assert batch.dedup_id == f"copy 0.high-7 {NOW_MS}"
    assert batch.dedup_ids == (batch.dedup_id,)
    assert batch.next == 8


def test_messages_that_have_expired_are_left_out_and_change_no_id():
    [batch] = batches_of("0", page(message(1, expires_at_ms=NOW_MS), message(2)), NOW_MS)
    assert [payload for payload, *_ in batch.messages] == [b"x"]
    assert batch.dedup_id == f"copy 0-1 {NOW_MS}"
    assert batch.dedup_ids == (f"copy 0-2 {NOW_MS}",)
    assert batch.expired_count == 1
    assert batch.next == 3


def test_batches_fit_into_a_command():
    large = [message(n, b"x" * 400_000) for n in range(5)]
    assert [batch.next for batch in batches_of("0", page(*large, next_offset=9), NOW_MS)] == [2, 4, 9]
    many = [message(n, headers=(("a", b"1"),) * 99) for n in range(100)]
    batches = list(batches_of("0", page(*many), NOW_MS))
    assert [batch.next for batch in batches] == [29, 58, 87, 100]
    assert max(sum(len(each.words()) for each in batch.messages) for batch in batches) <= 9_999


def test_a_message_that_alone_exceeds_the_limits_is_a_batch():
    [first, second] = batches_of("0", page(message(0, b"x" * (2 << 20)), message(1)), NOW_MS)
    assert (first.next, second.next) == (1, 2)


def test_a_batch_ends_before_a_gap():
    batches = list(batches_of("0", page(message(3, b"x" * 900_000), message(9, b"x" * 900_000)), NOW_MS))
    assert [batch.next for batch in batches] == [9, 10]


def test_priorities():
    kinds = {partition: next(iter(batches_of(partition, page(message(0)), NOW_MS))) for partition in ("3", "3.low")}
    assert [batch.priority for batch in kinds.values()] == [None, "low"]
