"""Act out a power cut: from what a process did to its files to what the disk may hold afterwards.

    process with powercut.c ──journal──► Disk.replay ──► Disk.cut ──► a directory as found after the cut

What may be left of a file or a directory, `unsynced` says. A process that starts again starts from that directory:
all of it is durable then. LevelDB's own LOG is left out; it is written through stdio, which the library does not see,
and nothing depends on it.
"""

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.durability.crash.unsynced import Directory, File, Mode, Node

SOURCE = Path(__file__).with_name("powercut.c")

_ENTRY = struct.Struct("<ciQQII")
_IGNORED = {"LOG", "LOG.old"}


def build_library(directory: Path) -> Path:
    """Compile the library to preload."""
    library = directory / "powercut.so"
    command = [
        "gcc",
        "-O2",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        str(library),
        str(SOURCE),
        "-ldl",
        "-pthread",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return library


def variables(library: Path, root: Path, journal: Path, *, cut_at: int, slow_us: int = 0) -> dict[str, str]:
    """Return the environment for a process that is to be followed.

    Args:
      library: from `build_library`.
      root: the directory to follow.
      journal: where to write what happens.
      cut_at: the call at which the process dies; 0: never.
      slow_us: how long the sync of a directory takes at least.
    """
    return {
        "LD_PRELOAD": str(library),
        "POWERCUT_ROOT": str(root),
        "POWERCUT_JOURNAL": str(journal),
        "POWERCUT_AT": str(cut_at),
        "POWERCUT_SLOW_US": str(slow_us),
    }


class Entry(NamedTuple):
    """One call of the process; what `a` is depends on the call, see powercut.c."""

    op: str
    fd: int
    a: int
    path: str
    content: bytes  # bytes written, or the second path


def read_journal(journal: bytes) -> Iterator[Entry]:
    """Yield the entries; the last one may be cut short, and was never reported then."""
    offset = 0
    while len(journal) - offset >= _ENTRY.size:
        op, fd, a, _b, path_size, content_size = _ENTRY.unpack_from(journal, offset)
        path_end = offset + _ENTRY.size + path_size
        if path_end + content_size > len(journal):
            return
        path = os.fsdecode(journal[offset + _ENTRY.size : path_end])
        yield Entry(op.decode(), fd, a, path, journal[path_end : path_end + content_size])
        offset = path_end + content_size


class Disk:
    """Everything below a directory.

    Args:
      root: where the directory is.
      tree: what is in it, all of it durable.
    """

    def __init__(self, root: Path, tree: Directory) -> None:
        self.tree = tree
        self._root = root.resolve()
        self._files: dict[int, Node] = {}

    @classmethod
    def load(cls, root: Path) -> "Disk":
        """Read the directory `root`, which no process changes meanwhile."""
        return cls(root, _load(root))

    def replay(self, journal: bytes) -> None:
        """Do what a process did."""
        for number, entry in enumerate(read_journal(journal)):
            self.do(number, entry)

    def cut(self, mode: Mode, random: Random, into: Path | None = None) -> None:
        """Make a directory, by default the disk's own, what a power cut may leave of it now."""
        directory = into or self._root
        for path in directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        _store(self.tree, directory, mode, random)

    def do(self, number: int, entry: Entry) -> None:
        """Do what the process did in its call `number`, counted from 0."""
        match entry.op:
            case "o":
                self._open(number, entry)
            case "c":
                self._files.pop(entry.fd, None)
            case "d":
                self._files[entry.a] = self._files[entry.fd]
            case "s":
                self._files[entry.fd].sync(entry.a)
            case "w":
                self._file(entry.fd).write(number, entry.a, entry.content)
            case "t":
                self._file(entry.fd).write(number, entry.a, None)
            case "a":
                if entry.a > len(self._file(entry.fd).content()):
                    self._file(entry.fd).write(number, entry.a, None)
            case "m" | "u":
                parent, name = self._place(entry.path)
                parent.name(number, name, Directory() if entry.op == "m" else None)
            case "r" | "l":
                self._rename(number, entry)
            case _:
                raise NotImplementedError(f"the process did what cannot be followed: {entry}")

    def _open(self, number: int, entry: Entry) -> None:
        parent, name = self._place(entry.path)
        node = parent.entries.get(name) if name else parent
        if node is None:
            node = File()
            parent.name(number, name, node)
        elif entry.a & os.O_TRUNC and isinstance(node, File):
            node.write(number, 0, None)
        self._files[entry.fd] = node

    def _rename(self, number: int, entry: Entry) -> None:
        (parent, name), (new_parent, new_name) = self._place(entry.path), self._place(os.fsdecode(entry.content))
        if name in _IGNORED:
            return
        node = parent.entries[name]
        if entry.op == "r":
            parent.name(number, name, None)
        new_parent.name(number, new_name, node)

    def _file(self, fd: int) -> File:
        node = self._files[fd]
        assert isinstance(node, File)
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        """Return the directory that a path is in, and its name there; the root has none."""
        parts = Path(os.path.normpath(path)).relative_to(self._root).parts
        directory = self.tree
        for part in parts[:-1]:
            child = directory.entries[part]
            assert isinstance(child, Directory)
            directory = child
        return directory, parts[-1] if parts else ""


def _load(path: Path) -> Directory:
    return Directory(
        {
            child.name: _load(child) if child.is_dir() else File(child.read_bytes())
            for child in path.iterdir()
            if child.name not in _IGNORED
        }
    )


def _store(directory: Directory, path: Path, mode: Mode, random: Random) -> None:
    for name, node in directory.after_cut(mode, random).items():
        if isinstance(node, Directory):
            (path / name).mkdir(mode=0o700)
            _store(node, path / name, mode, random)
        else:
            (path / name).write_bytes(node.after_cut(mode, random))
