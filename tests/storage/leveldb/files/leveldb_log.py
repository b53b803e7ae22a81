"""Write LevelDB logs, for tests; the writer's half of `log_tail`, after LevelDB's `log_writer.cc`."""

import struct

from miniqueue.storage.leveldb.files.crc32c import masked_crc32c
from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, HEADER


def record(kind: int, content: bytes) -> bytes:
    """One physical record."""
    checksum = masked_crc32c(bytes([kind]) + content)
    return HEADER.pack(checksum, len(content), kind) + content


def batch(sequence: int, size_bytes: int, fill: bytes = b"p") -> bytes:
    """The content of a log record that is `size_bytes` long."""
    return struct.pack("<QI", sequence, 1) + fill * (size_bytes - 12)


def log_of(*batches: bytes) -> tuple[bytes, list[int]]:
    """The log with these batches, and the offset of each."""
    log, offsets = bytearray(), []
    for content in batches:
        _pad_block(log)
        offsets.append(len(log))
        _append(log, content)
    return bytes(log), offsets


def _append(log: bytearray, content: bytes) -> None:
    is_first = True
    while is_first or content:
        _pad_block(log)
        room = BLOCK_BYTES - len(log) % BLOCK_BYTES - HEADER.size
        piece, content = content[:room], content[room:]
        kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[is_first, not content]
        log += record(kind, piece)
        is_first = False


def _pad_block(log: bytearray) -> None:
    room = BLOCK_BYTES - len(log) % BLOCK_BYTES
    if room < HEADER.size:
        log += bytes(room)
