"""Messages that a group is not to be handed: whose time is over, or that are for another group, wherever they wait.

    over at      what the attributes say, or else, in a topic with a time to live, so long after the publish
    LOG          o o o o l l o f f …    taken run by run: what is over together, what is live, what is foreign
    others       o │ l │ o …            one at a time

Only what is at the head of its range is looked at. What is foreign is over for this group from the start. It is the
cursor's other hand, as `purging` is.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import accumulate, groupby, islice, pairwise, repeat
from math import inf

from miniqueue.core import purging
from miniqueue.core.attributes import expires_at_ms, is_for
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.keyed import KeyedReader
from miniqueue.core.lease import ChunkLease, ChunkProgress, Lease, Range
from miniqueue.core.message import Chunk, Record
from miniqueue.core.tracing import Kind


class Fate(Enum):
    """What is to become of a message that a group would be handed next."""

    LIVE = "handed out"
    OVER = "expired"
    FOREIGN = "left to the group that it is for"


_RETURNED = Range.FRONT, Range.DELAYED, Range.BACK


def over_at_ms(attributes: bytes, published_at_ms: int, ttl_ms: int, group: bytes) -> float:
    """Return when a message is over for a group: since 1970, 0 when it is for another one, or inf for never.

    Args:
      attributes: of the message, encoded.
      published_at_ms: when it was committed.
      ttl_ms: how long the topic keeps messages that do not say; 0 for ever.
      group: the name of the group.
    """
    if not is_for(attributes, group):
        return 0
    return expires_at_ms(attributes) or (published_at_ms + ttl_ms if ttl_ms else inf)


def parted(cursor: GroupCursor, lease: Lease, now_ms: int, ttl_ms: int, group: bytes) -> Iterator[tuple[Lease, Fate]]:
    """Cut a lease where messages of different fates meet; return the parts, and their fates."""
    if lease.attributes is None:
        yield lease, _fate_without(lease.published_at_ms, now_ms, ttl_ms)
        return
    fates = _fates(lease.attributes, lease.published_at_ms, now_ms, ttl_ms, group)
    runs = [(fate, sum(1 for _ in run)) for fate, run in groupby(fates)]
    parts = [lease] if len(runs) == 1 else _cut(cursor, lease, [count for _, count in runs])
    yield from zip(parts, (fate for fate, _ in runs), strict=True)


def is_foreign(lease: Lease, group: bytes) -> bool:
    """Return whether messages of one fate are for another group."""
    return lease.attributes is not None and not is_for(lease.attributes[0], group)


def drop_log(cursor: GroupCursor, lease: Lease, kind: Kind, group: bytes) -> None:
    """Drop a lease of the log; what is for another group is skipped, as if it had never been there."""
    if lease.attributes is None:
        return cursor.drop(lease, kind)
    runs = [(is_own, sum(1 for _ in run)) for is_own, run in groupby(is_for(each, group) for each in lease.attributes)]
    parts = [lease] if len(runs) == 1 else _cut(cursor, lease, [count for _, count in runs])
    for part, (is_own, count) in zip(parts, runs, strict=True):
        cursor.skipped_count += 0 if is_own else count
        cursor.drop(part, kind if is_own else None)
    return None


def _cut(cursor: GroupCursor, lease: Lease, counts: list[int]) -> list[Lease]:
    """Put leases of so many messages each in the place of one."""
    assert isinstance(lease, ChunkLease)  # the only kind with more than one message
    cursor._revoke(lease)
    stops = accumulate(counts, initial=lease.receipt)
    parts: list[Lease] = [lease.part(start, stop) for start, stop in pairwise(stops)]
    cursor._leases |= {part.receipt: part for part in parts}
    return parts


def take_over(cursor: GroupCursor, now_ms: int, ttl_ms: int, group: bytes, max_count: int) -> Lease | None:
    """Lease messages at the head of a range that are not to be handed out: up to `max_count` of the log, or one else.

    Returns None when there are none; if that cannot be told before something is loaded, `blocked_on` is set.
    """
    cursor.blocked_on = None
    progress = purging.next_in_log(cursor)
    if progress is not None:
        fate, run = next(groupby(_fates_of(progress, max_count, now_ms, ttl_ms, group)))
        if fate is not Fate.LIVE:
            return purging.take_from(cursor, progress, sum(1 for _ in run))
    if cursor.keyed is not None:
        is_over = _known_over_at_ms(cursor.keyed, ttl_ms, group) <= now_ms
        return cursor.keyed.oldest_returned() if is_over else None
    for place in _RETURNED:
        window = cursor.returned[place]
        if (record := window.first) is not None:
            if record_over_at_ms(record, ttl_ms, group) <= now_ms:
                return cursor._take_record(place)
        elif window.is_lacking and cursor.blocked_on is None:
            cursor.blocked_on = place
    return None


def heads(cursor: GroupCursor, ttl_ms: int, group: bytes) -> tuple[float, list[Range]]:
    """Return when the first message is over that is at the head of its range, and of which ranges that is not known.

    Those are not in memory.
    """
    if (keyed := cursor.keyed) is not None:
        progress = keyed.oldest()
        in_log_ms = inf if progress is None else _over_in_chunk(progress.chunk, progress.runs[-1][0], ttl_ms, group)
        is_unknown = progress is None and cursor.log.is_lacking
        return min(in_log_ms, _known_over_at_ms(keyed, ttl_ms, group)), [Range.LOG] if is_unknown else []
    first_ms, unknown = _log_head(cursor, ttl_ms, group)
    for place in _RETURNED:
        window = cursor.returned[place]
        if window.first is not None:
            first_ms = min(first_ms, record_over_at_ms(window.first, ttl_ms, group))
        elif window.is_lacking:
            unknown.append(place)
    return first_ms, unknown


def _log_head(cursor: GroupCursor, ttl_ms: int, group: bytes) -> tuple[float, list[Range]]:
    reading, log = cursor._reading, cursor.log
    if reading is not None and reading.runs:
        return _over_in_chunk(reading.chunk, reading.runs[-1][0], ttl_ms, group), []
    if log.first is not None:
        return chunk_over_at_ms(cursor, log.first, ttl_ms, group), []
    return inf, [Range.LOG] if log.is_lacking else []


def _known_over_at_ms(keyed: KeyedReader, ttl_ms: int, group: bytes) -> float:
    """Return when a message is over that came back, where keys matter: that which would be dropped first."""
    known = None if keyed.is_draining else keyed.returns.oldest(is_full=keyed.ahead.is_full)
    return inf if known is None or known.record is None else record_over_at_ms(known.record, ttl_ms, group)


def chunk_over_at_ms(cursor: GroupCursor, chunk: Chunk, ttl_ms: int, group: bytes) -> float:
    """Return when the first message is over of a chunk that has not been handed out since the start."""
    settled = cursor._bitmaps.get(chunk.first_seq, 0)
    return _over_in_chunk(chunk, (~settled & (settled + 1)).bit_length() - 1, ttl_ms, group)


def record_over_at_ms(record: Record, ttl_ms: int, group: bytes) -> float:
    """Return when a message is over that came back."""
    return over_at_ms(record.attributes, record.published_at_ms, ttl_ms, group)


def _over_in_chunk(chunk: Chunk, index: int, ttl_ms: int, group: bytes) -> float:
    attributes = b"" if chunk.attributes is None else chunk.attributes[index]
    return over_at_ms(attributes, chunk.committed_at_ms, ttl_ms, group)


def _fates_of(progress: ChunkProgress, max_count: int, now_ms: int, ttl_ms: int, group: bytes) -> Iterator[Fate]:
    """Return the fates of the messages of the next run, as far as `max_count`."""
    chunk, (start, stop) = progress.chunk, progress.runs[-1]
    stop = min(stop, start + max_count)
    if chunk.attributes is None:
        return repeat(_fate_without(chunk.committed_at_ms, now_ms, ttl_ms), stop - start)
    return _fates(islice(chunk.attributes, start, stop), chunk.committed_at_ms, now_ms, ttl_ms, group)


def _fates(attributes: Iterable[bytes], published_at_ms: int, now_ms: int, ttl_ms: int, group: bytes) -> Iterator[Fate]:
    default_ms = published_at_ms + ttl_ms if ttl_ms else inf
    live, over, foreign = Fate.LIVE, Fate.OVER, Fate.FOREIGN
    return (
        foreign if not is_for(each, group) else over if (expires_at_ms(each) or default_ms) <= now_ms else live
        for each in attributes
    )


def _fate_without(published_at_ms: int, now_ms: int, ttl_ms: int) -> Fate:
    """Return the fate of messages that have no attributes."""
    return Fate.OVER if ttl_ms and published_at_ms + ttl_ms <= now_ms else Fate.LIVE
