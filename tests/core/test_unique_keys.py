"""Unique keys: what is known of them is newer than the store, and no more than that."""

from miniqueue.core.attributes import Attributes
from miniqueue.core.unique_keys import FREE, UniqueKeys


def gone(*keys: bytes) -> list[bytes]:
    return [Attributes(key=b"k", unique_key=key).encode() for key in keys]


def test_nothing_is_known_of_a_key_that_has_not_changed():
    keys = UniqueKeys()
    assert keys.find(b"a") is None
    assert not keys.changed


def test_what_the_next_commit_writes_and_what_the_last_one_wrote_is_known():
    keys = UniqueKeys()
    keys.put(b"a", b"0-1")
    assert keys.find(b"a") == b"0-1"
    assert keys.is_new(b"a")
    assert dict(keys.cut()) == {b"a": b"0-1"}
    assert not keys.is_new(b"a")
    assert keys.find(b"a") == b"0-1"
    assert dict(keys.cut()) == {}
    assert keys.find(b"a") is None
    assert not keys.writing


def test_keys_of_messages_that_leave_are_free():
    keys = UniqueKeys()
    keys.put(b"a", b"0-1")
    keys.cut()
    keys.free([*gone(b"a", b"b"), b"", Attributes(key=b"c").encode()])
    assert keys.find(b"a") == keys.find(b"b") == FREE
    assert dict(keys.cut()) == {b"a": FREE, b"b": FREE}


def test_a_key_that_is_freed_and_given_again_in_one_commit_belongs_to_the_last():
    keys = UniqueKeys()
    keys.free(gone(b"a"))
    keys.put(b"a", b"0-2")
    assert dict(keys.cut()) == {b"a": b"0-2"}


def test_what_the_store_said_is_known_until_it_is_unnoted_or_changes():
    keys = UniqueKeys()
    keys.note(b"a", b"0-1")
    assert keys.find(b"a") == b"0-1"
    keys.free(gone(b"a"))
    keys.cut()
    keys.cut()
    assert keys.find(b"a") == FREE
    keys.unnote(b"a")
    assert keys.find(b"a") is None
