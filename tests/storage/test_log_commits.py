"""What a log says of its commits, also one of which the checksums have not been verified yet."""

import struct

import pytest

from miniqueue.storage import keys, records
from miniqueue.storage.log_commits import Changes, changes_of, last_commit_of
from miniqueue.storage.log_tail import survey
from tests.storage.leveldb_log import log_of


def batch(sequence, *changes):
    """The content of a batch; a change is a key, or a key and a value."""
    content = struct.pack("<QI", sequence, len(changes))
    for key, *value in changes:
        content += bytes([len(value), len(key)]) + key + b"".join(bytes([len(v)]) + v for v in value)
    return content


def commit(number):
    return (keys.COMMIT, records.encode_number(number))


def surveyed(*batches):
    log, _ = log_of(*batches)
    return log, survey(log, verify_checksums=False)


def test_last_commit_is_that_of_the_last_batch_that_has_one():
    log = surveyed(batch(1, (b"a", b"1"), commit(7)), batch(3, commit(8), (b"b",)), batch(5, (b"c",)), batch(6))
    assert last_commit_of(*log) == 8
    assert changes_of(*log) == Changes(first=1, next=6)


def test_log_without_commits_has_none():
    assert last_commit_of(*surveyed()) is None
    assert changes_of(*surveyed()) is None
    assert last_commit_of(*surveyed(batch(1, (b"a", keys.COMMIT)))) is None


@pytest.mark.parametrize("nonsense", [b"", b"short", struct.pack("<QI", 3, 1) + b"\x01\xff"])
def test_batch_that_makes_no_sense_counts_for_nothing(nonsense):
    log = surveyed(batch(1, commit(7)), nonsense)
    assert last_commit_of(*log) == 7
    changes_of(*log)


def test_commit_with_a_wrong_checksum_counts_for_nothing():
    damaged = batch(3, (keys.COMMIT, records.encode_number(8)[:-1] + b"\x00"))
    assert last_commit_of(*surveyed(batch(1, commit(7)), damaged)) == 7


def test_first_batch_that_is_torn_tells_nothing_of_the_changes():
    log, _ = log_of(batch(1, commit(7)))
    log = log[:10] + b"\xff" + log[11:]
    assert changes_of(log, survey(log, verify_checksums=False)) is None


def test_batch_in_many_pieces_is_read():
    log = surveyed(batch(1, (b"a", b"x" * 100)), batch(2, *[(b"k", b"v" * 120)] * 900, commit(9)))
    assert last_commit_of(*log) == 9
    assert changes_of(*log) == Changes(1, 2 + 901)
