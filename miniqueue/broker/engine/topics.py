"""The registry of topics by name: topics are made when first needed, each with an id that no other topic ever had."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import compress, count, repeat
from operator import attrgetter, is_not
from typing import TYPE_CHECKING

from miniqueue.broker.commit.journal import Journal
from miniqueue.broker.engine import lanes
from miniqueue.broker.model.limits import Limits
from miniqueue.broker.model.new_partitions import NewPartitions, PartitionsDueError
from miniqueue.broker.model.shares import Pool, Shares
from miniqueue.broker.model.topic import Topic, total
from miniqueue.broker.runtime.accounts import user_of
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.broker.stored import encode_commit
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.log.partition import DEFAULT_GROUP
from miniqueue.core.message.names import DEFAULT_GROUP_NAME, check_new_topic, check_topic
from miniqueue.core.message.parts import (
    MAX_PARTS,
    SEPARATOR,
    first_partition_of,
    has_suffix,
    parse_part,
    part_for,
    part_name,
    whole_of,
)
from miniqueue.core.settings.defaults import NO_DEFAULTS, TopicDefaults
from miniqueue.core.settings.placing import WHOLE
from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX, DEFAULT_SETTINGS, TopicSettings
from miniqueue.core.settings.spreading import NEVER_GREW, Earlier, earlier_of
from miniqueue.errors import InvalidTopicError, LimitReachedError
from miniqueue.errors.requests import CrossShardError, ShardAwayError
from miniqueue.storage.format import keys, values

if TYPE_CHECKING:
    from miniqueue.broker.outbox.outbox import Outbox

_id = attrgetter("id")


class Topics:
    """Creates and removes topics.

    Args:
      by_name: the topics, including those that do not exist but have waiting consumers.
      journal: commits the creation and removal of topics.
      limits: limits the number of topics.
      shares: limits the number of topics of each owner, and what they hold.
      clock: returns the creation time of a topic.

    Attributes:
      defaults: the settings of new topics.
      placing: the place of this broker among the shards; it has no topics of others.
      spread: the number of parts of each spread topic, by its name. Every shard has the topic itself, which is empty:
        it only has the settings, those of all parts together.
      erasures: the names of deleted spread topics whose parts may still be there, by the ids that the topics had.
      outbox: the messages on their way to topics of other shards; None: there are no other shards.
      spare: the partitions that a new topic gets unless its creator has made some.
    """

    def __init__(
        self,
        by_name: dict[bytes, Topic],
        journal: Journal,
        limits: Limits,
        shares: Shares,
        clock: Clock,
    ) -> None:
        self.by_name = by_name
        self._journal = journal
        self._limits = limits
        self._shares = shares
        self._owned: defaultdict[str, set[Topic]] = defaultdict(set)  # topics by owner; empty: those without one
        self._uncounted: Counter[str] = Counter()  # how many of them are parts of spread topics, or copies of these
        self._clock = clock
        self.defaults = NO_DEFAULTS
        self.placing = WHOLE
        self.spread: dict[bytes, int] = {}
        self._grown: dict[bytes, Topic] = {}  # the spread topics that have had fewer parts
        self.erasures: dict[int, bytes] = {}
        self._turns = count()
        self.outbox: Outbox | None = None
        self.spare = NewPartitions()
        self._next_id, self._count = 1, 0
        self._names: list[bytes] | None = None  # sorted; None: the topics have changed

    def topic(self, name: bytes) -> Topic:
        """Return the topic `name`, which need not exist; raises InvalidTopicError."""
        topic = self.by_name.get(name)
        if topic is None:
            topic = self.by_name[name] = Topic(check_topic(name))
        return topic

    def check_name(self, name: bytes, settings: TopicSettings | None = None) -> bytes:
        """Return a name if a topic can be created with it here; raises InvalidTopicError, CrossShardError.

        A part of a spread topic is created with its topic, which has `settings`: raises ShardAwayError before that, and
        after the topic was deleted, even if another one has its name, with fewer parts.
        """
        if not self.placing.has(check_new_topic(name)):
            raise CrossShardError(name)
        if SEPARATOR in name:
            if self.placing.shard_count == 1:
                raise InvalidTopicError
            if settings is None and not self.has_part(name):
                raise ShardAwayError(f"topic {whole_of(name).decode()} is being created, or was deleted; try again")
        return name

    def has_part(self, name: bytes) -> bool:
        """Return whether a spread topic has the part with a name."""
        part = parse_part(name)
        return part is not None and part[1] < self.spread_of(part[0])

    def spread_of(self, name: bytes) -> int:
        """Return over how many parts a topic is spread; 0 if it is not, or does not exist.

        The dead letters of a spread topic, and theirs, are spread like it.
        """
        if not self.spread:
            return 0
        while (count := self.spread.get(name, 0)) == 0 and name.endswith(DEAD_LETTER_SUFFIX):
            name = name.removesuffix(DEAD_LETTER_SUFFIX)
        return count

    def earlier_of(self, name: bytes) -> Earlier:
        """Return the numbers of parts that a topic has had before; dead letters have as many as their topic."""
        if not self._grown:
            return NEVER_GREW
        while name not in self._grown and name.endswith(DEAD_LETTER_SUFFIX):
            name = name.removesuffix(DEAD_LETTER_SUFFIX)
        return earlier_of(self._grown[name].settings, self._clock.now_ms()) if name in self._grown else NEVER_GREW

    def part_to_move_to(self, name: bytes, key: bytes) -> bytes:
        """Return the name of the topic that a message with a key, b"" for none, enters if it is moved to a topic.

        It is the topic itself, or, if it is spread, the part of the key; without a key, a part in turn.
        """
        count = self.spread_of(name)
        if not count:
            return name
        return part_name(name, part_for(key, count) if key else next(self._turns) % count)

    def note_spread(self, topic: Topic) -> None:
        """Remember whether a topic is spread: it was created, changed, or removed."""
        if topic.settings.spread:
            self.spread[topic.name] = topic.settings.spread
        elif self.spread:
            self.spread.pop(topic.name, None)
        if topic.settings.spread_before:
            self._grown[topic.name] = topic
        elif self._grown:
            self._grown.pop(topic.name, None)

    def check_destination(self, name: bytes) -> None:
        """Raise InvalidTopicError, or CrossShardError, unless messages can be moved to a topic, here or elsewhere."""
        if self.outbox is None:
            self.check_name(name)
        check_new_topic(name)

    def is_elsewhere(self, name: bytes) -> bool:
        """Return whether another shard has the topic `name`."""
        return not self.placing.has(name)

    def find(self, name: bytes) -> Topic | None:
        """Return the topic `name` if it exists, else None."""
        topic = self.by_name.get(name)
        return None if topic is None or topic.id is None else topic

    def existing(self) -> list[bytes]:
        """Return the names of the existing topics, sorted; the caller must not change the list."""
        if self._names is None:
            # There may be thousands of topics, so no line of Python runs for one of them.
            ids = map(_id, self.by_name.values())
            self._names = sorted(compress(self.by_name, map(is_not, ids, repeat(None))))
        return self._names

    def create(
        self,
        name: bytes,
        payloads: Sequence[bytes] = (),
        attributes: Sequence[bytes] | None = None,
        groups: Sequence[bytes] = (),
        *,
        settings: TopicSettings | None = None,
        owner: str | None = None,
        made: NewPartitions | None = None,
    ) -> Topic:
        """Create a topic that does not exist, with `groups`, if there is room for it and for these messages.

        Without `settings`, it has the defaults of new topics. Its owner is `owner`, empty for none; None means the user
        who acts. Raises InvalidTopicError or LimitReachedError; with `made`, also PartitionsDueError.
        """
        is_whole = settings is not None and bool(settings.spread)  # every shard has it
        topic = self.topic(check_new_topic(name) if is_whole else self.check_name(name, settings))
        owner = self.owner_of_new(owner)
        settings = self.settings_of_new(name, owner, settings)
        size_bytes = sum(map(len, payloads)) + (sum(map(len, attributes)) if attributes else 0)
        try:
            if self.is_counted(name):
                self._shares.admit(Pool.TOPICS, owner)
            self._limits.admit_partitions(settings.partitions * len(topic.first_groups(groups, settings)), owner)
            self._shares.admit_bytes(owner, size_bytes)
            if settings is DEFAULT_SETTINGS or not payloads:
                self._limits.admit_topic(topic, self._count, payloads, size_bytes, attributes)
            else:  # its own limits apply, too
                with self.like_new(name, settings) as new:
                    self._limits.admit_topic(new, self._count, payloads, size_bytes, attributes)
            if made is not None:
                numbers = range(topic.first_partition + 1, topic.first_partition + settings.partitions)
                made.check(numbers, {*topic.first_ids(groups, settings).values()})
        except (LimitReachedError, PartitionsDueError):
            self.drop_idle(topic)
            raise
        self._count += 1
        self._names = None
        self._own(topic, owner)
        topic.begin(self._next_id, groups, settings)
        self.note_spread(topic)
        if settings != DEFAULT_SETTINGS:
            self._journal.change({keys.settings(self._next_id): values.encode_settings(settings)})
        self._journal.events.changed(topic)
        self._next_id += 1
        self._journal.change(encode_commit.new_topic(topic, self._clock.now_ms()))
        if settings.partitions > 1:
            lanes.grow(self._journal, topic, settings.partitions, self.spare if made is None else made)
        if settings != DEFAULT_SETTINGS:
            self._journal.events.readable(topic)  # consumers that wait may be in groups that it does not permit
        if self.is_reported(name):
            self._journal.notices.report(NoticeKind.TOPIC_CREATED, name)
        return topic

    def set_defaults(self, defaults: TopicDefaults) -> None:
        """Replace the settings of topics that are created from now on."""
        self.defaults = defaults
        self.spare.clear()

    def check_spare(self, name: bytes, settings: TopicSettings) -> None:
        """Raise PartitionsDueError if a topic with these settings begins with many partitions that are not spare."""
        if settings.partitions > 1:
            first, topic = first_partition_of(name), self.by_name.get(name)
            ids = {DEFAULT_GROUP} if topic is None else {*topic.first_ids((), settings).values()}
            self.spare.check(range(first + 1, first + settings.partitions), ids)

    def check_new(
        self,
        name: bytes,
        payloads: Sequence[bytes],
        size_bytes: int,
        attributes: Sequence[bytes] | None,
        *,
        topic_count: int,
        partition_count: int,
    ) -> None:
        """Raise as `create` if a topic cannot be created for these messages, together with others; create nothing.

        Args:
          name: the name of the topic, which does not exist.
          payloads: the payloads of its messages.
          size_bytes: total size of payloads and attributes.
          attributes: the encoded attributes of each message, if any.
          topic_count: number of topics that the caller creates before it.
          partition_count: number of partitions of all these topics, each counted once for each group.
        """
        owner = self.owner_of_new(None)
        self._shares.admit(Pool.TOPICS, owner, topic_count + 1)
        self._limits.admit_partitions(partition_count, owner)
        self._shares.admit_bytes(owner, size_bytes)
        with self.like_new(name) as topic:
            self._limits.admit_topic(topic, self._count + topic_count, payloads, size_bytes, attributes)

    @contextmanager
    def like_new(self, name: bytes, settings: TopicSettings | None = None) -> Iterator[Topic]:
        """Yield a topic with the settings of one that is created now, to check against them; it is not registered."""
        topic = Topic(name)
        topic.settings = self.settings_of_new(name, settings=settings)
        try:
            yield topic
        finally:
            topic.dissolve()

    def settings_of_new(
        self, name: bytes, owner: str | None = None, settings: TopicSettings | None = None
    ) -> TopicSettings:
        """Return the settings with which a topic is created now for an owner; without `settings`, its defaults."""
        owner = self.owner_of_new(owner)
        settings = self.defaults.settings(name) if settings is None else settings
        return settings if owner == (settings.owner or "") else settings._replace(owner=owner or None)

    def partition_count_of_new(self, name: bytes, settings: TopicSettings) -> tuple[int, int]:
        """Return how many partitions and how many groups a topic has that a publish creates now."""
        topic = self.by_name.get(name)
        groups = [DEFAULT_GROUP_NAME] if topic is None else topic.first_groups((), settings)
        return settings.partitions, len(groups)

    def owner_of_new(self, owner: str | None) -> str:
        """Return the owner of a topic that is created now for `owner`, empty for none; None means the user who acts."""
        return user_of(CURRENT_ACTOR.get()) if owner is None else owner

    def check_owner(self, topic: Topic, owner: str | None) -> None:
        """Raise ShareLimitError if a topic gets another owner, who has as many as one may have."""
        if owner != topic.settings.owner and self.is_counted(topic.name):
            self._shares.admit(Pool.TOPICS, owner or "")

    def count_for(self, topic: Topic, owner: str | None) -> None:
        """Count a topic for another owner from now on."""
        self._disown(topic)
        self._own(topic, owner or "")

    def is_counted(self, name: bytes) -> bool:
        """Return whether a topic counts as one: a spread topic does so once, in its home shard, with its dead letters.

        Its parts, and its copies in other shards, do not.
        """
        return SEPARATOR not in name and self.placing.has(name)

    def is_reported(self, name: bytes) -> bool:
        """Return whether what happens to a topic is reported: that of a spread topic is once, by its home shard.

        Dead letters of a spread topic have no home before they have settings: then the first and the last part of them
        that is here is reported.
        """
        if SEPARATOR not in name:
            return self.placing.has(name)
        if not has_suffix(name, DEAD_LETTER_SUFFIX) or self.is_copy(whole := whole_of(name)):
            return False
        others = (part for number in range(MAX_PARTS) if (part := part_name(whole, number)) != name)
        return not any(map(self.find, others))

    def is_copy(self, name: bytes) -> bool:
        """Return whether a topic has only the settings of a spread topic: it is in every shard, beside the parts."""
        return name in self.spread

    def parts_here(self, name: bytes) -> list[bytes]:
        """Return the names of the parts of a topic that are in this shard; its own name if it is not spread."""
        count = self.spread_of(name)
        parts = [part_name(name, number) for number in range(count)]
        return [part for part in parts if self.placing.has(part)] if count else [name]

    def owned_count(self, owner: str | None) -> int:
        """Return the number of topics that count for an owner, empty for none; with None, for all."""
        if owner is None:
            return self._count - self._uncounted.total()
        return len(self._owned.get(owner, ())) - self._uncounted[owner]

    def owned_bytes(self, owner: str | None) -> int:
        """Return how many bytes the topics of an owner hold; with None, all topics."""
        return sum(map(self.owned_bytes, self._owned)) if owner is None else total("stored_bytes", self.of_owner(owner))

    def of_owner(self, owner: str) -> Collection[Topic]:
        """Return the topics of an owner; an empty name stands for none."""
        return self._owned.get(owner, ())

    def _own(self, topic: Topic, owner: str) -> None:
        self._owned[owner].add(topic)
        self._uncounted[owner] += not self.is_counted(topic.name)

    def _disown(self, topic: Topic) -> None:
        owner = topic.settings.owner or ""
        self._owned[owner].discard(topic)
        self._uncounted[owner] -= not self.is_counted(topic.name)
        if not self._owned[owner]:
            del self._owned[owner], self._uncounted[owner]

    def remove(self, topic: Topic, *, has_parts: bool = False) -> None:
        """Remove a topic, durably with the next commit; its waiting consumers continue to wait.

        That a spread topic still has parts is stored, until `forget_erasure`.
        """
        assert topic.id is not None
        if has_parts:
            self.erasures[topic.id] = topic.name
        erasure = values.encode_erasure(topic.name) if has_parts else b""
        self._journal.change({keys.topic(topic.name): None, keys.purge(topic.id): erasure})
        if self.is_reported(topic.name):
            self._journal.notices.report(NoticeKind.TOPIC_DELETED, topic.name)
        self._count -= 1
        self._names = None
        self._disown(topic)
        topic.clear()
        self.note_spread(topic)
        self._limits.measure(topic)
        self.drop_idle(topic)

    def forget_erasure(self, topic_id: int) -> None:
        """Note that a deleted spread topic has no parts anymore, durably with the next commit."""
        if self.erasures.pop(topic_id, None) is not None:
            self._journal.change({keys.purge(topic_id): b""})

    def drop_idle(self, topic: Topic) -> None:
        """Forget a topic that does not exist and has no waiting consumers."""
        if topic.is_idle:
            del self.by_name[topic.name]
            topic.dissolve()

    def restored(self, content: StoreContent) -> None:
        """Take over the content of the store, at startup and after a fault."""
        self._next_id = content.next_topic_id
        self._count = len(content.topics)
        self._names = None
        self._owned.clear()
        self._uncounted.clear()
        self.erasures = dict(content.erasures)
        self.spread.clear()
        self._grown.clear()
        for topic in content.topics:
            self.note_spread(topic)
            self._own(topic, topic.settings.owner or "")
        self.by_name.update({topic.name: topic for topic in content.topics})
