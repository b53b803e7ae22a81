"""Where everything in a store goes if its topics are divided among another number of shards, and what prevents that.

    topic               the shard of its name, with a new id, which no other topic of the new store has
    schedule            the shard of its topic
    task                the shard of its topic; if its number is one that another shard gives, with the next number
    spread topic        every shard, as before: its settings are; its parts are topics of their own
    deleted topics      nowhere
    what has arrived    nowhere: no message is on its way between shards, and numbers of messages begin again

Topics keep their order: ids grow with the number of the old shard, then with the old id.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from miniqueue.broker.acts.task import Task, of_members
from miniqueue.core.settings.placing import Placing
from miniqueue.errors import ConfigError, CorruptionError
from miniqueue.server.process.escaping import escape
from miniqueue.storage.format import keys, schedules, tasks, values
from miniqueue.storage.format.keys import KeyRange, Space
from miniqueue.wire.pair_stream import Pair

#: Maximum number of reasons in one refusal.
_MAX_REASONS = 20


class Content(Protocol):
    """The content of one store, which does not change."""

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs in key order."""
        ...

    def pairs_of(self, range_: KeyRange) -> Iterator[Pair]:
        """Yield the pairs of a range in key order."""
        ...


class Target(NamedTuple):
    """Where a topic goes.

    Attributes:
      shard: number of the new shard; None: a spread topic is in all of them.
      number: its new id.
    """

    shard: int | None
    number: int


class Source(NamedTuple):
    """Where the content of one old store goes.

    Attributes:
      topics: targets by old topic id.
      deleted: ids of topics of which keys remain that are not copied: they are deleted, or another old store has the
        same spread topic.
      schedules: numbers of new shards by name of the schedule.
      tasks: new shard and number by old number.
    """

    topics: Mapping[int, Target]
    deleted: frozenset[int]
    schedules: Mapping[bytes, int]
    tasks: Mapping[int, tuple[int, int]]


class Plan(NamedTuple):
    """Where everything goes.

    Attributes:
      sources: one for each old store, in their order.
      next_topic_id: the next topic id of all new stores; the id before it belongs to no topic.
    """

    sources: tuple[Source, ...]
    next_topic_id: int


def plan_of(contents: Sequence[Content], shard_count: int) -> Plan:
    """Return where the content of all stores of a broker goes if it has `shard_count` shards.

    Raises:
      ConfigError: messages are on their way between shards, or two schedules would be one; with each reason.
      CorruptionError, FormatVersionError: a value cannot be read, or a topic is in two stores.
    """
    placing = Placing(0, shard_count)
    topics: list[dict[int, Target]] = []
    homes: dict[bytes, int] = {}
    reasons: list[str] = []
    deleted: list[frozenset[int]] = []
    spread_names: set[bytes] = set()
    next_id = 1
    for number, content in enumerate(contents):
        names, spread_ids = _topics_of(content), _spread_of(content)
        targets: dict[int, Target] = {}
        repeated = {topic_id for topic_id in spread_ids if names.get(topic_id) in spread_names}
        for topic_id, name in sorted(names.items()):
            if topic_id in repeated:
                continue
            if name in homes:
                raise CorruptionError(f"topic {escape(name)} is in shard {homes[name]} and in shard {number}")
            homes[name] = number
            if topic_id in spread_ids:
                spread_names.add(name)
            targets[topic_id] = Target(None if topic_id in spread_ids else placing.shard_of(name), next_id)
            next_id += 1
        topics.append(targets)
        deleted.append(_deleted_of(content) | repeated)
        reasons += _on_their_way(number, content)
        reasons += [f"topic {escape(name)} is being deleted; start the broker once" for name in _erased_in(content)]
    if shard_count == 1:
        reasons += [f"topic {escape(name)} is spread, which requires shards" for name in sorted(spread_names)]
    stored_tasks = [_tasks_of(content) for content in contents]
    stored_schedules = [_schedules_of(content, placing) for content in contents]
    reasons += _equal_schedules(stored_schedules)
    if reasons:
        more = [f"and {len(reasons) - _MAX_REASONS} more"] if len(reasons) > _MAX_REASONS else []
        raise ConfigError([f"flag -shards: {shard_count}: {reason}" for reason in reasons[:_MAX_REASONS] + more])
    task_targets = _targets_of_tasks(stored_tasks, shard_count)
    sources = [Source(topics[n], deleted[n], stored_schedules[n], task_targets[n]) for n in range(len(contents))]
    return Plan(tuple(sources), next_id + 1)


def _topics_of(content: Content) -> dict[int, bytes]:
    """Return the names of the topics by id."""
    return {values.decode_topic(value)[0]: keys.topic_name(key) for key, value in content.pairs_of(keys.topics())}


def _spread_of(content: Content) -> set[int]:
    """Return the ids of the spread topics."""
    return {
        keys.parse(key).topic_id
        for key, value in content.pairs_of(keys.space_range(Space.SETTINGS))
        if values.decode_settings(value).spread
    }


def _deleted_of(content: Content) -> frozenset[int]:
    return frozenset(keys.purge_topic_id(key) for key, _ in content.pairs_of(keys.purges()))


def _erased_in(content: Content) -> list[bytes]:
    """Return the names of deleted spread topics whose parts may still be there."""
    return [values.decode_erasure(value) for _, value in content.pairs_of(keys.purges()) if value]


def _tasks_of(content: Content) -> dict[int, Task]:
    return {
        (number := tasks.number_of(key)): of_members(number, tasks.decode_task(value))
        for key, value in content.pairs_of(tasks.tasks())
    }


def _schedules_of(content: Content, placing: Placing) -> dict[bytes, int]:
    return {
        schedules.name_of(key): placing.shard_of(schedules.decode_schedule(value).topic)
        for key, value in content.pairs_of(schedules.schedules())
    }


def _on_their_way(number: int, content: Content) -> Iterator[str]:
    """Yield that messages are on their way from an old shard to others, once."""
    count = sum(1 for _ in content.pairs_of(keys.space_range(Space.OUTBOX)))
    if count:
        yield (
            f"{count} messages are on their way from shard {number} to topics of others; before, start a broker on the "
            "old store, and wait until they have arrived, miniqueue_outbox_messages"
        )


def _equal_schedules(stored: Sequence[Mapping[bytes, int]]) -> Iterator[str]:
    """Yield why schedules of the same name, which a broken change left in two shards, cannot be in one."""
    seen: set[tuple[bytes, int]] = set()
    for targets in stored:
        for item in targets.items():
            if item in seen:
                yield (
                    f"schedule {escape(item[0])} is in two shards, which would be one; before, start a broker on the "
                    "old store, and set or delete the schedule"
                )
            seen.add(item)


def _targets_of_tasks(stored: Sequence[Mapping[int, Task]], shard_count: int) -> list[dict[int, tuple[int, int]]]:
    """Return where tasks go; those of one shard keep their order."""
    of_number = Placing(0, shard_count).shard_of
    targets: list[dict[int, tuple[int, int]]] = [{} for _ in stored]
    last = [0] * shard_count
    for number, source in sorted((number, source) for source, of_one in enumerate(stored) for number in of_one):
        shard = of_number(stored[source][number].topic)
        last[shard] = Placing(shard, shard_count).next_number(max(number, last[shard] + 1))
        targets[source][number] = (shard, last[shard])
    return targets
