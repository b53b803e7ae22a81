"""Puts messages into a topic with the commit in which they leave another one.

    room ─▶ they leave their topic ─▶ add        all three in one turn of the loop, so that one commit has both
     └ LimitReachedError, InvalidTopicError: they stay

A disk that is full does not matter: what comes goes elsewhere.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from miniqueue.broker.journal import Journal
from miniqueue.broker.lanes import Content, Lanes
from miniqueue.broker.limits import Quota, Room
from miniqueue.broker.topic import Topic
from miniqueue.broker.trimming import Trimmer
from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.errors import InvalidTopicError, LimitReachedError


class Create(Protocol):
    """Makes a topic that does not exist, with these groups, or the default one; `Registry.create` is one."""

    def __call__(self, name: bytes, *, groups: Sequence[bytes] = ()) -> Topic:
        """Raises InvalidTopicError or LimitReachedError."""
        ...


class Transfer:
    """Adds messages that come from other topics.

    Args:
      journal: commits them.
      quota: says what there is room for.
      trimmer: makes room in topics that drop what is oldest.
      topics: by name.
      lanes: where the messages go.
      create: makes a topic that does not exist; raises InvalidTopicError or LimitReachedError.
    """

    def __init__(
        self,
        journal: Journal,
        quota: Quota,
        trimmer: Trimmer,
        topics: Mapping[bytes, Topic],
        lanes: Lanes,
        create: Create,
    ) -> None:
        self._journal = journal
        self._quota = quota
        self._trimmer = trimmer
        self._topics = topics
        self._lanes = lanes
        self._create = create

    def room(
        self,
        name: bytes,
        contents: Sequence[Content],
        groups: Sequence[bytes] = (),
        *,
        policies: Container[LimitPolicy] = (),
    ) -> Topic:
        """Return the topic, made if there is none, with `groups` or the default one, when it has room for these.

        Older messages give way to them under one of `policies` only. Raises InvalidTopicError or LimitReachedError.
        """
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            topic = self._create(name, groups=groups)
        payloads = [content.payload for content in contents]
        attributes = [content.attributes for content in contents]
        size_bytes = sum(content.size_bytes for content in contents)
        if self._quota.admit(topic, payloads, size_bytes, attributes, policies=policies):
            self._trimmer.note(topic)
        return topic

    def left(self, name: bytes) -> Room:
        """Return what there is room for in a topic, which need not exist; nothing where it cannot be made."""
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            try:
                topic = self._create(name)
            except (InvalidTopicError, LimitReachedError):
                return Room(0, 0)
        return self._quota.room(topic)

    def push(self, name: bytes, contents: Sequence[Content]) -> list[tuple[int, int]]:
        """Do the same with a topic that has something `left`; the last of them may be more than it has room for."""
        topic = self._topics[name]
        places = self.add(topic, contents)
        if self._quota.policy_of(topic) is LimitPolicy.DROP_OLDEST and self._quota.excess(topic).is_over:
            self._trimmer.note(topic)
        return places

    def add(self, topic: Topic, contents: Sequence[Content]) -> list[tuple[int, int]]:
        """Add messages to a topic that has room for them, with the next commit; return lane and number of each."""
        places = self._lanes.append(topic, contents)
        self._journal.committer.request_soon()
        return places
