"""Checks the traces of a store: each can be read, and its topic says how much there is of them."""

from typing import NamedTuple

from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage import trace_keys, trace_records
from miniqueue.storage.keys import Parts
from miniqueue.storage.trace_records import TraceState
from miniqueue.tools.problems import Problems


class _Found(NamedTuple):
    """What a walk has found of one topic: bytes of keys and values, and the highest serial number."""

    size_bytes: int = 0
    last_serial: int = -1


class TraceAudit:
    """The traces of all topics, for one walk: first what is said of them, then what there is."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._states: dict[int, TraceState | None] = {}  # None for one that could not be read
        self._found: dict[int, _Found] = {}

    def take_state(self, topic_id: int, key: bytes, value: bytes) -> None:
        """Take what is said of a topic."""
        self._states[topic_id] = None
        try:
            self._states[topic_id] = trace_records.decode_traces(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)

    def take(self, parts: Parts, key: bytes, value: bytes) -> None:
        """Take what a commit did."""
        block, serial = parts.order >> 64, parts.order & (1 << 64) - 1
        found = self._found.get(parts.topic_id, _Found())
        size_bytes = found.size_bytes + len(key) + len(value)
        self._found[parts.topic_id] = _Found(size_bytes, max(found.last_serial, serial))
        try:
            trace = trace_records.decode_trace(block, value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)
            return
        stop_seq = (block + 1) << trace_keys.BLOCK_BITS
        if any(not 0 < event.message_count <= stop_seq - event.start_seq for event in trace.events):
            self._problems.add("is of messages that are not in its block", key)

    def finish(self) -> None:
        """Compare the two, when everything was taken."""
        for topic_id in self._states.keys() | self._found.keys():
            said, found = self._states.get(topic_id, TraceState()), self._found.get(topic_id, _Found())
            if said is not None and (said.size_bytes != found.size_bytes or found.last_serial >= said.serial):
                cause = f"says {said.size_bytes} bytes up to number {said.serial}, but there are {found.size_bytes}"
                self._problems.add(f"{cause} up to number {found.last_serial}", trace_keys.traces(topic_id))
