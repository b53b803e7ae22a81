"""Messages that a group must not receive: expired ones, and foreign ones, which are for another group.

    expires at   the time in the attributes; without one, the publish time plus the time to live (TTL) of the topic
    LOG          o o o o l l o f f …    taken in runs of the same fate: o expired, l live, f foreign
    others       o │ l │ o …            taken one at a time

Only the head of each range is inspected: an expired message that follows a live one stays until that one is removed.
For this group a foreign message has expired from the start.

An expired message that is still there keeps its unique key if it expired by the TTL of the topic. If it has its own
TTL, the key is free as soon as that has elapsed, unless the message is leased (`core.log.unique_keys`).
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import accumulate, groupby, islice, pairwise, repeat
from math import inf

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import RETURN_RANGES, ChunkLease, ChunkProgress, Lease, Range, trailing_ones
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.group import removing
from miniqueue.core.keyed.reader import KeyedReader, keyed_of
from miniqueue.core.message.attributes import expires_at_ms, is_for
from miniqueue.core.message.message import Chunk, Record

#: Maximum number of messages with attributes that are taken together: to inspect each costs much.
MAX_WITH_ATTRIBUTES = 512


class Fate(Enum):
    """What happens to the message that a group would receive next."""

    LIVE = "delivered"
    EXPIRED = "expired"
    FOREIGN = "left to the group that it is for"


def expiry_ms(attributes: bytes, published_at_ms: int, ttl_ms: int, group: bytes) -> float:
    """Return when a message expires for a group, in ms since 1970: 0 if it is for another group, inf for never.

    Args:
      attributes: the encoded attributes of the message.
      published_at_ms: the time of its commit.
      ttl_ms: the time to live of messages without one of their own; 0: they do not expire.
      group: the name of the group.
    """
    if not is_for(attributes, group):
        return 0
    return expires_at_ms(attributes) or (published_at_ms + ttl_ms if ttl_ms else inf)


def cut_by_fate(
    cursor: GroupCursor, lease: Lease, now_ms: int, ttl_ms: int, group: bytes
) -> Iterator[tuple[Lease, Fate]]:
    """Cut a lease into runs of messages of the same fate; return the parts with their fates."""
    if lease.attributes is None:
        yield lease, _fate_without(lease.published_at_ms, now_ms, ttl_ms)
        return
    fates = _fates(lease.attributes, lease.published_at_ms, now_ms, ttl_ms, group)
    runs = [(fate, sum(1 for _ in run)) for fate, run in groupby(fates)]
    parts = [lease] if len(runs) == 1 else _cut(cursor, lease, [count for _, count in runs])
    yield from zip(parts, (fate for fate, _ in runs), strict=True)


def is_foreign(lease: Lease, group: bytes) -> bool:
    """Return whether the messages of a lease, which must have one fate, are for another group."""
    return lease.attributes is not None and not is_for(lease.attributes[0], group)


def drop_log(cursor: GroupCursor, lease: Lease, kind: Kind, group: bytes) -> None:
    """Drop a lease of the log; messages for other groups are skipped, as if the log had never contained them."""
    if lease.attributes is None:
        return cursor.drop(lease, kind)
    runs = [(is_own, sum(1 for _ in run)) for is_own, run in groupby(is_for(each, group) for each in lease.attributes)]
    parts = [lease] if len(runs) == 1 else _cut(cursor, lease, [count for _, count in runs])
    for part, (is_own, _) in zip(parts, runs, strict=True):
        if is_own:
            cursor.drop(part, kind)
        else:
            cursor.skip(part)
    return None


def _cut(cursor: GroupCursor, lease: Lease, counts: list[int]) -> list[Lease]:
    """Replace a lease by leases of these numbers of messages."""
    assert isinstance(lease, ChunkLease)  # the only kind with more than one message
    stops = accumulate(counts, initial=lease.receipt)
    parts: list[Lease] = [lease.part(start, stop) for start, stop in pairwise(stops)]
    cursor.replace_lease(lease, parts)
    return parts


def take_expired(cursor: GroupCursor, now_ms: int, ttl_ms: int, group: bytes, max_count: int) -> Lease | None:
    """Lease messages at the head of a range that must not be delivered.

    Leases up to `max_count` messages of the log, or one returned message. Returns None if there are none, or if a
    range must be loaded first; then `blocked_on` is set.
    """
    cursor.blocked_on = None
    progress = removing.next_in_log(cursor)
    if progress is not None:
        fate, run = next(groupby(_fates_of(progress, max_count, now_ms, ttl_ms, group)))
        if fate is not Fate.LIVE:
            return removing.take_from(cursor, progress, sum(1 for _ in run))
    if (keyed := keyed_of(cursor)) is not None:
        is_expired = _known_expiry_ms(keyed, ttl_ms, group) <= now_ms
        return keyed.oldest_returned() if is_expired else None
    for range_ in RETURN_RANGES:
        window = cursor.returned[range_]
        if (record := window.first) is not None:
            if record_expiry_ms(record, ttl_ms, group) <= now_ms:
                return cursor.take_record(range_)
        elif window.is_lacking and cursor.blocked_on is None:
            cursor.blocked_on = range_
    return None


def next_expiry(cursor: GroupCursor, ttl_ms: int, group: bytes) -> tuple[float, list[Range]]:
    """Return the earliest expiry time at the heads of the ranges, and the ranges that are not loaded."""
    if (keyed := keyed_of(cursor)) is not None:
        progress = keyed.oldest()
        in_log_ms = inf if progress is None else _expiry_in_chunk(progress.chunk, progress.runs[-1][0], ttl_ms, group)
        is_unknown = progress is None and cursor.log.is_lacking
        return min(in_log_ms, _known_expiry_ms(keyed, ttl_ms, group)), [Range.LOG] if is_unknown else []
    first_ms, unknown = _log_head(cursor, ttl_ms, group)
    for range_ in RETURN_RANGES:
        window = cursor.returned[range_]
        if window.first is not None:
            first_ms = min(first_ms, record_expiry_ms(window.first, ttl_ms, group))
        elif window.is_lacking:
            unknown.append(range_)
    return first_ms, unknown


def _log_head(cursor: GroupCursor, ttl_ms: int, group: bytes) -> tuple[float, list[Range]]:
    reading, log = cursor.reading, cursor.log
    if reading is not None and reading.runs:
        return _expiry_in_chunk(reading.chunk, reading.runs[-1][0], ttl_ms, group), []
    if log.first is not None:
        return chunk_expiry_ms(cursor, log.first, ttl_ms, group), []
    return inf, [Range.LOG] if log.is_lacking else []


def _known_expiry_ms(keyed: KeyedReader, ttl_ms: int, group: bytes) -> float:
    """Return when the returned message expires that a reader by key would drop first."""
    known = None if keyed.is_draining else keyed.returns.oldest(is_full=keyed.ahead.is_full)
    return inf if known is None or known.record is None else record_expiry_ms(known.record, ttl_ms, group)


def chunk_expiry_ms(cursor: GroupCursor, chunk: Chunk, ttl_ms: int, group: bytes) -> float:
    """Return when the first unsettled message expires of a chunk that was not opened since the startup."""
    settled = cursor.settled_bits.get(chunk.first_seq, 0)
    return _expiry_in_chunk(chunk, trailing_ones(settled), ttl_ms, group)


def record_expiry_ms(record: Record, ttl_ms: int, group: bytes) -> float:
    """Return when a returned message expires."""
    return expiry_ms(record.attributes, record.published_at_ms, ttl_ms, group)


def _expiry_in_chunk(chunk: Chunk, index: int, ttl_ms: int, group: bytes) -> float:
    attributes = b"" if chunk.attributes is None else chunk.attributes[index]
    return expiry_ms(attributes, chunk.committed_at_ms, ttl_ms, group)


def _fates_of(progress: ChunkProgress, max_count: int, now_ms: int, ttl_ms: int, group: bytes) -> Iterator[Fate]:
    """Return the fates of the first messages of the next run, at most `max_count`."""
    chunk, (start, stop) = progress.chunk, progress.runs[-1]
    stop = min(stop, start + max_count)
    if chunk.attributes is None:
        return repeat(_fate_without(chunk.committed_at_ms, now_ms, ttl_ms), stop - start)
    stop = min(stop, start + MAX_WITH_ATTRIBUTES)
    return _fates(islice(chunk.attributes, start, stop), chunk.committed_at_ms, now_ms, ttl_ms, group)


def _fates(attributes: Iterable[bytes], published_at_ms: int, now_ms: int, ttl_ms: int, group: bytes) -> Iterator[Fate]:
    default_ms = published_at_ms + ttl_ms if ttl_ms else inf
    live, expired, foreign = Fate.LIVE, Fate.EXPIRED, Fate.FOREIGN
    return (
        foreign if not is_for(each, group) else expired if (expires_at_ms(each) or default_ms) <= now_ms else live
        for each in attributes
    )


def _fate_without(published_at_ms: int, now_ms: int, ttl_ms: int) -> Fate:
    """Return the fate of messages without attributes."""
    return Fate.EXPIRED if ttl_ms and published_at_ms + ttl_ms <= now_ms else Fate.LIVE
