"""Unique keys: what is known of them is newer than the store, and no more than that."""

from miniqueue.core.log.unique_keys import UniqueKeys
from miniqueue.core.message.attributes import Attributes


def with_keys(*keys: bytes) -> list[bytes]:
    return [Attributes(key=b"k", unique_key=key).encode() for key in keys]


def written(keys: UniqueKeys) -> dict[bytes, dict[bytes, int | None]]:
    return dict(keys.cut())


def test_nothing_is_known_of_a_key_that_has_not_changed():
    keys = UniqueKeys()
    assert keys.find(b"a") is None
    assert not keys.changed


def test_what_the_next_commit_writes_and_what_the_last_two_wrote_is_known():
    keys = UniqueKeys()
    keys.put(b"a", b"0-1", 7)
    assert keys.find(b"a") == {b"0-1": 7}
    assert keys.is_new(b"a", b"0-1")
    assert written(keys) == {b"a": {b"0-1": 7}}
    assert not keys.is_new(b"a", b"0-1")
    assert keys.find(b"a") == {b"0-1": 7}
    assert written(keys) == {}
    assert keys.find(b"a") == {b"0-1": 7}
    assert written(keys) == {}
    assert keys.find(b"a") is None
    assert not keys.writing


def test_what_the_last_commit_wrote_is_newer_than_what_the_one_before_wrote():
    keys = UniqueKeys()
    keys.put(b"a", b"0-1", 7)
    keys.cut()
    keys.free(0, 1, with_keys(b"a"))
    keys.put(b"a", b"0-2", 0)
    keys.cut()
    assert keys.find(b"a") == {b"0-2": 0}


def test_messages_that_leave_lose_their_own_keys_and_whether_another_has_it_the_store_must_say():
    keys = UniqueKeys()
    keys.put(b"a", b"0-1", 0)
    keys.cut()
    keys.free(0, 1, [*with_keys(b"a", b"b"), b"", Attributes(key=b"c").encode(), *with_keys(b"d")])
    assert keys.find(b"a") is keys.find(b"b") is None
    assert written(keys) == {b"a": {b"0-1": None}, b"b": {b"0-2": None}, b"d": {b"0-5": None}}


def test_a_key_that_is_taken_and_given_again_in_one_commit_belongs_to_the_last():
    keys = UniqueKeys()
    keys.free(0, 1, with_keys(b"a"))
    keys.put(b"a", b"0-2", 0)
    keys.take(b"a", b"0-0")
    assert keys.find(b"a") == {b"0-2": 0}
    assert written(keys) == {b"a": {b"0-1": None, b"0-2": 0, b"0-0": None}}


def test_what_the_store_said_is_known_until_it_is_unnoted_or_changes():
    keys = UniqueKeys()
    keys.look(b"a")
    keys.note(b"a", {b"0-1": 0})
    assert keys.find(b"a") == {b"0-1": 0}
    keys.free(0, 1, with_keys(b"a"))
    keys.cut()
    keys.cut()
    assert keys.find(b"a") == {}
    keys.unnote(b"a")
    assert keys.find(b"a") is None


def test_what_has_changed_while_the_store_was_asked_is_newer_than_its_answer():
    keys = UniqueKeys()
    keys.free(0, 1, with_keys(b"a"))
    keys.look(b"a")
    assert keys.find(b"a") is None
    keys.free(0, 2, with_keys(b"a"))
    keys.cut()
    keys.cut()
    keys.note(b"a", {b"0-1": 0, b"0-2": 0, b"0-3": 9})
    assert keys.find(b"a") == {b"0-3": 9}
