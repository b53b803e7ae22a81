"""Ids of publishes: found as long as their time is not over, forgotten in the order of their commits."""

import pytest

from miniqueue.core.log.dedup_window import Batch, DedupWindow, Remembered
from miniqueue.errors import DedupMismatchError

FIRST, SECOND = Remembered(b"a", b"0-1"), Remembered(b"b", b"0-2", 3)


def test_what_is_new_is_found_and_belongs_to_the_next_commit():
    window = DedupWindow()
    window.add(FIRST)
    assert window.find(b"a", oldest_ms=1e15) == FIRST
    assert window.is_new(b"a")
    assert window.is_changed
    assert window.find(b"b", oldest_ms=0) is None


def test_a_commit_takes_what_is_new_and_gives_it_its_time():
    window = DedupWindow()
    window.add(FIRST)
    batch = window.cut(1000)
    assert (batch.committed_at_ms, batch.serial, batch.entries) == (1000, 1, [FIRST])
    assert not window.is_changed
    assert not window.is_new(b"a")
    assert window.find(b"a", oldest_ms=999) == FIRST
    assert window.find(b"a", oldest_ms=1000) is None


def test_ids_are_forgotten_with_their_commits_a_part_at_a_time():
    window = DedupWindow()
    for number in range(4):
        window.add(Remembered(b"a%d" % number, b"0-1"))
        window.add(Remembered(b"b%d" % number, b"0-2"))
        window.cut(1000 + number)
    assert [batch.serial for batch in window.forget(1002, max_count=3)] == [1, 2]
    assert len(window) == 4
    assert [batch.serial for batch in window.forget(1002, max_count=3)] == [3]
    assert window.forget(1002, max_count=3) == []
    assert window.find(b"b3", oldest_ms=1002) == Remembered(b"b3", b"0-2")


def test_an_id_that_was_used_again_stays_when_its_first_use_is_forgotten():
    window = DedupWindow()
    window.add(FIRST)
    window.cut(1000)
    again = Remembered(b"a", b"0-9")
    window.add(again)
    window.cut(2000)
    assert len(window.forget(1500, max_count=10)) == 1
    assert window.find(b"a", oldest_ms=1500) == again
    assert len(window) == 1


def test_what_a_store_has_is_known_and_its_serials_are_not_given_again():
    window = DedupWindow([Batch(7, 1000, [FIRST]), Batch(3, 1001, [SECOND])])
    assert window.find(b"b", oldest_ms=0) == SECOND
    assert not window.is_new(b"b")
    window.add(Remembered(b"c", b"0-3"))
    assert window.cut(1002).serial == 8


def test_where_the_clock_was_set_back_a_batch_stays_until_those_before_it_go():
    window = DedupWindow()
    for dedup_id, at_ms in ((b"a", 5000), (b"b", 1000)):
        window.add(Remembered(dedup_id, b"0-1"))
        window.cut(at_ms)
    assert window.forget(3000, max_count=10) == []
    assert window.find(b"b", oldest_ms=3000) is None
    assert len(window.forget(5000, max_count=10)) == 2


def test_what_was_committed_while_the_clock_was_ahead_has_its_window_from_when_it_was_set_back():
    window = DedupWindow()
    for dedup_id, at_ms in ((b"a", 900_000), (b"b", 900_001), (b"c", 1000)):
        window.add(Remembered(dedup_id, b"0-1"))
        window.cut(at_ms)
    window.see_time(1500)
    assert window.find(b"a", oldest_ms=1499) == Remembered(b"a", b"0-1")
    assert window.find(b"b", oldest_ms=1499) == Remembered(b"b", b"0-1")
    assert window.find(b"a", oldest_ms=1500) is None
    assert [batch.committed_at_ms for batch in window.forget(1500, max_count=10)] == [900_000, 900_001, 1000]
    assert len(window) == 0


@pytest.mark.parametrize("asked", [b"a?digest=1", b"a", b"a?digest="])
@pytest.mark.parametrize("stored", [b"a?digest=1", b"a"])
def test_an_id_is_the_same_with_and_without_its_digest(stored, asked):
    window = DedupWindow()
    window.add(entry := Remembered(stored, b"0-1"))
    assert window.find(asked, oldest_ms=0) == entry
    assert window.is_new(asked)
    window.cut(1000)
    assert not window.is_new(asked)
    assert len(window) == 1


def test_ids_of_an_older_version_that_differ_in_the_digest_only_are_forgotten():
    """They were different ids there; the broker ended with a KeyError when it forgot them."""
    entries = [Remembered(b"u?digest=1", b"0-1"), Remembered(b"u?digest=2", b"0-2")]
    window = DedupWindow([Batch(1, 1000, entries)])
    assert [batch.serial for batch in window.forget(1000, max_count=10)] == [1]
    assert window.find(b"u", oldest_ms=0) is None


def test_an_id_with_another_digest_is_a_mistake_until_the_id_is_forgotten():
    window = DedupWindow([Batch(1, 1000, [Remembered(b"a?digest=1", b"0-1")])])
    with pytest.raises(DedupMismatchError, match="was used for another content"):
        window.find(b"a?digest=2", oldest_ms=999)
    assert window.find(b"a?digest=2", oldest_ms=1000) is None
    window.add(Remembered(b"a?digest=2", b"0-2"))
    window.forget(1000, max_count=1)  # the first publish of the id
    assert window.find(b"a?digest=2", oldest_ms=1000) == Remembered(b"a?digest=2", b"0-2")
