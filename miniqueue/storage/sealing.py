"""What every stored value has around it: its version in front, its checksum behind. Works on bytes."""

import struct
from typing import Any
from zlib import crc32

from miniqueue.errors import CorruptionError, FormatVersionError

VERSION = 1

_crc = struct.Struct("<I")


def seal(*parts: bytes, version: bytes = b"\x01") -> bytes:
    """Return the value with this body: its version, and a checksum of all."""
    value = b"".join((version, *parts))
    return value + _crc.pack(crc32(value))


def unseal(value: bytes, what: str, version: int = VERSION) -> bytes:
    """Return the body of a value after checking its sum, and that its version is `version` or an older one."""
    if len(value) < 5 or crc32(value[:-4]) != _crc.unpack_from(value, len(value) - 4)[0]:
        raise CorruptionError(f"{what}: checksum does not match")
    if not VERSION <= value[0] <= version:
        raise FormatVersionError(what, value[0], version)
    return value[1:-4]


def unpack(layout: struct.Struct, value: bytes, what: str, version: int = VERSION) -> tuple[Any, ...]:
    """Parse a value of fixed size."""
    body = unseal(value, what, version)
    if len(body) != layout.size:
        raise malformed(what)
    return layout.unpack(body)


def malformed(what: str) -> CorruptionError:
    """Return what to raise of a value whose content is none that was ever written."""
    return CorruptionError(f"{what}: the checksum is right, but the content makes no sense")
