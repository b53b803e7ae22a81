"""Directories as jobs leave them, on a file system that refuses; on one that does not `test_stats.py` has them."""

from typing import NamedTuple

import pytest

from miniqueue.spark.errors import JobFailedError
from miniqueue.spark.jobs import directories


class Refusing(NamedTuple):
    """A file system of Hadoop that deletes nothing, and says so only by what it returns."""

    is_there: bool

    def delete(self, path: str, recursive: bool) -> bool:
        assert (path, recursive) == ("figures/_SUCCESS", True)
        return False

    def exists(self, path: str) -> bool:
        assert path == "figures/_SUCCESS"
        return self.is_there


def delete(monkeypatch, files):
    monkeypatch.setattr(directories, "_file_system", lambda _spark, place: (files, place))
    directories._delete(None, "figures/_SUCCESS")


def test_what_cannot_be_deleted_is_told_and_does_not_stay_beside_what_is_new(monkeypatch):
    with pytest.raises(JobFailedError, match="figures/_SUCCESS: it cannot be deleted"):
        delete(monkeypatch, Refusing(is_there=True))


def test_what_is_gone_already_need_not_be_deleted(monkeypatch):
    delete(monkeypatch, Refusing(is_there=False))
