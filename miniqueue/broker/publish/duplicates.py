"""Detects duplicates: publishes with the same dedup id within a time window, and messages with the same unique key.

    publish ─▶ first_of: is the id in the window, is the key taken? ─ yes ▶ the first message's id; nothing is added
                  └ no ─▶ appended ─▶ record: id and key are written with the message, in one commit
    tick ─▶ expired ids are forgotten and deleted, commit by commit

A unique key is taken as long as its message exists. An id is never forgotten within its window: if there are too many
ids, publishes with new ids are refused. The message that has a unique key may have to be looked up in the store;
`unique` does that before it publishes.
"""

import sys
from collections import Counter

from miniqueue.broker.commit.journal import Accepted
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.limits import Limit
from miniqueue.broker.model.shares import Pool
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.accounts import user_of
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.group import view
from miniqueue.core.log.dedup_window import DedupWindow, Remembered
from miniqueue.core.message.ids import DelayedId, parse_any_id
from miniqueue.core.options.publish import PublishOptions, without_digest
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.storage.format import dedup as dedup_keys

#: Number of ids that one tick forgets; a batch may exceed it by a few ids. Bounds the time of a tick.
MAX_FORGOTTEN_IN_TICK = 50_000
#: Minimum interval between scans for expired ids while the limit on ids is reached.
SCAN_INTERVAL_MS = 100
#: The memory of one dedup id, about.
DEDUP_ID_BYTES = 350


class Duplicates:
    """Remembers what was published; each dedup id takes about 350 bytes of memory in addition to its own length."""

    def __init__(self, engine: Engine) -> None:
        self._journal = engine.journal
        self._clock = engine.clock
        self._limits = engine.limits
        self._remembering: dict[Topic, None] = {}  # topics with dedup ids
        self._count = 0  # number of dedup ids; never too low
        self._by_owner: Counter[str] = Counter()  # the same by the owner of the topic
        self._shares = engine.shares
        self._max_count = self._limits.max_dedup_ids
        pool_size = 0 if self._max_count == sys.maxsize else self._max_count
        self._shares.measure(Pool.DEDUP_IDS, self._count_of, pool_size, f"-{Limit.DEDUP_IDS}")
        self._max_of_owner = self._shares.limit_of(Pool.DEDUP_IDS, "")  # the same for all owners
        self._next_scan_ms = 0  # between ticks, earliest time of the next scan for expired ids

    @property
    def size_bytes(self) -> int:
        """The approximate memory use of all dedup ids."""
        return self._count * DEDUP_ID_BYTES

    def first_of(self, topic: Topic, options: PublishOptions) -> Accepted | None:
        """Return the result of the first publish if a publish with `options` is a duplicate of it, else None.

        A message that replaces the one with its unique key is no duplicate of it; the caller removes the other one.

        Raises:
          InvalidOptionError: the topic accepts no dedup ids.
          DedupMismatchError: other content was published under the dedup id.
          LimitReachedError: the maximum number of dedup ids is reached.
        """
        first = self.published(topic, options.dedup_id) if options.dedup_id else None
        if first is None and options.unique_key and not options.is_replacing and topic.id is not None:
            first = self.owner(topic, options.unique_key)
        topic.duplicate_count += first is not None
        return first

    def owner(self, topic: Topic, key: bytes) -> Accepted | None:
        """Return the message that has a unique key; an expired message has it only while it is leased."""
        claims = topic.unique_keys.find(key)
        assert claims is not None  # it was looked up
        now_ms = self._clock.now_ms()
        for message_id, expires_at_ms in claims.items():
            if not 0 < expires_at_ms <= now_ms or _is_leased(topic, message_id):
                commit = self._journal.committer.of(is_next=topic.unique_keys.is_new(key, message_id))
                return Accepted(commit, message_id, is_duplicate=True)
        return None

    def remembers(self, topic: Topic, dedup_id: bytes) -> bool:
        """Return whether something was published with a dedup id, whatever its digest."""
        oldest_ms = self._clock.now_ms() - topic.settings.dedup_window_seconds * 1000
        return topic.dedup is not None and topic.dedup.find(without_digest(dedup_id), oldest_ms) is not None

    def published(self, topic: Topic, dedup_id: bytes, count: int = 1) -> Accepted | None:
        """Return what was published with a dedup id, or None if the id can be used; raises as `first_of`.

        `count` is the number of new ids that the caller adds at once, this one included.
        """
        oldest_ms = self._oldest_ms(topic)
        entry = None if topic.dedup is None else topic.dedup.find(dedup_id, oldest_ms)
        if topic.dedup is None or entry is None:
            self._check_room(topic, count)
            return None
        commit = self._journal.committer.of(is_next=topic.dedup.is_new(dedup_id))
        return Accepted(commit, entry.message_id, is_duplicate=True, message_count=entry.message_count)

    def note(self, topic: Topic, options: PublishOptions, accepted: Accepted, expires_at_ms: int = 0) -> None:
        """Remember a message just added to the next commit, and its expiry time; 0 means that it never expires."""
        if key := options.unique_key:
            for expired_id in topic.unique_keys.find(key) or ():
                topic.unique_keys.take(key, expired_id)
            topic.unique_keys.put(key, accepted.message_id, expires_at_ms)
        if options.dedup_id:
            if topic.dedup is None:
                topic.dedup = DedupWindow()
            topic.dedup.add(Remembered(options.dedup_id, accepted.message_id, accepted.message_count))
            self._remembering[topic] = None
            self._count += 1
            if self._max_of_owner is not None:  # otherwise only USAGE asks, and a tick counts
                self._by_owner[topic.settings.owner or ""] += 1

    def restored(self, content: StoreContent) -> None:
        """Take over the content of the store, at startup and after a fault."""
        self._remembering = {topic: None for topic in content.topics if topic.dedup is not None}
        self._recount()

    def tick(self) -> None:
        """Forget expired ids, and delete them with the next commit."""
        room = MAX_FORGOTTEN_IN_TICK
        for topic in list(self._remembering):
            if topic.dedup is None or topic.id is None or not (topic.dedup or topic.dedup.is_changed):
                topic.dedup = None
                del self._remembering[topic]
            elif room > 0:
                room -= self._forget(topic, topic.id, topic.dedup, room)
        self._recount()

    def _forget(self, topic: Topic, topic_id: int, dedup: DedupWindow, max_count: int) -> int:
        dedup.see_time(now_ms := self._clock.now_ms())
        batches = dedup.forget(now_ms - topic.settings.dedup_window_seconds * 1000, max_count)
        keys = [dedup_keys.dedup(topic_id, batch.committed_at_ms or 0, batch.serial) for batch in batches]
        if keys:
            self._journal.change(dict.fromkeys(keys))
            self._journal.committer.request_soon()
        return sum(len(batch.entries) for batch in batches)

    def _oldest_ms(self, topic: Topic) -> float:
        window_seconds = topic.settings.dedup_window_seconds
        if not window_seconds:
            raise InvalidOptionError("the topic takes no dedup ids: its dedup_window_seconds is 0")
        return self._clock.now_ms() - window_seconds * 1000

    def _check_room(self, topic: Topic, count: int) -> None:
        before_count = self._count + count - 1
        if before_count < self._max_count and self._max_of_owner is None:
            return
        owner = user_of(CURRENT_ACTOR.get()) if topic.id is None else topic.settings.owner or ""
        if before_count < self._max_count and self._by_owner[owner] + count <= (self._max_of_owner or 0):
            return
        if self._clock.now_ms() >= self._next_scan_ms:
            self._next_scan_ms = self._clock.now_ms() + SCAN_INTERVAL_MS  # refused clients may retry often
            self.tick()
        self._shares.admit(Pool.DEDUP_IDS, owner, count)
        self._limits.admit_dedup_id(self._count + count - 1)

    def _count_of(self, owner: str | None) -> int:
        return self._count if owner is None else self._by_owner[owner]

    def _recount(self) -> None:
        self._by_owner.clear()
        for topic in self._remembering:
            if topic.dedup is not None:
                self._by_owner[topic.settings.owner or ""] += len(topic.dedup)
        self._count = self._by_owner.total()


def _is_leased(topic: Topic, message_id: bytes) -> bool:
    """Whether a message is leased in the group that determines how long unique keys are taken."""
    parts = parse_any_id(message_id)
    if isinstance(parts, DelayedId) or (partition := topic.partitions.get(parts[0])) is None:
        return False
    return any(
        cursor.unique_keys is not None and view.is_leased(cursor, parts[1]) for cursor in partition.cursors.values()
    )
