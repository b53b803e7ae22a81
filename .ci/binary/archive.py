"""The archive that is appended to the program: a zip whose bytes depend on nothing but its members."""

import importlib.util
import io
import marshal
import struct
from collections.abc import Mapping
from types import MappingProxyType
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEVEL = 6
#: A flag in the header of a .pyc: a hash of the source follows, and Python does not check it.
_UNCHECKED_HASH = 0b01


class Archive:
    """Members by name, until they are packed."""

    def __init__(self) -> None:
        self._members: dict[str, bytes] = {}
        self._shared_objects: dict[str, bytes] = {}

    def add(self, name: str, content: bytes) -> None:
        """Add a file as it is."""
        if self._members.setdefault(name, content) != content:
            raise SystemExit(f"two different files are called {name}")

    def add_source(self, name: str, source: bytes) -> None:
        """Compile a Python file, and add that."""
        self.add(f"{name}c", _compiled(name, source))

    def add_shared_object(self, name: str, content: bytes) -> None:
        """Add an extension module or a library."""
        self.add(name, content)
        self._shared_objects[name] = content

    def shared_objects(self) -> Mapping[str, bytes]:
        """Return the extension modules and libraries by name."""
        return MappingProxyType(self._shared_objects)

    def packed(self, offset: int) -> bytes:
        """Return the zip, for a file in which `offset` bytes precede it."""
        file = io.BytesIO()
        file.write(bytes(offset))
        with ZipFile(file, "a") as packed:
            for name, content in sorted(self._members.items()):
                info = ZipInfo(name, _EPOCH)
                info.external_attr = 0o644 << 16
                packed.writestr(info, content, ZIP_DEFLATED, _LEVEL)
        return file.getvalue()[offset:]


def _compiled(name: str, source: bytes) -> bytes:
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    header = importlib.util.MAGIC_NUMBER + struct.pack("<I", _UNCHECKED_HASH) + importlib.util.source_hash(source)
    return header + marshal.dumps(code)
