"""Stores the events of traced topics, and deletes them when they are too old or too many.

    settings ─▶ changed ─▶ TopicTrace ─▶ stored with commits of the topic (`recording` says which)
    tick ─┬▶ recorded events without a commit so far ─▶ commit
          └▶ every `FORGET_SECONDS`: events that are too old, or too many ─▶ deleted, a page at a time, concurrently

Events are deleted from the front: those of the messages that were published first. Late events of an old message are
stored after its early events, in the same block, so the check goes block by block.
"""

from functools import partial
from itertools import compress
from operator import attrgetter, not_
from typing import NamedTuple

import structlog

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.recording import GroupTrace, TopicTrace
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.errors import MiniqueueError
from miniqueue.storage.format import trace_keys
from miniqueue.storage.format.traces import TraceState, decode_age

log = structlog.get_logger()

_trace, _tail_seq = attrgetter("trace"), attrgetter("tail_seq")

#: Maximum size of the traces of one topic; beyond it, the oldest traces are deleted.
MAX_TRACE_BYTES = 1 << 30
#: Time between two checks for traces that are too old.
FORGET_SECONDS = 10.0
#: Numbers besides those of partitions under which traces are stored: events of groups, and of delayed messages, which
#: are all in the first partition.
OTHERS = (trace_keys.GROUPS, trace_keys.SHELF)
#: Maximum number and size of the values that are read and deleted at once.
PAGE_ITEMS = 512
PAGE_BYTES = 1 << 20

#: Later than any time that is stored.
MAX_AT_MS = (1 << 63) - 1

Pairs = list[tuple[bytes, bytes]]


class Over(NamedTuple):
    """The pairs of a page that are too old.

    Attributes:
      pairs: the pairs to delete.
      kept_block: the first block with a pair that is kept.
      next_block: the block where to continue; None if no later pair is too old.
      kept_at_ms: when the oldest pair that is kept was stored.
    """

    pairs: Pairs
    kept_block: int | None
    next_block: int | None
    kept_at_ms: int = MAX_AT_MS


class Tracer:
    """Records what happens in traced topics, and deletes old records."""

    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._clock = engine.clock
        self._traces: dict[Topic, TopicTrace] = {}  # topics with stored traces, traced now or not
        self._forgetting = SingleTask(engine.spawn)
        self._forget_at = 0.0

    def restored(self, content: StoreContent) -> None:
        """Replace the traces in memory by the content of the store, at startup and after a fault."""
        self._traces = {}
        for topic in content.topics:
            if topic.id is not None and topic.id in content.traces:
                self._traces[topic] = self._new(topic, topic.id, content.traces[topic.id])

    def changed(self, topic: Topic) -> None:
        """Start or stop recording what happens in a topic, according to its settings."""
        trace = self._trace_of(topic) if topic.settings.trace else None
        if trace is None and topic.trace is not None and topic.trace.is_waiting:
            self._cut(topic.trace)
        if trace is not None:
            _see(topic, trace)
        if trace is None and topic.trace is None:
            return  # nor has any cursor one
        is_new, topic.trace = topic.trace is not trace, trace
        for group in topic.groups.values():
            # There may be thousands of cursors, and usually only those of a new group have no trace yet.
            cursors = group.cursors if is_new else compress(group.cursors, map(not_, map(_trace, group.cursors)))
            recorder = None if trace is None else GroupTrace(trace, group.name)
            for cursor in cursors:
                cursor.trace = recorder

    def hurry(self) -> None:
        """Make the next commit write all recorded events."""
        for trace in self._traces.values():
            trace.hurry()

    def tick(self) -> None:
        """Commit recorded events soon, and start to delete events that are too old."""
        for topic, trace in list(self._traces.items()):
            if topic.id != trace.topic_id:  # The topic was deleted.
                del self._traces[topic]
            elif trace.hurry():
                self._journal.committer.request_soon()
        now = self._clock.monotonic()
        if self._traces and not self._forgetting.is_running and now >= self._forget_at:
            self._forget_at = now + FORGET_SECONDS
            self._forgetting.start(self._forget())

    def _trace_of(self, topic: Topic) -> TopicTrace | None:
        if topic.id is None:
            return None
        trace = self._traces.get(topic)
        if trace is None or trace.topic_id != topic.id:
            trace = self._traces[topic] = self._new(topic, topic.id, TraceState())
        return trace

    def _new(self, topic: Topic, topic_id: int, state: TraceState) -> TopicTrace:
        return TopicTrace(topic_id, state, self._clock, partial(self._journal.touch, topic))

    def _cut(self, trace: TopicTrace) -> None:
        """Make the next commit write the recorded events of a topic that is no longer traced."""
        batch: dict[bytes, bytes | None] = {}
        trace.cut(batch, self._clock.now_ms())
        self._journal.change(batch)
        self._journal.committer.request_soon()

    # --- old traces -----------------------------------------------------------------------------------------

    async def _forget(self) -> None:
        try:
            for topic, trace in list(self._traces.items()):
                now_ms = self._clock.now_ms()
                before_ms = now_ms - round(topic.settings.trace_seconds * 1000)
                if before_ms > trace.oldest_ms:
                    numbers = [*topic.partitions, *OTHERS]
                    kept_at_ms = [await self._forget_old(topic, trace, number, before_ms) for number in numbers]
                    trace.oldest_ms = min(now_ms, *kept_at_ms)
                while trace.size_bytes > MAX_TRACE_BYTES and topic.id == trace.topic_id:
                    numbers = [*topic.partitions, *OTHERS]
                    if not any([await self._forget_block(topic, trace, number) for number in numbers]):
                        break
        except MiniqueueError as exc:
            log.warning("what happened to messages was not forgotten", error=str(exc))

    async def _forget_old(self, topic: Topic, trace: TopicTrace, partition: int, before_ms: int) -> int:
        """Delete the traces of one partition that are too old; return the time of the oldest that is kept."""
        front_block: int | None = None
        kept_at_ms = MAX_AT_MS
        next_block: int | None = trace.front_blocks.get(partition, 0)
        while next_block is not None:
            pairs = await self._page(trace, partition, next_block)
            over = sift(pairs, before_ms)
            await self._delete(topic, trace, over.pairs)
            front_block = over.kept_block if front_block is None else front_block
            next_block = over.next_block
            kept_at_ms = min(kept_at_ms, over.kept_at_ms)
            if pairs and topic.id == trace.topic_id:
                last_block = trace_keys.block_of(pairs[-1][0])
                trace.front_blocks[partition] = last_block if front_block is None else front_block
        return kept_at_ms

    async def _forget_block(self, topic: Topic, trace: TopicTrace, partition: int) -> bool:
        """Delete one page of the first block of a partition; return whether there was one."""
        pairs = await self._page(trace, partition, trace.front_blocks.get(partition, 0))
        first_block = trace_keys.block_of(pairs[0][0]) if pairs else 0
        await self._delete(topic, trace, [pair for pair in pairs if trace_keys.block_of(pair[0]) == first_block])
        trace.front_blocks[partition] = first_block
        return bool(pairs)

    async def _page(self, trace: TopicTrace, partition: int, block: int) -> Pairs:
        start, stop = trace_keys.blocks(trace.topic_id, partition, block)
        return await self._journal.store.scan(start, stop, max_items=PAGE_ITEMS, max_bytes=PAGE_BYTES)

    async def _delete(self, topic: Topic, trace: TopicTrace, pairs: Pairs) -> None:
        self._journal.admission.check_change()
        # If the topic was deleted in the meantime, its name may belong to a new topic with a trace of its own.
        if pairs and topic.id == trace.topic_id and self._traces.get(topic) is trace:
            batch: dict[bytes, bytes | None] = dict.fromkeys(key for key, _ in pairs)
            trace.size_bytes -= min(trace.size_bytes, sum(len(key) + len(value) for key, value in pairs))
            trace.keep(batch)
            await self._journal.commit(batch)


def _see(topic: Topic, trace: TopicTrace) -> None:
    """Record where the trace begins in each partition: earlier messages were published without it."""
    if topic.trace is not trace:
        trace.start_seqs.clear()
    known = trace.start_seqs
    if len(known) == 2 * len(topic.partitions):
        return
    for number, partition in topic.partitions.items():
        if number not in known or trace_keys.SHELF | number not in known:
            known.setdefault(number, max(map(_tail_seq, partition.cursors.values()), default=0))
            known.setdefault(trace_keys.SHELF | number, partition.delays.state.serial)


def sift(pairs: Pairs, before_ms: int) -> Over:
    """Return the pairs of a page of traces that were committed before `before_ms`.

    If a trace that is recent enough contains the first events of its messages, all traces after it are recent enough.
    """
    old: Pairs = []
    kept_block = passed = None
    kept_at_ms = MAX_AT_MS
    for key, value in pairs:
        block = trace_keys.block_of(key)
        if block == passed:
            continue
        committed_at_ms, is_beginning = decode_age(value)
        if committed_at_ms < before_ms:
            old.append((key, value))
            continue
        kept_block = block if kept_block is None else kept_block
        kept_at_ms = min(kept_at_ms, committed_at_ms)
        if is_beginning:
            return Over(old, kept_block, None, kept_at_ms)
        passed = block
    if not pairs:
        return Over(old, None, None)
    last_block = trace_keys.block_of(pairs[-1][0])
    return Over(old, kept_block, last_block + (last_block == passed), kept_at_ms)
