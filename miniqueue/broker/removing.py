"""Removes topics: gone at once, durably with the next commit, and from the disk some time later."""

from collections.abc import Coroutine
from typing import Any

from miniqueue.broker.commit import Commit
from miniqueue.broker.journal import Journal
from miniqueue.broker.purger import Purger
from miniqueue.broker.registry import Registry
from miniqueue.broker.topic import Topic
from miniqueue.core.budget import Budget
from miniqueue.core.names import check_topic


class Remover:
    """Removes topics.

    Args:
      registry: has the topics.
      journal: commits it.
      purger: deletes what they have left.
      cache: knows what they cost in memory.
    """

    def __init__(self, registry: Registry, journal: Journal, purger: Purger, cache: Budget) -> None:
        self._registry = registry
        self._journal = journal
        self._purger = purger
        self._cache = cache

    def delete(self, name: bytes) -> Coroutine[Any, Any, bool]:
        """Remove a topic with all its messages; its consumers wait for what is published there next.

        It is gone on return. The coroutine returned waits until that is durable, and tells whether it existed.

        Raises:
          InvalidTopicError: nothing can have this name.
          UnavailableError, the coroutine too: the store failed or the broker is stopping.
        """
        self._journal.admission.check_change()
        topic = self._registry.topics.get(check_topic(name)) or Topic(name)
        consumed_bytes = topic.consumed_bytes
        if (topic_id := topic.id) is not None:
            self._registry.remove(topic)
            self._cache.touch(topic)
        committer = self._journal.committer
        commit = committer.open
        committer.request()
        if topic_id is not None:
            self._purger.purge_after(commit, topic_id, consumed_bytes)
        return _durable(commit, existed=topic_id is not None)


async def _durable(commit: Commit, *, existed: bool) -> bool:
    await commit.wait()
    return existed
