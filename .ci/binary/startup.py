"""The first module of the one-file miniqueue: makes its extension modules importable, then runs it.

A shared library cannot be loaded from a zip, and a directory to unpack it in may be missing, read-only, or mounted
noexec. So it is written to a file in memory, which has no name that another process could open:

    archive ─▶ memfd ─▶ dlopen("/proc/self/fd/N") ─▶ close: the mapping keeps it

Libraries that an extension is linked against are loaded before it. The dynamic linker then finds them by their soname,
and never looks for files.
"""

import os
import sys
from _imp import create_dynamic
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType
from zipimport import zipimporter

from _libraries import load  # defined by launcher.c
from contents import EXTENSIONS, LIBRARIES  # written by build.py

ARCHIVE = "/proc/self/exe"
# Such a file can be mapped, but neither executed nor made executable; kernels before 6.3 do not know the flag.
_NOT_EXECUTABLE = 0x8


class MemoryLibraries:
    """The shared libraries of the archive, each loaded at most once."""

    def __init__(self) -> None:
        self._archive = zipimporter(ARCHIVE)
        self._loaded: set[str] = set()
        self._count = 0

    def load(self, names: Sequence[str]) -> None:
        """Load the libraries with these sonames, in this order."""
        for name in names:
            if name not in self._loaded:
                with self.file(LIBRARIES[name]) as path:
                    load(path)
                self._loaded.add(name)

    @contextmanager
    def file(self, member: str) -> Iterator[str]:
        """Yield the path of a file in memory with the content of a member of the archive."""
        descriptor = _memory_file(member.rpartition("/")[2])
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(self._archive.get_data(f"{ARCHIVE}/{member}"))
            # The linker takes a path that it has seen for the library that it knows, but descriptors are reused.
            self._count += 1
            yield f"/proc/self/fd{'/' * self._count}{descriptor}"
        finally:
            os.close(descriptor)


class MemoryLoader(ExtensionFileLoader):
    """Creates one extension module."""

    def __init__(self, name: str, member: str, needed: Sequence[str], libraries: MemoryLibraries) -> None:
        super().__init__(name, f"{ARCHIVE}/{member}")
        self._member = member
        self._needed = needed
        self._libraries = libraries

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load the libraries that the module needs, then the module."""
        self._libraries.load(self._needed)
        with self._libraries.file(self._member) as path:
            module: ModuleType = create_dynamic(ModuleSpec(spec.name, self, origin=path))
        module.__file__ = self.path
        return module


class MemoryFinder:
    """Finds the extension modules of the archive."""

    def __init__(self) -> None:
        self._libraries = MemoryLibraries()

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Return how to load an extension module; None if the archive contains none of that name."""
        if name not in EXTENSIONS:
            return None
        member, needed = EXTENSIONS[name]
        loader = MemoryLoader(name, member, needed, self._libraries)
        return ModuleSpec(name, loader, origin=loader.path)


def _memory_file(name: str) -> int:
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC | _NOT_EXECUTABLE)
    except OSError:
        return os.memfd_create(name, os.MFD_CLOEXEC)


def main() -> None:
    """Run miniqueue, and exit with its code."""
    sys.argv = sys.orig_argv
    sys.meta_path.insert(0, MemoryFinder())
    from miniqueue.__main__ import main as run  # noqa: PLC0415 - it imports extension modules

    sys.exit(run())
