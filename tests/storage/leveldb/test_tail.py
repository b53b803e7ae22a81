"""Opening a store whose log was damaged: what is set aside, what is refused, what passes."""

import os
import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.set_aside import SetAside
from tests.storage.leveldb.directories import BATCH_COUNT, fill, fingerprint, keys_up_to, open_and_close


@pytest.mark.parametrize("tail", [b"\xff" * 4096, Random(1).randbytes(20_000)])
def test_garbage_behind_the_log_is_set_aside_and_reported(tmp_path, tail):
    log = fill(tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole + tail)
    pairs, set_aside = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT)
    copy = tmp_path / "lost" / f"{log.name}.1"
    assert set_aside == (SetAside(log, offset=len(whole), size_bytes=len(tail), copy=copy),)
    assert copy.read_bytes() == whole + tail
    assert open_and_close(tmp_path)[1] == ()


def test_last_batch_that_does_not_match_its_checksum_is_set_aside(tmp_path):
    log = fill(tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole[:-100] + bytes(100))
    pairs, ((cut),) = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT - 1)
    assert cut.copy.read_bytes() == whole[:-100] + bytes(100)
    assert cut.offset + cut.size_bytes == len(whole)


def test_earlier_copies_are_kept(tmp_path):
    log = fill(tmp_path)
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / f"{log.name}.1").write_text("earlier")
    log.write_bytes(log.read_bytes() + b"\xff" * 1000)
    _, (cut,) = open_and_close(tmp_path)
    assert cut.copy.name == f"{log.name}.2"
    assert (tmp_path / "lost" / f"{log.name}.1").read_text() == "earlier"


def test_flipped_bit_in_the_middle_is_refused_with_file_and_offset_and_nothing_is_touched(tmp_path):
    log = fill(tmp_path)
    content = bytearray(log.read_bytes())
    content[30_000] ^= 1
    log.write_bytes(content)
    before = fingerprint(tmp_path)
    with pytest.raises(CorruptionError, match=rf"{log}: damaged at offset (2\d{{4}}), \d+ bytes, before sound data"):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_torn_tail_of_a_log_that_is_not_the_newest_is_refused(tmp_path):
    log = fill(tmp_path)
    log.write_bytes(log.read_bytes() + b"\xff" * 100)
    shutil.copy(log, log.with_name("999999.log"))
    with pytest.raises(CorruptionError, match=str(log)):
        open_and_close(tmp_path)


def test_short_tail_is_left_to_leveldb_and_reported(tmp_path):
    log = fill(tmp_path)
    os.truncate(log, log.stat().st_size - 100)
    size_bytes = log.stat().st_size
    pairs, ((unfinished),) = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT - 1)
    assert unfinished.offset + unfinished.size_bytes == size_bytes
    assert unfinished.copy is None
    assert not (tmp_path / "lost").exists()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_changed_byte_of_the_log_costs_more_than_the_last_batch_in_silence(place, change):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        log = fill(path, value_bytes=900)
        content = bytearray(log.read_bytes())
        content[place % len(content)] ^= change
        log.write_bytes(content)
        outcome: object
        try:
            outcome = [key for key, _ in open_and_close(path)[0]]
        except CorruptionError as refusal:
            outcome = str(refusal).startswith(f"{log}: damaged at offset ")
        assert outcome in (True, keys_up_to(BATCH_COUNT), keys_up_to(BATCH_COUNT - 1))
