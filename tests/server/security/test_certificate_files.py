"""A crash while certificates are written leaves whole files only, and keys are never readable by others."""

import os
import stat
import subprocess
import sys

import pytest

from miniqueue.server.security.private_files import FileToWrite, write_files


class Crash(BaseException):
    """The process ends here."""


def test_a_failure_before_the_renames_leaves_the_old_files(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        write_files([FileToWrite(target, b"new"), FileToWrite(tmp_path / "none" / "b", b"new")])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_a_crash_between_the_renames_leaves_whole_files(tmp_path, monkeypatch):
    replace = os.replace

    def replace_once(source, target):
        if target.name == "b":
            raise Crash
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_once)
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(Crash):
        write_files([FileToWrite(tmp_path / "a", b"new"), FileToWrite(tmp_path / "b", b"new")])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"new", "b": b"old"}


def test_a_file_is_private_before_its_first_byte_whatever_the_umask(tmp_path):
    """Another process would see the modes that are recorded whenever a file is created or written."""
    program = """
import os, sys
from pathlib import Path
from miniqueue.server.security.private_files import FileToWrite, write_files
directory = Path(sys.argv[1])
os.umask(0)
def watch(event, _):
    if event in ("open", "os.rename", "os.chmod"):
        for path in directory.iterdir():
            print(oct(path.stat().st_mode & 0o777))
sys.addaudithook(watch)
write_files([FileToWrite(directory / "key", b"secret")])
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"0o600"}


def test_the_mode_does_not_depend_on_the_umask(tmp_path):
    old = os.umask(0o077)
    try:
        write_files([FileToWrite(tmp_path / "cert", b"public", 0o644)])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "cert").stat().st_mode) == 0o644
