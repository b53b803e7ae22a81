"""Resharding of pairs in memory, and what must be the same before and after it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from miniqueue.core.settings.placing import Placing
from miniqueue.storage.format import tasks, values
from miniqueue.storage.format.keys import KeyRange, Space
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.resharding.dividing import divided
from miniqueue.tools.resharding.plan import plan_of
from miniqueue.wire.pair_stream import Pair

Pairs = Mapping[bytes, bytes]


class PairsInMemory:
    """The content of a store, in memory."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = sorted(pairs.items())

    def pairs(self) -> Iterator[Pair]:
        return iter(self._pairs)

    def pairs_of(self, range_: KeyRange) -> Iterator[Pair]:
        return (pair for pair in self._pairs if range_[0] <= pair[0] < range_[1])


def resharded(stores: Sequence[Pairs], count: int) -> list[dict[bytes, bytes]]:
    """Return the pairs of each of `count` shards; all are sound, and in the order of keys, except tasks."""
    contents = [PairsInMemory(pairs) for pairs in stores]
    shards: list[list[Pair]] = [[] for _ in range(count)]
    for shard, pair in divided(contents, plan_of(contents, count), count):
        shards[shard].append(pair)
    for number, pairs in enumerate(shards):
        in_order = [pair for pair in pairs if pair[0][0] != Space.TASK]
        assert in_order == sorted(in_order)
        assert len(dict(pairs)) == len(pairs)
        assert problems_of(pairs, Placing(number, count)) == []
    return [dict(pairs) for pairs in shards]


def problems_of(pairs: Iterable[Pair], placing: Placing) -> list[str]:
    """Return what `check` says of a shard, and what is in the wrong one."""
    audit = Audit()
    for key, value in pairs:
        audit.take(key, value)
        if key[0] == Space.TASK and placing.owner_of_number(tasks.number_of(key)) != placing.number:
            audit.problems.add("another shard gives this number", key)
    audit.finish()
    for topic in audit.topics.values():
        if not placing.has(topic.name) and not topic.is_spread:
            audit.problems.add(f"topic {topic.name!r} is in the wrong shard")
    return [str(problem) for problem in audit.problems.kept]


def content_of(stores: Sequence[Pairs]) -> dict[tuple[bytes, bytes], object]:
    """Return all that stores contain, by name of the topic and by key without the topic id.

    Ids of topics, numbers of tasks, and deleted topics are left out: resharding changes them.
    """
    content: dict[tuple[bytes, bytes], object] = {}
    stored_tasks: list[object] = []
    for pairs in stores:
        names = {values.decode_topic(value)[0]: key[1:] for key, value in pairs.items() if key[0] == Space.TOPIC}
        for key, value in pairs.items():
            if Space.HEAD <= key[0] < Space.SCHEDULE:
                topic_id = int.from_bytes(key[1:9], "big")
                if topic_id in names:
                    _add(content, names[topic_id], key[:1] + key[9:], value)
            elif key[0] == Space.TOPIC:
                _add(content, key[1:], key[:1], values.decode_topic(value)[1])
            elif key[0] == Space.TASK:
                members = tasks.decode_task(value)
                topic = names.get(members.pop("topic_id"))
                stored_tasks.append((topic, sorted(members.items())))
            elif key[0] in (Space.TICK, Space.SCHEDULE):
                _add(content, b"", key, value)
    return content | {(b"", b"tasks"): sorted(map(repr, stored_tasks))}


def _add(content: dict[tuple[bytes, bytes], object], topic: bytes, key: bytes, value: object) -> None:
    assert (topic, key) not in content
    content[topic, key] = value
