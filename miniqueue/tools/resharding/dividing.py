"""Passes all pairs of the old stores on to the new shards, with the ids that they have there.

The streams of the old stores are merged by new key, so those of each new shard come in key order, except tasks.
"""

import heapq
from collections.abc import Iterator, Sequence

from miniqueue.errors import CorruptionError
from miniqueue.storage.format import keys, schedules, tasks, values
from miniqueue.storage.format.keys import Space
from miniqueue.tools.audit.problems import Problem
from miniqueue.tools.resharding.plan import Content, Plan, Source, Target
from miniqueue.wire.pair_stream import Pair


def divided(contents: Sequence[Content], plan: Plan, shard_count: int) -> Iterator[tuple[int, Pair]]:
    """Yield each pair of the new store, after the number of its shard.

    Raises CorruptionError or FormatVersionError: a pair that decides on a place cannot be read, or has no target.
    """
    next_id = values.encode_number(plan.next_topic_id)
    yield from ((shard, (keys.NEXT_TOPIC, next_id)) for shard in range(shard_count))
    no_topic_id = plan.next_topic_id - 1
    shards = range(shard_count)
    streams = [
        _moved(content, source, no_topic_id, shards) for content, source in zip(contents, plan.sources, strict=True)
    ]
    yield from heapq.merge(*streams, key=_new_key)


def _new_key(moved: tuple[int, Pair]) -> bytes:
    return moved[1][0]


def _moved(content: Content, source: Source, no_topic_id: int, shards: Sequence[int]) -> Iterator[tuple[int, Pair]]:
    """Yield the pairs of one old store for all new `shards`; a task of an unknown topic names `no_topic_id`."""
    for key, value in content.pairs():
        parts = keys.parse(key)
        space = parts.space
        if Space.HEAD <= space < Space.SCHEDULE:
            if parts.topic_id not in source.deleted:
                shard, topic_id = _target_of(source, parts.topic_id, key)
                pair = keys.with_topic_id(key, topic_id), value
                yield from _copies(pair, shard, shards)
        elif space == Space.TOPIC:
            old_id, created_at_ms = values.decode_topic(value)
            if old_id not in source.deleted:
                shard, topic_id = _target_of(source, old_id, key)
                pair = key, values.encode_topic(topic_id, created_at_ms)
                yield from _copies(pair, shard, shards)
        elif space == Space.TASK:
            shard_of_task, number = source.tasks[parts.order]
            members = tasks.decode_task(value)
            target = source.topics.get(members["topic_id"])
            members["topic_id"] = no_topic_id if target is None else target.number
            yield shard_of_task, (tasks.task(number), tasks.encode_task(members))
        elif space in (Space.TICK, Space.SCHEDULE):
            shard_of_schedule = source.schedules.get(schedules.name_of(key))
            if shard_of_schedule is None:
                raise CorruptionError(str(Problem(key, "there is no such schedule")))
            yield shard_of_schedule, (key, value)
        # NEXT_TOPIC is made above, PURGE has no target, COMMIT is never read. There is no OUTBOX, so no number of SENT
        # is needed, nor of RECEIVED.


def _copies(pair: Pair, shard: int | None, shards: Sequence[int]) -> Iterator[tuple[int, Pair]]:
    """Yield a pair for its shard; for all of them, if `shard` is None."""
    for each in shards if shard is None else (shard,):
        yield each, pair


def _target_of(source: Source, topic_id: int, key: bytes) -> Target:
    target = source.topics.get(topic_id)
    if target is None:
        raise CorruptionError(str(Problem(key, "there is no such topic, nor is one being deleted")))
    return target
