"""What a log says of its changes, also one of which the checksums have not been verified yet."""

import struct

import pytest

from miniqueue.storage.leveldb.files.log import survey
from miniqueue.storage.leveldb.files.log_changes import Changes, changes_of, last_change_of
from tests.storage.leveldb.files.leveldb_log import log_of


def batch(sequence, *changes):
    """The content of a batch; a change is a key, or a key and a value."""
    content = struct.pack("<QI", sequence, len(changes))
    for key, *value in changes:
        content += bytes([len(value), len(key)]) + key + b"".join(bytes([len(v)]) + v for v in value)
    return content


def surveyed(*batches):
    log, _ = log_of(*batches)
    return log, survey(log, verify_checksums=False)


def test_changes_go_from_the_first_batch_to_the_end_of_the_last():
    log = surveyed(batch(1, (b"a", b"1"), (b"b", b"2")), batch(3, (b"a", b"3"), (b"b",)), batch(5, (b"c",)), batch(6))
    assert changes_of(*log) == Changes(first=1, next=6)


def test_log_without_batches_has_no_changes():
    assert changes_of(*surveyed()) is None
    assert last_change_of(*surveyed()) == 0


@pytest.mark.parametrize("nonsense", [b"", b"short"])
def test_batch_too_short_for_its_numbers_counts_for_nothing(nonsense):
    assert changes_of(*surveyed(batch(1, (b"a", b"1")), nonsense)) == Changes(1, 2)


def test_last_batch_with_a_wrong_checksum_counts_for_nothing():
    whole, _ = surveyed(batch(1, (b"a", b"1")))
    log, _ = surveyed(batch(1, (b"a", b"1")), batch(2, (b"a", b"2"), (b"b", b"2")))
    for offset in range(len(whole), len(log)):
        damaged = log[:offset] + bytes([log[offset] ^ 1]) + log[offset + 1 :]
        assert changes_of(damaged, survey(damaged, verify_checksums=False)) == Changes(1, 2)


def test_first_batch_that_is_torn_tells_nothing_of_the_changes():
    log, _ = log_of(batch(1, (b"a", b"1")))
    log = log[:10] + b"\xff" + log[11:]
    assert changes_of(log, survey(log, verify_checksums=False)) is None


def test_last_change_is_known_when_the_first_batch_is_torn():
    log, _ = log_of(batch(1, (b"a", b"1")), batch(2, (b"a", b"2")))
    log = log[:10] + b"\xff" + log[11:]
    assert last_change_of(log, survey(log, verify_checksums=False)) == 2


def test_batch_in_many_pieces_is_read():
    log = surveyed(batch(1, (b"a", b"x" * 100)), batch(2, *[(b"k", b"v" * 120)] * 900, (b"l",)))
    assert changes_of(*log) == Changes(1, 2 + 901)
