"""Adds messages to a topic in the commit in which they leave another topic.

    room ─▶ they leave their topic ─▶ add        all three in one iteration of the event loop, so in one commit
     └ LimitReachedError, InvalidTopicError: they stay

Messages to a topic of another shard are added to the outbox instead, if it has room. Messages are moved even if the
disk is full: each message that is added leaves another topic.
"""

from collections.abc import Container, Sequence
from typing import Final

from miniqueue.broker.engine import lanes
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.lanes import NewMessage
from miniqueue.broker.model.limits import Room
from miniqueue.broker.model.topic import Topic
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import InvalidTopicError, LimitReachedError
from miniqueue.errors.requests import ShardAwayError

#: Stands for the lane and the number that a message gets in another shard.
UNKNOWN: Final = 0, -1


def room(
    engine: Engine,
    name: bytes,
    contents: Sequence[NewMessage],
    groups: Sequence[bytes] = (),
    *,
    policies: Container[LimitPolicy] = (),
    owner: str | None = None,
) -> Topic:
    """Return the topic `name` if it has room for the messages; create it if it does not exist.

    A new topic has `groups`, or the default group, and `owner`; None: the user who acts owns it. Older messages are
    evicted only if the limit policy of the topic is one of `policies`. Raises InvalidTopicError or LimitReachedError.
    """
    topic = engine.topics.find(name)
    if topic is None:
        topic = engine.topics.create(name, groups=groups, owner=owner)
    payloads = [content.payload for content in contents]
    attributes = [content.attributes for content in contents]
    size_bytes = sum(content.size_bytes for content in contents)
    if engine.limits.admit(topic, payloads, size_bytes, attributes, policies=policies):
        engine.journal.trim_soon(topic)
    return topic


def room_left(engine: Engine, name: bytes, owner: str) -> Room:
    """Return the room in a topic, which is created for `owner` if it does not exist; none if it cannot be created.

    Of a topic of another shard, it is the room for it in the outbox.
    """
    outbox = engine.topics.outbox
    if outbox is not None and engine.topics.is_elsewhere(name):
        return outbox.room(name)
    topic = engine.topics.find(name)
    if topic is None:
        try:
            topic = engine.topics.create(name, owner=owner)
        except (InvalidTopicError, LimitReachedError, ShardAwayError):
            return Room(0, 0)
    return engine.limits.room(topic)


def push(engine: Engine, name: bytes, contents: Sequence[NewMessage], owner: str) -> list[tuple[int, int]]:
    """Add dead letters to a topic that has some `room_left`; return as `add`.

    The last of the messages may exceed the room.
    """
    if engine.topics.is_elsewhere(name):
        return send(engine, name, contents, Kind.DEAD_LETTERED, owner)
    topic = engine.topics.by_name[name]
    positions = add(engine, topic, contents)
    if engine.limits.policy_of(topic) is LimitPolicy.DROP_OLDEST and engine.limits.excess(topic).is_over:
        engine.journal.trim_soon(topic)
    return positions


def add(engine: Engine, topic: Topic, contents: Sequence[NewMessage]) -> list[tuple[int, int]]:
    """Add messages to a topic that has room for them, in the next commit; return the lane and number of each."""
    positions = lanes.append(engine.journal, topic, contents)
    engine.journal.committer.request_soon()
    return positions


def send(
    engine: Engine, name: bytes, contents: Sequence[NewMessage], kind: Kind, owner: str, *, is_home: bool = False
) -> list[tuple[int, int]]:
    """Add messages to the outbox, which has room for them, in the next commit; return as `add`.

    Each message has a source; `kind` and `is_home` are as in `Transfer`. If the other shard creates the topic, `owner`
    owns it.
    """
    outbox = engine.topics.outbox
    assert outbox is not None  # it has room
    leaving = [
        (content.lane, content.source.position, content.source.number - 1, content.payload, content.attributes)
        for content in contents
        if content.source is not None
    ]
    outbox.put(name, kind, leaving, owner, is_home=is_home)
    return [UNKNOWN] * len(contents)
