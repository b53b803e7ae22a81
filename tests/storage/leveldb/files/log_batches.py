"""Read the batches of a sound LevelDB log, for tests; the reader's half of `leveldb_log`."""

from miniqueue.storage.leveldb.files.log import BLOCK_BYTES, HEADER


def batches_of(log: bytes) -> list[bytes]:
    """Return the content of every batch."""
    batches: list[bytes] = []
    offset = 0
    while offset + HEADER.size <= len(log):
        if BLOCK_BYTES - offset % BLOCK_BYTES < HEADER.size:
            offset += BLOCK_BYTES - offset % BLOCK_BYTES
            continue
        _, length, kind = HEADER.unpack_from(log, offset)
        offset += HEADER.size + length
        piece = log[offset - length : offset]
        if kind in (1, 2):
            batches.append(piece)
        else:
            batches[-1] += piece
    return batches
