"""Checks that each trace can be read, concerns only its block, and has a serial number that its topic assigned."""

from miniqueue.core.message.lanes import is_lane
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage.format import trace_keys, traces
from miniqueue.storage.format.keys import Parts
from miniqueue.storage.format.trace_keys import BLOCK_BITS
from miniqueue.storage.format.traces import TraceState
from miniqueue.tools.audit.problems import Problems


class TraceAudit:
    """Check of the traces of all topics: pass the states, then the traces, then call `finish`."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._states: dict[int, TraceState | None] = {}  # None: cannot be read
        self._last_serials: dict[int, int] = {}

    def take_state(self, topic_id: int, key: bytes, value: bytes) -> None:
        """Check the size of the traces of a topic."""
        self._states[topic_id] = None
        try:
            self._states[topic_id] = traces.decode_traces(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)

    def take(self, parts: Parts, key: bytes, value: bytes) -> None:
        """Check the next trace."""
        block, serial = parts.order >> 64, parts.order & (1 << 64) - 1
        if parts.partition not in (trace_keys.GROUPS, trace_keys.SHELF) and not is_lane(parts.partition):
            self._problems.add("there is no such partition in this format", key)
        self._last_serials[parts.topic_id] = max(self._last_serials.get(parts.topic_id, 0), serial)
        try:
            trace = traces.decode_trace(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)
            return
        ends = [(event.start_seq, event.start_seq + event.message_count - 1) for event in trace.events]
        if any(not first <= last or {first >> BLOCK_BITS, last >> BLOCK_BITS} != {block} for first, last in ends):
            self._problems.add("is of messages that are not in its block", key)

    def finish(self) -> None:
        """Compare the serial numbers of the traces with the states, after the last trace."""
        for topic_id, last_serial in self._last_serials.items():
            state = self._states.get(topic_id, TraceState())
            if state is not None and last_serial >= state.serial:
                cause = f"says that the numbers from {state.serial} on are free, but there is {last_serial}"
                self._problems.add(cause, trace_keys.traces(topic_id))
