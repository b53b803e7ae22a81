"""Opening a store whose manifest was damaged: a torn edit is set aside, everything else is refused."""

from pathlib import Path

import pytest

from miniqueue.errors import CorruptionError
from miniqueue.storage.leveldb.set_aside import SetAside
from tests.storage.leveldb.directories import BATCH_COUNT, fill, fingerprint, keys_up_to, open_and_close
from tests.storage.leveldb.files.leveldb_log import record

#: An edit that says which log is needed, as LevelDB writes it when a table has been made: tag 2, log 99.
EDIT = record(1, bytes([2, 99, 9, 0, 3, 120, 4, 60]))


def manifest_of(store: Path) -> Path:
    return store / "db" / (store / "db" / "CURRENT").read_text().strip()


@pytest.mark.parametrize(
    "tail",
    [EDIT[:10] + bytes(40), EDIT[:-1] + b"\xff"],
    ids=["zeroes in place of its end", "another byte"],
)
def test_an_edit_that_a_power_cut_has_torn_is_set_aside_and_reported(tmp_path, tail):
    fill(tmp_path)
    manifest = manifest_of(tmp_path)
    whole = manifest.read_bytes()
    manifest.write_bytes(whole + tail)
    pairs, set_aside = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT)
    copy = tmp_path / "lost" / f"{manifest.name}.1"
    assert set_aside == (SetAside(manifest, offset=len(whole), size_bytes=len(tail), copy=copy),)
    assert copy.read_bytes() == whole + tail
    assert open_and_close(tmp_path)[1] == ()


def test_torn_log_and_torn_manifest_are_both_set_aside(tmp_path):
    log = fill(tmp_path)
    manifest = manifest_of(tmp_path)
    log.write_bytes(log.read_bytes()[:-100] + bytes(100))
    manifest.write_bytes(manifest.read_bytes() + b"\xff" * 100)
    pairs, set_aside = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT - 1)
    assert [torn.file for torn in set_aside] == [log, manifest]


def test_a_damaged_edit_whose_log_is_gone_was_durable_and_is_refused(tmp_path):
    """Without that edit LevelDB would read the log before it, which is in a table by now, and find nothing."""
    fill(tmp_path)
    manifest = manifest_of(tmp_path)
    content = manifest.read_bytes()
    manifest.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    before = fingerprint(tmp_path)
    with pytest.raises(CorruptionError, match=rf"{manifest}: damaged at offset \d+"):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_damage_in_front_of_a_whole_edit_is_refused(tmp_path):
    fill(tmp_path)
    manifest = manifest_of(tmp_path)
    whole = manifest.read_bytes()
    manifest.write_bytes(whole + EDIT[:-1] + b"\xff" + EDIT)
    before = fingerprint(tmp_path)
    with pytest.raises(CorruptionError, match=rf"{manifest}: damaged at offset {len(whole)}"):
        open_and_close(tmp_path)
    assert fingerprint(tmp_path) == before


def test_an_edit_cut_short_is_accepted_without_a_word(tmp_path):
    fill(tmp_path)
    manifest = manifest_of(tmp_path)
    manifest.write_bytes(manifest.read_bytes() + EDIT[:-3])
    pairs, set_aside = open_and_close(tmp_path)
    assert [key for key, _ in pairs] == keys_up_to(BATCH_COUNT)
    assert set_aside == ()
