"""Extension modules, the shared libraries that they need, and the glibc that all of them require."""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from archive import Archive

#: The newest glibc that a part may require: that of Debian 12.
GLIBC = (2, 36)
_SYSTEM = Path("/usr/lib/x86_64-linux-gnu")
# Parts of glibc, which the program itself is linked against.
_GLIBC_SONAMES = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "ld-linux-x86-64.so.2"}


class Libraries:
    """Extension modules by their name, and libraries by their soname."""

    def __init__(self) -> None:
        self._extensions: dict[str, bytes] = {}
        self._libraries: dict[str, bytes] = {}
        self._from_debian: set[Path] = set()

    def add_extension(self, module: str, content: bytes, package_of: Path | None = None) -> None:
        """Add the extension module with that dotted name; `package_of` is a file of a Debian package."""
        self._extensions[module] = stripped(content)
        if package_of is not None:
            self._from_debian.add(package_of)

    def add_library(self, soname: str, content: bytes) -> None:
        """Add a library that a wheel contains."""
        self._libraries[soname] = content

    def add_to(self, archive: Archive) -> None:
        """Add all of them to the archive, and the module `contents` that says where they are."""
        extensions = {}
        for module, content in sorted(self._extensions.items()):
            member = f"lib/{module}.so"
            extensions[module] = (member, tuple(dict.fromkeys(self._needed_by(content))))
            archive.add_shared_object(member, content)
        for soname, content in sorted(self._libraries.items()):
            archive.add_shared_object(f"lib/{soname}", content)
        libraries = {soname: f"lib/{soname}" for soname in sorted(self._libraries)}
        archive.add_source("contents.py", f"EXTENSIONS = {extensions!r}\nLIBRARIES = {libraries!r}\n".encode())

    def debian_packages(self) -> list[str]:
        """Return the names of the Debian packages that files are from."""
        return sorted({package_with(path) for path in self._from_debian})

    def _needed_by(self, content: bytes) -> Iterator[str]:
        """Yield sonames, each after those that it needs itself."""
        for soname in needed(content):
            if soname not in _GLIBC_SONAMES:
                yield from self._needed_by(self._library(soname))
                yield soname

    def _library(self, soname: str) -> bytes:
        if soname not in self._libraries:
            path = (_SYSTEM / soname).resolve()
            self._libraries[soname] = path.read_bytes()
            self._from_debian.add(path)
        return self._libraries[soname]


def package_with(path: Path) -> str:
    """Return the name of the Debian package that a file is from."""
    candidates = [path, Path(str(path).removeprefix("/usr"))]  # the package may know the file by its old place
    for candidate in candidates:
        found = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.partition(":")[0]
    raise SystemExit(f"{path}: no Debian package has this file")


def needed(content: bytes) -> list[str]:
    """Return the sonames that a shared object names."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", _read_elf(content, "--dynamic"))


def stripped(content: bytes) -> bytes:
    """Return a shared object without symbols for debuggers."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        subprocess.run(["strip", "--strip-debug", "--enable-deterministic-archives", file.name], check=True)
        return Path(file.name).read_bytes()


def check_glibc(objects: Mapping[str, bytes]) -> str:
    """Return the glibc that all objects together require; exit if one requires more than `GLIBC`."""
    versions = {name: _glibc_of(content) for name, content in objects.items()}
    newer = [f"{name} ({_dotted(version)})" for name, version in versions.items() if version > GLIBC]
    if newer:
        raise SystemExit(f"glibc {_dotted(GLIBC)} is not new enough for {', '.join(newer)}")
    return _dotted(max(versions.values()))


def _glibc_of(content: bytes) -> tuple[int, ...]:
    found = re.findall(r"\bGLIBC_([0-9.]+)", _read_elf(content, "--version-info"))
    return max((tuple(map(int, version.split("."))) for version in found), default=(0,))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _read_elf(content: bytes, option: str) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        command = ["readelf", "--wide", option, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
