"""Traces: what happens to each message of the topics that are traced, stored for a time.

    settings ─▶ apply_settings ─▶ TopicTrace ─▶ with each commit of the topic (`trace`)
    tick ─┬▶ what was noted, and no commit has come ─▶ commit
          └▶ now and then: what is too old, and what is too much ─▶ deleted, a page at a time, beside everything else

What is stored goes from the front: the messages that were published first. What happened late to one of them is found
behind it, block by block.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import structlog

from miniqueue.broker.clock import Clock
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.broker.trace import GroupTrace, TopicTrace
from miniqueue.errors import MiniqueueError
from miniqueue.storage import trace_keys
from miniqueue.storage.trace_records import TraceState, decode_age

log = structlog.get_logger()

#: Of one topic; beyond that what is oldest goes.
MAX_TRACE_BYTES = 1 << 30
#: So often is looked for what is too old.
FORGET_SECONDS = 10.0
#: Beside the partitions: what happens to groups, and to what waits for its time, which is in the first one.
OTHERS = (trace_keys.GROUPS, trace_keys.SHELF)
PAGE_ITEMS = 512
PAGE_BYTES = 1 << 20

MAX_AT_MS = (1 << 63) - 1

Pairs = list[tuple[bytes, bytes]]


class Over(NamedTuple):
    """What of a page is too old.

    Attributes:
      pairs: what is.
      kept_block: the first block that has something else.
      next_block: where to go on, None for nowhere.
      kept_at_ms: when the oldest was stored of what is kept.
    """

    pairs: Pairs
    kept_block: int | None
    next_block: int | None
    kept_at_ms: int = MAX_AT_MS


class Tracer:
    """Has what happens noted, and forgets it.

    Args:
      journal: has the store, and commits it.
      clock: tells when something happens.
      spawn: runs something in the background.
    """

    def __init__(self, journal: Journal, clock: Clock, *, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._journal = journal
        self._clock = clock
        self._spawn = spawn
        self._traces: dict[Topic, TopicTrace] = {}  # also those of topics that are traced no longer
        self._is_forgetting = False
        self._forget_at = 0.0

    def install(self, topics: Iterable[Topic], states: Mapping[int, TraceState]) -> None:
        """Take over what the store holds, at the start and after a fault."""
        self._traces = {}
        for topic in topics:
            if topic.id is not None and topic.id in states:
                self._traces[topic] = self._new(topic, topic.id, states[topic.id])

    def apply_settings(self, topic: Topic) -> None:
        """Have what happens in a topic noted, or not, as its settings say."""
        trace = self._trace_of(topic) if topic.settings.trace else None
        if trace is None and topic.trace is not None and topic.trace.is_waiting:
            self._cut(topic.trace)
        if trace is not None:
            _see(topic, trace)
        topic.trace = trace
        for group in topic.groups.values():
            for cursor in group.cursors:
                cursor.trace = None if trace is None else GroupTrace(trace, cursor.partition, group.name)

    def hurry(self) -> None:
        """Have the next commit write all that was noted."""
        for trace in self._traces.values():
            trace.hurry()

    def tick(self) -> None:
        """Have written what was noted, and begin to forget what is over."""
        for topic, trace in list(self._traces.items()):
            if topic.id != trace.topic_id:  # it was deleted
                del self._traces[topic]
            elif trace.hurry():
                self._journal.committer.request_soon()
        now = self._clock.monotonic()
        if self._traces and not self._is_forgetting and now >= self._forget_at:
            self._is_forgetting, self._forget_at = True, now + FORGET_SECONDS
            self._spawn(self._forget())

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
        """Have the next commit write what was noted of a topic that is traced no longer."""
        batch: dict[bytes, bytes | None] = {}
        trace.cut(batch, self._clock.now_ms())
        self._journal.change(batch)
        self._journal.committer.request_soon()

    # --- what is over -----------------------------------------------------------------------------------------

    async def _forget(self) -> None:
        try:
            for topic, trace in list(self._traces.items()):
                now_ms = self._clock.now_ms()
                before_ms = now_ms - round(topic.settings.trace_seconds * 1000)
                if before_ms > trace.oldest_ms:
                    places = [*topic.partitions, *OTHERS]
                    kept_at_ms = [await self._forget_old(topic, trace, place, before_ms) for place in places]
                    trace.oldest_ms = min(now_ms, *kept_at_ms)
                while trace.size_bytes > MAX_TRACE_BYTES and topic.id == trace.topic_id:
                    if not any([await self._forget_block(topic, trace, one) for one in [*topic.partitions, *OTHERS]]):
                        break
        except MiniqueueError as exc:
            log.warning("what happened to messages was not forgotten", error=str(exc))
        finally:
            self._is_forgetting = False

    async def _forget_old(self, topic: Topic, trace: TopicTrace, partition: int, before_ms: int) -> int:
        """Delete what is too old in one partition; return since when there is something."""
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
        """Delete of the first block of a partition what is one page; return whether there was something."""
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
        if pairs and topic.id == trace.topic_id and self._traces.get(topic) is trace:  # else it is another one's by now
            batch: dict[bytes, bytes | None] = dict.fromkeys(key for key, _ in pairs)
            trace.size_bytes -= min(trace.size_bytes, sum(len(key) + len(value) for key, value in pairs))
            trace.keep(batch)
            await self._journal.commit(batch)


def _see(topic: Topic, trace: TopicTrace) -> None:
    """Note which messages there are of earlier."""
    if topic.trace is not trace:
        trace.start_seqs.clear()
    for number, partition in topic.partitions.items():
        trace.start_seqs.setdefault(number, max((one.tail_seq for one in partition.cursors.values()), default=0))
        trace.start_seqs.setdefault(trace_keys.SHELF | number, partition.delays.state.serial)


def sift(pairs: Pairs, before_ms: int) -> Over:
    """Return what of a page of traces was committed before a time.

    Where messages begin in a trace that is not too old, all that is behind it begins later.
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
