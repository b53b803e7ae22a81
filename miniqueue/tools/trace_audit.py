"""Checks the traces of a store: each can be read, of its block, with a number that its topic has given."""

from miniqueue.core.lanes import is_lane
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage import trace_keys, trace_records
from miniqueue.storage.keys import Parts
from miniqueue.storage.trace_keys import BLOCK_BITS
from miniqueue.storage.trace_records import TraceState
from miniqueue.tools.problems import Problems


class TraceAudit:
    """The traces of all topics, for one walk: first what is said of them, then what there is."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._states: dict[int, TraceState | None] = {}  # None for one that could not be read
        self._last_serials: dict[int, int] = {}

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
        if parts.partition not in (trace_keys.GROUPS, trace_keys.SHELF) and not is_lane(parts.partition):
            self._problems.add("there is no such partition in this format", key)
        self._last_serials[parts.topic_id] = max(self._last_serials.get(parts.topic_id, 0), serial)
        try:
            trace = trace_records.decode_trace(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)
            return
        ends = [(event.start_seq, event.start_seq + event.message_count - 1) for event in trace.events]
        if any(not first <= last or {first >> BLOCK_BITS, last >> BLOCK_BITS} != {block} for first, last in ends):
            self._problems.add("is of messages that are not in its block", key)

    def finish(self) -> None:
        """Compare the two, when everything was taken."""
        for topic_id, last_serial in self._last_serials.items():
            said = self._states.get(topic_id, TraceState())
            if said is not None and last_serial >= said.serial:
                cause = f"says that the numbers from {said.serial} on are free, but there is {last_serial}"
                self._problems.add(cause, trace_keys.traces(topic_id))
