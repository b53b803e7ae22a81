"""The library sees what a process does to its files, and the replay keeps exactly what was synced."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from random import Random

import pytest

from tests.acceptance.tools import needs
from tests.durability.crash.powercut import Disk, build_library, read_journal, variables
from tests.durability.crash.unsynced import PAGE_BYTES, Directory, File, Mode

pytestmark = [needs("gcc"), pytest.mark.slow]


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    return build_library(tmp_path_factory.mktemp("powercut"))


class Machine:
    """Runs programs in a directory that survives them only as far as they have synced it."""

    def __init__(self, library: Path, directory: Path) -> None:
        self.root = directory / "disk"
        self.root.mkdir()
        self._journal = directory / "journal"
        self._library = library

    def run(self, program: str, cut_at: int = 0) -> int:
        """Run a program, with `root` as its directory; return its exit code."""
        self._journal.unlink(missing_ok=True)
        self.disk = Disk.load(self.root)
        code = "import os, shutil, ctypes, mmap\n" + textwrap.dedent(program)
        env = variables(self._library, self.root, self._journal, cut_at=cut_at)
        return subprocess.run([sys.executable, "-c", code], cwd=self.root, env=env, check=False).returncode

    def replay(self) -> None:
        self.disk.replay(self.journal())

    def after_cut(self) -> dict[str, bytes]:
        """Return the files that are there after a cut in which nothing is kept that was not synced."""
        self.replay()
        self.disk.cut(Mode.DROP, Random(0))
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def journal(self) -> bytes:
        return self._journal.read_bytes()

    def calls(self) -> str:
        return "".join(entry.op for entry in read_journal(self.journal()))


@pytest.fixture
def machine(library, tmp_path) -> Machine:
    return Machine(library, tmp_path)


SYNC = """
    def sync(path):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
"""


def test_only_what_was_synced_is_there_after_a_cut(machine):
    assert (
        machine.run("""
        with open("a", "wb") as file:
            file.write(b"synced ")
            file.flush()
            os.fdatasync(file.fileno())
            file.write(b"not synced")
    """)
        == 0
    )
    assert (machine.root / "a").read_bytes() == b"synced not synced"
    assert machine.after_cut() == {"a": b"synced "}


def test_every_way_to_write_is_seen(machine):
    machine.run("""
        fd = os.open("a", os.O_RDWR | os.O_CREAT)
        os.write(fd, b"0123456789")
        os.pwrite(fd, b"ab", 2)
        os.writev(fd, [b"x", b"yz"])
        os.ftruncate(fd, 12)
        os.posix_fallocate(fd, 0, 14)
        other = os.open(os.getcwd() + "/a", os.O_WRONLY | os.O_APPEND)
        os.write(other, b"end")
        os.fsync(fd)
        shutil.copyfile("a", "b")
        with open("b", "rb+") as copy:
            os.fsync(copy.fileno())
        os.truncate("b", 3)
        with open("b", "rb") as copy:
            os.fsync(copy.fileno())
    """)
    expected = b"01ab456789xy\0\0end"
    assert machine.after_cut() == {"a": expected, "b": expected[:3]}


NAMES = (
    SYNC
    + """
    os.mkdir("d")
    for name in ("d/moved", "d/removed", "d/linked"):
        with open(name, "wb") as file:
            file.write(name.encode())
        sync(name)
    sync("d")
    sync(".")
    os.rename("d/moved", "d/new")
    os.unlink("d/removed")
    os.link("d/linked", "d/link")
"""
)


def test_new_names_stay_in_the_modes_that_are_not_strict(machine):
    machine.run(NAMES)
    assert machine.after_cut() == {"d/new": b"d/moved", "d/linked": b"d/linked", "d/link": b"d/linked"}


def test_of_new_names_strict_keeps_the_first_few_that_were_not_synced(machine):
    machine.run(NAMES)
    machine.replay()
    directory = machine.disk.tree.entries["d"]
    assert isinstance(directory, Directory)
    states = {frozenset(directory.after_cut(Mode.STRICT, Random(seed))) for seed in range(60)}
    assert states == {
        frozenset({"moved", "removed", "linked"}),
        frozenset({"new", "removed", "linked"}),
        frozenset({"new", "linked"}),
        frozenset({"new", "linked", "link"}),
    }


def test_a_new_directory_is_gone_with_all_in_it_until_its_own_directory_is_synced(machine):
    machine.run(
        SYNC
        + """
    os.mkdir("d")
    with open("d/a", "wb") as file:
        file.write(b"a")
    sync("d/a")
    sync("d")
    """
    )
    machine.replay()
    states = {frozenset(machine.disk.tree.after_cut(Mode.STRICT, Random(seed))) for seed in range(20)}
    assert states == {frozenset(), frozenset({"d"})}


def test_the_process_dies_at_the_call_it_is_told_to(machine):
    program = """
        fd = os.open("a", os.O_RDWR | os.O_CREAT)
        for n in range(10):
            os.write(fd, b"%d" % n)
            os.fsync(fd)
    """
    assert machine.run(program, cut_at=6) == -signal.SIGKILL
    assert machine.calls() == "owsws"
    assert machine.after_cut() == {"a": b"01"}


def test_a_writable_mapping_is_refused(machine):
    machine.run("""
        with open("a", "wb+") as file:
            file.write(bytes(4096))
            file.flush()
            mmap.mmap(file.fileno(), 4096)
    """)
    with pytest.raises(NotImplementedError):
        machine.after_cut()


def test_files_elsewhere_are_not_followed(machine, tmp_path):
    machine.run(f"""
        with open({str(tmp_path / "elsewhere")!r}, "wb") as file:
            file.write(b"x")
    """)
    assert machine.calls() == ""


# --- what may be left of a file ---------------------------------------------------------------------------------


def contents(file: File, mode: Mode) -> set[bytes]:
    return {file.after_cut(mode, Random(seed)) for seed in range(300)}


def grown_file() -> File:
    file = File(b"ab")
    file.write(0, 2, b"cd")
    file.write(1, 4, b"e")
    return file


def test_drop_and_strict_keep_what_was_synced():
    assert contents(grown_file(), Mode.DROP) == contents(grown_file(), Mode.STRICT) == {b"ab"}


def test_tear_keeps_any_first_part():
    assert contents(grown_file(), Mode.TEAR) == {b"ab", b"abc", b"abcd", b"abcde"}


def test_zero_keeps_the_length():
    assert contents(grown_file(), Mode.ZERO) == {b"ab\0\0\0", b"abc\0\0", b"abcd\0", b"abcde"}


def test_pages_are_kept_in_any_order():
    file = File()
    file.write(0, 0, b"a" * PAGE_BYTES + b"b" * PAGE_BYTES)
    assert bytes(PAGE_BYTES) + b"b" * PAGE_BYTES in contents(file, Mode.TEAR)


def test_a_sync_covers_what_was_done_before_it_began():
    file = grown_file()
    file.sync(covered=1)
    assert contents(file, Mode.DROP) == {b"abcd"}
    assert file.content() == b"abcde"


def test_a_file_that_was_cut_short_may_be_long_after_the_cut():
    file = File(b"abc")
    file.write(0, 1, None)
    assert contents(file, Mode.DROP) == {b"abc"}
    assert contents(file, Mode.TEAR) == {b"a", b"abc"}


def test_the_last_entry_of_a_journal_may_be_torn(machine):
    machine.run("os.mkdir('a'); os.mkdir('b')")
    whole = machine.journal()
    assert [len(list(read_journal(whole[:size]))) for size in (len(whole), len(whole) - 1, 5, 0)] == [2, 1, 0, 0]
