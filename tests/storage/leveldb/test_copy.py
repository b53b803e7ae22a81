"""A store made of the content of another is whole, private and durable, or it is not there."""

import os
from pathlib import Path

import pytest

from miniqueue.errors import CorruptionError, DisconnectedError, NotEmptyError, StorageError
from miniqueue.storage.leveldb import copy
from miniqueue.storage.leveldb.acknowledged import read_acknowledged
from miniqueue.storage.leveldb.copy import write_shards, write_store
from miniqueue.storage.leveldb.directory_sync import log_number
from miniqueue.storage.leveldb.replica import refuse_other_content
from miniqueue.storage.leveldb.view import viewed
from tests.storage.leveldb.directories import open_and_close

PAIRS = [(b"%05d" % number, bytes([number % 251]) * 1000) for number in range(3000)]


def test_it_holds_exactly_the_pairs(tmp_path):
    assert write_store(tmp_path / "new", iter(PAIRS)) == len(PAIRS)
    assert open_and_close(tmp_path / "new") == (PAIRS, ())


@pytest.mark.parametrize("count", [1, 10, len(PAIRS), 20 * len(PAIRS)])
def test_last_change_is_recorded(tmp_path, count):
    write_store(tmp_path, ((b"%05d" % number, b"v" * 1000) for number in range(count)))
    last = read_acknowledged(tmp_path).last
    assert last is not None
    assert last.change == count
    assert last.log == log_number(max((tmp_path / "db").glob("*.log")))


@pytest.mark.parametrize("damage", ["flipped", "shortened", "emptied"])
@pytest.mark.parametrize("count", [10, len(PAIRS)])
def test_damage_of_its_log_is_no_torn_tail(tmp_path, count, damage):
    write_store(tmp_path, PAIRS[:count])
    log = max((tmp_path / "db").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[50] ^= 1
    log.write_bytes({"flipped": bytes(content), "shortened": content[:-1], "emptied": b""}[damage])
    with pytest.raises(CorruptionError, match=r"\.log"), viewed(tmp_path):
        pass
    with pytest.raises(CorruptionError, match=r"\.log"):
        open_and_close(tmp_path)


def test_it_may_be_empty_and_its_parents_missing(tmp_path):
    assert write_store(tmp_path / "a" / "b", []) == 0
    assert open_and_close(tmp_path / "a" / "b") == ([], ())


def test_an_empty_directory_is_taken(tmp_path):
    write_store(tmp_path, PAIRS[:1])
    assert open_and_close(tmp_path)[0] == PAIRS[:1]


def test_nobody_else_may_read_it(tmp_path):
    write_store(tmp_path / "new", PAIRS)
    modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "new", *(tmp_path / "new").rglob("*"))}
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items())


def test_every_file_is_synced_before_the_name_is_given(tmp_path, monkeypatch):
    synced: list[Path] = []

    def sync_path(path):
        assert path == tmp_path or not (tmp_path / "new").exists()
        synced.append(path)

    monkeypatch.setattr(copy, "sync_path", sync_path)
    write_store(tmp_path / "new", PAIRS)
    names = {path.relative_to(tmp_path / "new") for path in (tmp_path / "new").rglob("*")}
    assert {Path(*path.relative_to(tmp_path).parts[1:]) for path in synced if path != tmp_path} >= names
    assert synced[-1] == tmp_path


@pytest.mark.parametrize("make", [lambda path: path.write_text("x"), lambda path: (path / "sub").mkdir(parents=True)])
def test_what_is_there_is_not_touched(tmp_path, make):
    target = tmp_path / "taken"
    make(target)
    with pytest.raises(NotEmptyError, match="taken is not an empty directory"):
        write_store(target, PAIRS)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_source_that_breaks_off_leaves_nothing(tmp_path):
    def breaking_off():
        yield from PAIRS
        raise DisconnectedError

    with pytest.raises(DisconnectedError):
        write_store(tmp_path / "new", breaking_off())
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_an_error_of_the_store(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=os.strerror(20)):
        write_store(tmp_path / "file" / "new", PAIRS)


def test_a_mount_point_is_refused_before_anything_is_read():
    def read():
        raise AssertionError("it was read")
        yield

    for make in (
        lambda directory: write_store(directory, read()),
        lambda directory: write_shards(directory, 2, read()),
        refuse_other_content,
    ):
        with pytest.raises(StorageError, match=r"^/proc is a mount point; choose a directory in it$"):
            make(Path("/proc"))


@pytest.mark.parametrize("is_there", [False, True], ids=["which is missing", "which is empty"])
def test_a_link_to_a_directory_is_followed(is_there, tmp_path):
    disk, links = tmp_path / "disk", tmp_path / "links"
    links.mkdir()
    (disk / "new").mkdir(parents=True) if is_there else disk.mkdir()
    (links / "link").symlink_to("../disk/new")
    write_store(links / "link", PAIRS[:3])
    with viewed(disk / "new") as view:
        assert list(view.pairs()) == PAIRS[:3]
    assert [path.name for path in (*disk.iterdir(), *links.iterdir())] == ["new", "link"]
