"""The problems of a store: all are counted, the first are kept, each with its key in hex and in words."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from miniqueue.core.cursor.cursor import FRONT_START
from miniqueue.core.cursor.lease import Range
from miniqueue.errors import CorruptionError
from miniqueue.server.process.escaping import escape
from miniqueue.storage.format import dedup, groups, keys, schedules, trace_keys
from miniqueue.storage.format.keys import Parts, Space

#: Maximum number of problems that are kept. A damaged store can have a problem for each key; memory must stay bounded.
MAX_KEPT = 1000


class Problem(NamedTuple):
    """A violated invariant; `key` is None if it does not concern a single key."""

    key: bytes | None
    cause: str

    def __str__(self) -> str:
        """Return the problem as one line."""
        return self.cause if self.key is None else f"key {self.key.hex()} ({words(self.key)}): {self.cause}"


class Problems:
    """The problems of one store.

    Attributes:
      count: number of all problems.
      kept: the first `MAX_KEPT` problems.
    """

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[Problem] = []

    def add(self, cause: str, key: bytes | None = None) -> None:
        """Count a problem, and keep it if there is room."""
        self.count += 1
        if len(self.kept) < MAX_KEPT:
            self.kept.append(Problem(key, cause))


def words(key: bytes) -> str:
    """Return a description of a key."""
    try:
        parts = keys.parse(key)
    except CorruptionError as exc:
        return str(exc)
    return _WORDS[parts.space](parts, key)


def _of_partition(subject: str, parts: Parts) -> str:
    return f"{subject} of topic {parts.topic_id}, partition {parts.partition}"


def _from(subject: str, parts: Parts) -> str:
    return f"{_of_partition(subject, parts)}, from message {parts.order}"


def _record(parts: Parts) -> str:
    high, serial = parts.order >> 64, parts.order & (1 << 64) - 1
    positions = {
        Range.FRONT: f"front, return {FRONT_START - parts.order}",
        Range.DELAYED: f"due at {high} ms, return {serial}",
        Range.BACK: f"back, after message {high - 1}, return {serial}",
    }
    position = positions[Range(parts.range_)] if parts.range_ in positions else f"unknown range {parts.range_}"
    return f"{_of_partition('record', parts)}, {position}"


def _delayed(parts: Parts) -> str:
    due_at_ms, serial = parts.order >> 64, parts.order & (1 << 64) - 1
    return f"{_of_partition('delayed message', parts)}, due at {due_at_ms} ms, serial {serial}"


def _trace(parts: Parts) -> str:
    block, serial = parts.order >> 64, parts.order & (1 << 64) - 1
    origins = {trace_keys.GROUPS: "of groups", trace_keys.SHELF: "of delayed messages"}
    origin = origins.get(parts.partition) or f"of partition {parts.partition}"
    return f"trace of topic {parts.topic_id}, {origin}, block {block}, serial {serial}"


_WORDS: Mapping[Space, Callable[[Parts, bytes], str]] = {
    Space.COMMIT: lambda _parts, _key: "number of the last commit, of format 1",
    Space.NEXT_TOPIC: lambda _parts, _key: "next topic id",
    Space.TOPIC: lambda _parts, key: f"topic {escape(keys.topic_name(key))}",
    Space.PURGE: lambda parts, _key: f"deletion of topic {parts.topic_id}",
    Space.HEAD: lambda parts, _key: _of_partition("next sequence number", parts),
    Space.CURSOR: lambda parts, _key: _of_partition("cursor", parts),
    Space.BITMAP: lambda parts, _key: _from("settled bits", parts),
    Space.GAP: lambda parts, _key: _from("gap", parts),
    Space.SETTINGS: lambda parts, _key: f"settings of topic {parts.topic_id}",
    Space.GROUP: lambda parts, key: f"group {escape(groups.group_name(key))} of topic {parts.topic_id}",
    Space.GROUP_PURGE: lambda parts, _key: f"deletion of group {parts.group} of topic {parts.topic_id}",
    Space.START: lambda parts, _key: _of_partition("start of the log", parts),
    Space.GROWTH: lambda parts, _key: f"growth of topic {parts.topic_id} from {parts.partition} partitions",
    Space.DELAYS: lambda parts, _key: _of_partition("counts of delayed messages", parts),
    Space.DEDUP: lambda parts, _key: f"dedup ids of topic {parts.topic_id}",
    Space.CHUNK: lambda parts, _key: _from("chunk", parts),
    Space.RECORD: lambda parts, _key: _record(parts),
    Space.DELAYED: lambda parts, _key: _delayed(parts),
    Space.TRACES: lambda parts, _key: f"size of the traces of topic {parts.topic_id}",
    Space.TRACE: lambda parts, _key: _trace(parts),
    Space.UNIQUE: lambda parts, key: (
        f"unique key {escape(dedup.unique_key_and_message_id(key)[0])} of topic {parts.topic_id}"
    ),
    Space.TICK: lambda _parts, key: f"due time of schedule {escape(schedules.name_of(key))}",
    Space.TASK: lambda parts, _key: f"task {parts.order}",
    Space.OUTBOX: lambda parts, _key: f"transfer {parts.order} to another shard",
    Space.SENT: lambda _parts, _key: "highest number of transfers to other shards",
    Space.RECEIVED: lambda parts, _key: f"transfers received from shard {parts.order}",
    Space.SCHEDULE: lambda _parts, key: f"schedule {escape(schedules.name_of(key))}",
}
