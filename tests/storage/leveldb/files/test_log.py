"""Which damage of a log is a torn tail, which is corruption, and which is none."""

import plyvel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.storage.leveldb.files.crc32c import crc32c, crc32c_of_each
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, HEADER, Damage, survey
from tests.storage.leveldb.files.leveldb_log import batch, log_of, record

SMALL = [batch(n, 200) for n in range(1, 6)]
LARGE = [batch(1, 200), batch(2, 100_000), batch(3, 200)]  # the second is cut into pieces


def find_damage(log: bytes, *, verify_checksums: bool) -> Damage | None:
    return survey(log, verify_checksums=verify_checksums).damage


def flipped(log: bytes, offset: int) -> bytes:
    return log[:offset] + bytes([log[offset] ^ 0x10]) + log[offset + 1 :]


@pytest.mark.parametrize(
    ("content", "checksum"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_crc32c_agrees_with_the_rfc(content, checksum):
    assert crc32c(content) == checksum


def test_crc32c_of_many_is_that_of_each():
    contents = [bytes(range(n % 256)) * (1 + n // 256) for n in (*range(70), 127, 128, 129, 1000, 32_768, 3, 0)]
    assert crc32c_of_each(contents) == [crc32c(content) for content in contents]


@pytest.mark.parametrize("verify_checksums", [False, True])
@pytest.mark.parametrize("batches", [[], SMALL, LARGE, [batch(n, 32_768 - 7 - 7 + n) for n in range(14)]])
def test_whole_log_has_no_damage(batches, verify_checksums):
    log, _ = log_of(*batches)
    assert find_damage(log, verify_checksums=verify_checksums) is None


@pytest.mark.parametrize("batches", [SMALL, LARGE])
def test_logs_of_leveldb_are_understood(tmp_path, batches):
    database = plyvel.DB(str(tmp_path), create_if_missing=True)
    for content in batches:
        database.put(b"k", content)
    database.close()
    (path,) = tmp_path.glob("*.log")
    log = path.read_bytes()
    assert find_damage(log, verify_checksums=True) is None
    length = int.from_bytes(log[4:6], "little")
    assert log.startswith(record(log[6], log[7 : 7 + length]))


@pytest.mark.parametrize("verify_checksums", [False, True])
@pytest.mark.parametrize("zero_count", range(7))
def test_a_log_may_end_where_no_record_fits_in_its_block_any_more(zero_count, verify_checksums):
    log, offsets = log_of(batch(1, BLOCK_BYTES - HEADER.size - 6))
    found = survey(log + bytes(zero_count), verify_checksums=verify_checksums)
    assert (list(found.batch_offsets), found.end_offset, found.damage) == (offsets, len(log) + zero_count, None)


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_batch_behind_a_message_full_of_what_looks_like_batches_is_found(is_followed):
    lookalike = HEADER.pack(0, 20_000, 1) + (3).to_bytes(8, "little")
    hostile = batch(2, 12) + lookalike * 2000
    log, offsets = log_of(batch(1, 200), hostile, *[batch(3, 200)] * is_followed)
    damage = find_damage(flipped(log, offsets[1] + 20), verify_checksums=True)
    assert damage == Damage(offsets[1], offsets[2] if is_followed else None)


@pytest.mark.parametrize("verify_checksums", [False, True])
@pytest.mark.parametrize("batches", [SMALL[:3], LARGE[:2]])
def test_last_record_cut_short_is_usual(batches, verify_checksums):
    log, offsets = log_of(*batches)
    for end in {*range(offsets[-1], len(log), 997), *range(len(log) - 20, len(log))}:
        assert find_damage(log[:end], verify_checksums=verify_checksums) is None


@pytest.mark.parametrize("size_bytes", [1, 7, 100, 4096, 65_536])
def test_zeroes_at_the_end_are_usual(size_bytes):
    log, _ = log_of(*SMALL)
    assert find_damage(log + bytes(size_bytes), verify_checksums=True) is None


@pytest.mark.parametrize("tail", [b"\xff" * 4096, b"\x01" * 4096, bytes(range(256)) * 16])
def test_garbage_at_the_end_is_a_torn_tail(tail):
    log, _ = log_of(*SMALL)
    assert find_damage(log + tail, verify_checksums=True) == Damage(len(log), None)


@pytest.mark.parametrize("verify_checksums", [False, True])
def test_wrong_order_of_pieces_is_damage(verify_checksums):
    log = record(1, batch(1, 50)) + record(3, b"middle of nothing") + record(1, batch(2, 50))
    assert find_damage(log, verify_checksums=verify_checksums) == Damage(57, 57 + 7 + 17)
    log = record(2, batch(1, 50)) + record(1, batch(2, 50))
    assert find_damage(log, verify_checksums=verify_checksums) is not None


def test_damage_in_the_last_batch_is_a_torn_tail_even_if_more_of_it_is_whole():
    log, offsets = log_of(*LARGE[:2])
    for offset in (offsets[1] + 100, BLOCK_BYTES + 3, BLOCK_BYTES + 100, len(log) - 1):
        assert find_damage(flipped(log, offset), verify_checksums=True) == Damage(offsets[1], None)


def test_zeroes_inside_the_last_batch_are_a_torn_tail():
    log, offsets = log_of(*LARGE[:2])
    log = log[:BLOCK_BYTES] + bytes(len(log) - BLOCK_BYTES)
    assert find_damage(log, verify_checksums=False) == Damage(offsets[1], None)


@pytest.mark.parametrize("batches", [SMALL, LARGE])
def test_damage_in_front_of_a_later_batch_is_corruption(batches):
    log, offsets = log_of(*batches)
    for number, offset in enumerate(offsets[:-1]):
        for place in (offset, offset + 4, offset + 5, offset + 6, offset + 7, offset + 150):
            damage = find_damage(flipped(log, place), verify_checksums=True)
            assert damage == Damage(offset, offsets[number + 1])


def test_wrong_length_that_hides_later_batches_is_found_without_checksums():
    log, offsets = log_of(*SMALL)
    damaged = flipped(log, offsets[2] + 5)  # the record now claims to go on behind the end of the file
    assert find_damage(damaged, verify_checksums=False) == Damage(offsets[2], offsets[3])


def test_zeroed_page_in_front_of_a_later_batch_is_found_without_checksums():
    log, offsets = log_of(*(batch(n, 1000) for n in range(1, 20)))
    damaged = log[: offsets[4]] + bytes(4096) + log[offsets[4] + 4096 :]
    assert find_damage(damaged, verify_checksums=False) == Damage(offsets[4], offsets[9])


def test_batch_of_an_older_log_in_a_torn_tail_does_not_count():
    log, _ = log_of(*(batch(n, 100) for n in range(1_000_000, 1_000_003)))
    tail = b"\xee" * 50 + record(1, batch(17, 300)) + record(1, batch(2**40, 300))
    assert find_damage(log + tail, verify_checksums=True) == Damage(len(log), None)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_never_overlooked_and_never_costs_an_earlier_batch(place, change):
    log, offsets = log_of(*SMALL, *(batch(n, 20_000) for n in range(6, 9)))
    place %= len(log)
    damaged = log[:place] + bytes([log[place] ^ change]) + log[place + 1 :]
    damage = find_damage(damaged, verify_checksums=True)
    batch_offset = max(offset for offset in offsets if offset <= place)
    later = [offset for offset in offsets if offset > place]
    if damage is None:  # it looks cut short: only in the last record, whose length grew
        assert not later
    else:
        assert damage == Damage(batch_offset, later[0] if later else None)
