"""The space that a store keeps: when it says that there is room, and when the ballast is there."""

import errno
import os
from collections import namedtuple

import pytest

from miniqueue.storage.leveldb.reserve import BALLAST_FILE_NAME, Reserve, ReserveOptions

KIB = 1024
MIB = 1024 * KIB
OPTIONS = ReserveOptions(min_free_bytes=8 * MIB, ballast_bytes=4 * MIB)
#: The mark, and a quarter of it.
RESUME_BYTES = 10 * MIB

Statvfs = namedtuple("Statvfs", "f_bavail f_frsize")


class Disk:
    """A disk of which `free_bytes` are free while there is no ballast."""

    def __init__(self, directory) -> None:
        self.ballast = directory / BALLAST_FILE_NAME
        self.free_bytes = 100 * MIB

    def statvfs(self, _path) -> Statvfs:
        taken = self.ballast.stat().st_blocks * 512 if self.ballast.exists() else 0
        return Statvfs((self.free_bytes - taken) // 512, 512)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    disk = Disk(tmp_path)
    monkeypatch.setattr(os, "statvfs", disk.statvfs)
    return disk


def test_the_first_look_lays_a_ballast_that_takes_its_space(disk, tmp_path):
    assert Reserve(tmp_path, OPTIONS).look(is_full=False).is_enough
    found = disk.ballast.stat()
    assert (found.st_size, found.st_mode & 0o777) == (4 * MIB, 0o600)
    assert found.st_blocks * 512 >= 4 * MIB


def test_there_is_room_down_to_the_mark(disk, tmp_path):
    reserve = Reserve(tmp_path, OPTIONS)
    disk.free_bytes = 8 * MIB + 4 * MIB
    assert reserve.look(is_full=False).is_enough
    disk.free_bytes -= 512
    assert reserve.look(is_full=False) == (False, 8 * MIB - 512)


def test_after_a_full_disk_it_takes_a_quarter_more_to_have_room_again(disk, tmp_path):
    reserve = Reserve(tmp_path, OPTIONS)
    reserve.look(is_full=False)
    disk.free_bytes = RESUME_BYTES + 4 * MIB - 512
    assert not reserve.look(is_full=True).is_enough
    disk.free_bytes += 512
    assert reserve.look(is_full=True).is_enough


def test_the_ballast_is_laid_again_only_when_there_is_room_for_it_too(disk, tmp_path):
    reserve = Reserve(tmp_path, OPTIONS)
    reserve.look(is_full=False)
    assert reserve.release()
    assert not disk.ballast.exists()
    disk.free_bytes = RESUME_BYTES + 4 * MIB - 512
    assert not reserve.look(is_full=True).is_enough
    assert not disk.ballast.exists()
    disk.free_bytes += 512
    assert reserve.look(is_full=True).is_enough
    assert disk.ballast.stat().st_size == 4 * MIB


def test_giving_back_what_is_not_there_frees_nothing(tmp_path):
    assert not Reserve(tmp_path, OPTIONS).release()


def test_without_a_reserve_there_is_always_room_until_the_disk_was_full(disk, tmp_path):
    reserve = Reserve(tmp_path, ReserveOptions())
    disk.free_bytes = 0
    assert reserve.look(is_full=False).is_enough
    assert not reserve.look(is_full=True).is_enough
    disk.free_bytes = MIB
    assert reserve.look(is_full=True).is_enough
    assert not disk.ballast.exists()


@pytest.mark.parametrize("found_bytes", [1, 4 * MIB, 64 * MIB])
def test_a_ballast_that_is_found_becomes_as_large_as_it_should_be(disk, tmp_path, found_bytes):
    """One of the right size may be a copy full of holes."""
    disk.ballast.touch()
    os.truncate(disk.ballast, found_bytes)
    assert Reserve(tmp_path, OPTIONS).look(is_full=False).is_enough
    found = disk.ballast.stat()
    assert found.st_size == 4 * MIB
    assert found.st_blocks * 512 >= 4 * MIB


def test_a_ballast_that_nobody_wants_any_more_is_removed(disk, tmp_path):
    Reserve(tmp_path, OPTIONS).look(is_full=False)
    assert Reserve(tmp_path, ReserveOptions()).look(is_full=False).is_enough
    assert not disk.ballast.exists()


def test_a_ballast_that_somebody_removed_is_laid_again(disk, tmp_path):
    reserve = Reserve(tmp_path, OPTIONS)
    reserve.look(is_full=False)
    disk.ballast.unlink()
    assert reserve.look(is_full=False).is_enough
    assert disk.ballast.exists()


@pytest.mark.usefixtures("disk")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_has_no_room_for_the_ballast_after_all_is_full(tmp_path, monkeypatch, number):
    reserve = Reserve(tmp_path, OPTIONS)
    monkeypatch.setattr(os, "posix_fallocate", raising(number))
    assert not reserve.look(is_full=False).is_enough
    assert not (tmp_path / BALLAST_FILE_NAME).exists()


@pytest.mark.usefixtures("disk")
def test_a_ballast_that_cannot_be_laid_for_another_reason_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", raising(errno.EFBIG))
    with pytest.raises(OSError, match="too large"):
        Reserve(tmp_path, OPTIONS).look(is_full=False)


def raising(number: int):
    def fail(*_args):
        raise OSError(number, os.strerror(number))

    return fail
