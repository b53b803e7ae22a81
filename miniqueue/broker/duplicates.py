"""Keeps duplicates away: of a publish with an id, for a time, and of a message with a unique key, while it is there.

    publish ─▶ first_of: is the id in the window, is the key taken? ─ yes ▶ the first message's id; nothing is added
                  └ no ─▶ appended ─▶ note: id and key are written with the message, in one commit
    tick ─▶ ids whose time is over are forgotten and deleted, commit by commit

An id in its window is never forgotten: when there are too many a publish with another one is refused. Who has a unique
key may have to be looked up in the store: `unique_publishing` does that first.
"""

from collections.abc import Iterable

from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Accepted
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota
from miniqueue.broker.topic import Topic
from miniqueue.core import cursor_view
from miniqueue.core.dedup_window import DedupWindow, Remembered
from miniqueue.core.delayed_id import DelayedId, parse_any_id
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.publish_options import PublishOptions
from miniqueue.storage import dedup_keys

#: So many ids are forgotten in one tick, or a few more.
MAX_FORGOTTEN_IN_TICK = 50_000
#: When there are too many, it is looked this often whether the time of some is over.
LOOK_MS = 100


class Duplicates:
    """Knows what was published already.

    Args:
      journal: commits what is forgotten.
      clock: tells whose time is over.
      quota: says how many ids may be remembered; each takes some 350 bytes of memory beside itself.
    """

    def __init__(self, journal: Journal, clock: Clock, quota: Quota) -> None:
        self._journal = journal
        self._clock = clock
        self._quota = quota
        self._remembering: dict[Topic, None] = {}  # those with dedup ids
        self._count = 0  # of dedup ids; never less than there are
        self._look_at_ms = 0  # not before that for ids whose time is over, in between ticks

    def first_of(self, topic: Topic, options: PublishOptions) -> Accepted | None:
        """Return what became of the message that makes another one a duplicate, or None when there is none.

        Raises:
          InvalidOptionError: the topic takes no dedup ids.
          DedupMismatchError: other content was published under the dedup id.
          LimitReachedError: there are as many as there may be.
        """
        first = self.published(topic, options.dedup_id) if options.dedup_id else None
        if first is None and options.unique_key and topic.id is not None:
            first = self._owner(topic, options.unique_key)
        topic.duplicate_count += first is not None
        return first

    def _owner(self, topic: Topic, key: bytes) -> Accepted | None:
        """Return what became of the message that has a unique key, unless it has expired and nobody holds it."""
        found = topic.unique_keys.find(key)
        assert found is not None  # it was looked up
        now_ms = self._clock.now_ms()
        for message_id, expires_at_ms in found.items():
            if not 0 < expires_at_ms <= now_ms or _is_leased(topic, message_id):
                commit = self._journal.committer.of(is_next=topic.unique_keys.is_new(key, message_id))
                return Accepted(commit, message_id, is_duplicate=True)
        return None

    def published(self, topic: Topic, dedup_id: bytes) -> Accepted | None:
        """Return what was published with a dedup id, or None when it can be; raises as `first_of`."""
        oldest_ms = self._oldest_ms(topic)
        entry = None if topic.dedup is None else topic.dedup.find(dedup_id, oldest_ms)
        if topic.dedup is None or entry is None:
            self._check_room()
            return None
        commit = self._journal.committer.of(is_next=topic.dedup.is_new(dedup_id))
        return Accepted(commit, entry.message_id, is_duplicate=True, message_count=entry.message_count)

    def note(self, topic: Topic, options: PublishOptions, accepted: Accepted, expires_at_ms: int = 0) -> None:
        """Remember what has just been added to the next commit, and when it expires, 0 for never."""
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

    def install(self, topics: Iterable[Topic]) -> None:
        """Take over what the store holds, at the start and after a fault."""
        self._remembering = {topic: None for topic in topics if topic.dedup is not None}
        self._recount()

    def tick(self) -> None:
        """Forget ids whose time is over, and have them deleted."""
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

    def _check_room(self) -> None:
        if self._count >= self._quota.max_dedup_ids and self._clock.now_ms() >= self._look_at_ms:
            self._look_at_ms = self._clock.now_ms() + LOOK_MS  # who is refused may ask often
            self.tick()
        self._quota.admit_dedup_id(self._count)

    def _recount(self) -> None:
        self._count = sum(len(topic.dedup) for topic in self._remembering if topic.dedup is not None)


def _is_leased(topic: Topic, message_id: bytes) -> bool:
    """Whether somebody holds a message of this id, in the group with which keys go."""
    place = parse_any_id(message_id)
    if isinstance(place, DelayedId) or (partition := topic.partitions.get(place[0])) is None:
        return False
    return any(
        cursor.unique_keys is not None and cursor_view.is_leased(cursor, place[1])
        for cursor in partition.cursors.values()
    )
