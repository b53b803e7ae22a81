"""What is no regular file has no place in a store: it is refused by name, and neither followed nor waited for."""

import os
import stat
from pathlib import Path

import pytest

from miniqueue.errors import NotAStoreError
from miniqueue.storage.leveldb.acknowledged import AcknowledgedFile, read_acknowledged
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.marker import check_marker, write_marker
from miniqueue.storage.leveldb.own_files import open_file, read_file, refuse_special_files
from miniqueue.storage.leveldb.reserve import Reserve, ReserveOptions
from miniqueue.storage.leveldb.view import viewed
from tests.storage.leveldb.directories import fill, fingerprint, open_and_close

#: Everything that a start opens by name, whoever opens it; `*` stands for the number that LevelDB gave it.
NAMES = [
    "miniqueue.lock",
    "miniqueue.format",
    "miniqueue.acknowledged",
    "miniqueue.ballast",
    "miniqueue.format.unfinished",
    "db",
    "db/CURRENT",
    "db/MANIFEST-*",
    "db/*.log",
    "db/*.ldb",
    "db/LOCK",
    "db/LOG",
    "lost",
]


def make_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    if path.exists():
        path.rename(elsewhere)
    path.symlink_to(elsewhere)


def make_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mknod(path, stat.S_IFSOCK | 0o600)  # bind() refuses a path as long as those of tests may be


KINDS = {"a symbolic link": make_link, "a FIFO": make_fifo, "a socket": make_socket}


def store_with_tables(directory: Path) -> Path:
    """Make a store that has everything; return its directory."""
    fill(directory, value_bytes=10)
    open_and_close(directory)  # moves the log into a table
    return directory


def place(directory: Path, name: str) -> Path:
    """Return the file in the store that `name` means, or where it would be."""
    return next(directory.glob(name), directory / name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_start_refuses_a_special_file_by_name_and_touches_nothing(tmp_path, name, kind):
    directory = store_with_tables(tmp_path / "deep" / "store")
    path = place(directory, name)
    if path.is_dir():
        path.rename(directory.parent / "elsewhere")
    KINDS[kind](path)
    before = fingerprint(tmp_path)
    with pytest.raises(NotAStoreError) as refused:
        open_and_close(directory)
    assert f"{path}: it is {kind}" in str(refused.value)
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_look_refuses_them_too(tmp_path, kind):
    directory = store_with_tables(tmp_path / "deep" / "store")
    path = place(directory, "db/*.ldb")
    KINDS[kind](path)
    with pytest.raises(NotAStoreError, match=kind), viewed(directory):
        pass


def test_a_link_to_a_store_is_where_the_operator_has_put_it(tmp_path):
    directory = store_with_tables(tmp_path / "store")
    (tmp_path / "link").symlink_to(directory)
    assert open_and_close(tmp_path / "link") == open_and_close(directory)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("miniqueue.lock", StoreLock),
        ("miniqueue.format", check_marker),
        ("miniqueue.format.unfinished", write_marker),
        ("miniqueue.acknowledged", AcknowledgedFile),
        ("miniqueue.acknowledged", read_acknowledged),
        ("miniqueue.ballast", lambda path: Reserve(path, ReserveOptions(ballast_bytes=1)).look(is_full=False)),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_ours_is_opened_through_a_link_or_waited_for(tmp_path, name, use, kind):
    """Also without a look at the directory before: the name may have been changed since."""
    victim = tmp_path / "elsewhere"
    victim.write_bytes(b"precious")
    directory = tmp_path / "deep" / "store"
    directory.mkdir(parents=True)
    if kind == "a symbolic link":
        (directory / name).symlink_to(victim)
    else:
        KINDS[kind](directory / name)
    with pytest.raises(NotAStoreError, match=f"{name}: it is {kind}"):
        use(directory)
    assert victim.read_bytes() == b"precious"


def test_a_device_and_a_directory_are_no_files(tmp_path):
    with pytest.raises(NotAStoreError, match="it is a device"):
        open_file(Path("/dev/null"), os.O_RDWR)
    with pytest.raises(NotAStoreError, match="it is a directory"):
        read_file(tmp_path)


def test_a_file_that_is_made_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        os.close(open_file(tmp_path / "file", os.O_WRONLY | os.O_CREAT))
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_what_mkfs_has_made_at_the_root_of_a_volume_is_passed_over(tmp_path):
    lost = tmp_path / "lost+found"
    lost.mkdir()
    make_fifo(lost / "piece")
    refuse_special_files(tmp_path)
