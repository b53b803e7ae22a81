"""A topic as the broker holds it: its partitions, and the groups that read them."""

import sys
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from miniqueue.broker.group import Group
from miniqueue.broker.held import MANY_PARTITIONS, Held
from miniqueue.broker.summing import size_bytes, total
from miniqueue.broker.topic_stats import TopicStats, stats_of
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.dedup_window import DedupWindow
from miniqueue.core.delayed import NO_DELAYS
from miniqueue.core.group_errors import UnknownGroupError
from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.growth import Growth
from miniqueue.core.lanes import lane
from miniqueue.core.partition import DEFAULT_GROUP, Partition
from miniqueue.core.partitioning import MAX_PARTITIONS, partition_for
from miniqueue.core.publish_options import Priority
from miniqueue.core.topic_settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.core.unique_keys import UniqueKeys
from miniqueue.errors import MiniqueueError

if TYPE_CHECKING:
    from miniqueue.broker.flow import Flows
    from miniqueue.broker.trace import TopicTrace
    from miniqueue.broker.watch import Pulse


class Topic:
    """A named topic.

    `id` is None until the first publish, and again after the topic was deleted: consumers may wait on a topic
    that does not exist yet, and go on waiting when it is deleted. `fault` is what makes it unreadable, if anything.
    `partitions` are found by their numbers; the first `partition_count` have no priority, and 0 is always there.
    `plain` is the one to which messages without a key go now.
    `sole` is that partition with the cursor of the group, while there is but one of each.
    `groups` are found by their names; `default` is the one of plain clients, and always there. `pulse` times
    hand-outs, where somebody watches; `flows` is set where messages do not flow plainly, `trace` where what happens to
    them is noted; `growths` say where logs ended when partitions were added. `held_at_most` is known where
    `max_messages` or `max_bytes` are limits. `dedup` has the ids of late publishes, if there are any, `unique_keys`
    what is known of unique keys. `expired_count` messages have expired since the start; without a time to live of its
    own one does so after `ttl_ms`, 0 for never.
    """

    __slots__ = (
        "dedup",
        "default",
        "duplicate_count",
        "expired_count",
        "fault",
        "flows",
        "groups",
        "growths",
        "held_at_most",
        "id",
        "is_limited",
        "is_paused_in",
        "is_paused_out",
        "max_bytes",
        "max_messages",
        "name",
        "partition_count",
        "partitions",
        "plain",
        "pulse",
        "settings",
        "sole",
        "trace",
        "ttl_ms",
        "unique_keys",
    )

    plain: Partition  # while the topic exists

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.held_at_most: Held | None = None
        self.max_messages = self.max_bytes = sys.maxsize
        self.is_limited = False
        self.pulse: Pulse | None = None
        self.flows: Flows | None = None
        self.expired_count = 0
        self.duplicate_count = 0  # of publishes, since the start
        self.partitions: dict[int, Partition] = {}
        self.default = Group(self, DEFAULT_GROUP_NAME)
        self.groups = {DEFAULT_GROUP_NAME: self.default}
        self.clear()

    def clear(self) -> None:
        """Become a topic that does not exist: end every lease, forget every message, keep who waits."""
        self.flows = None
        self.trace: TopicTrace | None = None
        for group in list(self.groups.values()):
            group.clear()
            self.drop_idle(group)
        self.id: int | None = None
        self.fault: MiniqueueError | None = None
        self.settings = DEFAULT_SETTINGS
        self.is_paused_in = self.is_paused_out = False
        self.ttl_ms = 0
        self.dedup: DedupWindow | None = None
        self.unique_keys = UniqueKeys()
        self.partitions = {}
        self.growths: list[Growth] = []
        self.partition_count = 1
        self.sole: tuple[Partition, GroupCursor] | None = None

    def begin(self, topic_id: int, names: Iterable[bytes] = (), settings: TopicSettings = DEFAULT_SETTINGS) -> None:
        """Come to exist, empty; these are the settings that it will have.

        It has the groups that are named, and, if groups may begin by being used, those in which somebody waits; if
        there are none, the default group.
        """
        self.id = topic_id
        begun = {name: self.group(name) for name in names}
        if settings.auto_create_groups:
            begun |= {name: group for name, group in self.groups.items() if group.consumer_count}
        for number, group in enumerate(begun.values() or [self.default], start=1):
            group.id = DEFAULT_GROUP if group is self.default else number
        self.add_partitions([0])
        self.plain = self.partitions[0]

    def fill(self, topic_id: int, partitions: dict[int, Partition], group_ids: dict[bytes, int]) -> None:
        """Become the topic that a store holds, after `clear`; keep who waits."""
        self.id = topic_id
        self.partitions = partitions
        self.plain = partitions[0]
        for name, group_id in group_ids.items():
            group = self.group(name)
            group.id = group_id
            group.replace(partition.cursors[group_id] for partition in partitions.values())
        self._look_for_sole()
        self._share_keys()

    def group(self, name: bytes) -> Group:
        """Return the group of a name, which need not exist."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(self, name)
        return group

    def check_use(self, name: bytes) -> None:
        """Raise UnknownGroupError unless consumers may read with the group of this name, which need not exist."""
        settings = self.settings
        if self.id is None or (settings.auto_create_groups and settings.default_group):
            return
        if name == DEFAULT_GROUP_NAME and not settings.default_group:
            raise UnknownGroupError("group default: this topic was made without it (default_group); name another group")
        group = self.groups.get(name)
        if not settings.auto_create_groups and (group is None or group.id is None):
            raise UnknownGroupError(
                f"group {name.decode()}: there is none, and in this topic using one does not make it "
                "(auto_create_groups); create it first"
            )

    @property
    def existing_groups(self) -> list[Group]:
        """Those that read the messages; at least one, unless the topic does not exist."""
        return [group for group in self.groups.values() if group.id is not None]

    @property
    def has_named_groups(self) -> bool:
        """Whether others than the default group read the messages."""
        return any(group is not self.default for group in self.existing_groups)

    def group_of(self, cursor: GroupCursor) -> Group:
        """Return the group that has a cursor of this topic."""
        return next((group for group in self.groups.values() if group.id == cursor.group), self.default)

    def drop_idle(self, group: Group) -> None:
        """Forget a group that does not exist and that nobody waits in."""
        if group.id is None and not group.consumer_count and group is not self.default:
            self.groups.pop(group.name, None)

    def set_cursors(self, group: Group, group_id: int | None, cursors: dict[int, GroupCursor]) -> None:
        """Have a group read with these cursors, by partition, under this id; None and none for a group no more."""
        for partition in self.partitions.values():
            partition.replace(group.id, None if group_id is None else cursors[partition.number])
        group.clear()
        group.id = group_id
        group.replace(cursors.values())
        self._look_for_sole()
        self._share_keys()

    def add_partitions(self, numbers: Iterable[int]) -> list[Partition]:
        """Make partitions, empty, that all groups read; the caller stores them."""
        groups = {group.id: group for group in self.existing_groups if group.id is not None}
        added = [
            Partition(
                0,
                {id_: GroupCursor(CursorState(), 0, {}, is_new=True, partition=number, group=id_) for id_ in groups},
                number=number,
            )
            for number in numbers
        ]
        self.partitions |= {partition.number: partition for partition in added}
        for id_, group in groups.items():
            group.replace([*group.cursors, *(partition.cursors[id_] for partition in added)])
        self._look_for_sole()
        self._share_keys()
        return added

    def number_for(self, key: bytes, priority: Priority) -> int:
        """Return the number of the partition, or of its lane, to which a message goes next; `key` is b"" for none."""
        if not key:
            return lane(self.plain.number, priority)
        return lane(partition_for(key, self.partition_count), priority)

    def turn(self) -> None:
        """Have messages without a key go to the next partition."""
        self.plain = self.partitions[(self.plain.number + 1) % self.partition_count]

    def _share_keys(self) -> None:
        """Have the unique key of a message be free when the `key_group` is done with it."""
        owner = self.key_group
        for group in self.existing_groups:
            for cursor in group.cursors:
                cursor.unique_keys = self.unique_keys if group is owner else None

    @property
    def key_group(self) -> Group | None:
        """With which messages leave the topic, and their unique keys are free: the default group, or the first."""
        groups = self.existing_groups
        return self.default if self.default in groups else min(groups, key=attrgetter("name"), default=None)

    def _look_for_sole(self) -> None:
        self.partition_count = sum(number < MAX_PARTITIONS for number in self.partitions)
        partition, cursors = self.partitions[0], [*self.partitions[0].cursors.values()]
        self.sole = (partition, cursors[0]) if len(self.partitions) == len(cursors) == 1 else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when this object is dropped."""
        return self.id is None and not any(group.consumer_count for group in self.groups.values())

    @property
    def cursors(self) -> list[GroupCursor]:
        """Those of all groups."""
        return [*chain.from_iterable(map(attrgetter("cursors"), self.groups.values()))]

    @property
    def size_bytes(self) -> int:
        """Roughly what the loaded messages cost in memory."""
        return size_bytes(self.cursors)

    @property
    def consumed_bytes(self) -> int:
        """Roughly what has been deleted on disk since space was last given back."""
        return total("consumed_bytes", self.partitions.values())

    def held(self) -> tuple[int, int]:
        """Count messages that are not acknowledged, and the bytes of their payloads; also what is not yet committed."""
        if self.sole is None:
            return self._held_by_last()
        partition, cursor = self.sole
        delayed = partition.delays.state
        return (
            partition.next_seq - cursor.acked_count - cursor.dropped_count + delayed.message_count,
            partition.log_bytes - cursor.gone_bytes + delayed.size_bytes,
        )

    def count_held(self) -> Held:
        """Count the same, and know it from then on."""
        held = Held(*self.held())
        held.is_exact = len(self.partitions) >= MANY_PARTITIONS
        self.held_at_most = held
        return held

    @property
    def depth(self) -> int:
        """How many messages some group has not acknowledged, by that which is furthest behind; and what is delayed."""
        delayed_count = sum(partition.delays.committed.message_count for partition in self.partitions.values())
        return (0 if self.last_group is None else self.last_group.depth) + delayed_count

    def _held_by_last(self) -> tuple[int, int]:
        """Do the same where there are lanes or groups: what the group holds that is furthest behind."""
        partitions, lines = self.partitions.values(), [group.cursors for group in self.existing_groups] or [[]]
        gone_count = min(total("acked_count", cursors) + total("dropped_count", cursors) for cursors in lines)
        gone_bytes = min(total("gone_bytes", cursors) for cursors in lines)
        states = [*map(attrgetter("delays.state"), partitions)]
        delayed = states if states.count(NO_DELAYS) < len(states) else []
        return (
            total("next_seq", partitions) - gone_count + total("message_count", delayed),
            total("log_bytes", partitions) - gone_bytes + total("size_bytes", delayed),
        )

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes of the payloads that the next commit adds."""
        return total("log_bytes", self.partitions.values()) - total("tail_bytes", self.existing_groups[0].cursors)

    @property
    def uncommitted_count(self) -> int:
        """How many messages the next commit adds."""
        return total("next_seq", self.partitions.values()) - total("tail_seq", self.existing_groups[0].cursors)

    @property
    def last_group(self) -> Group | None:
        """The one that is furthest behind, so that the store holds what it needs."""
        groups = self.existing_groups
        return max(groups, key=attrgetter("depth")) if len(groups) > 1 else groups[0] if groups else None

    def evict(self) -> None:
        """Give memory back."""
        for cursor in self.cursors:
            cursor.evict()

    def stats(self) -> TopicStats:
        """Count what there is: what the group holds that is furthest behind, and what all have done."""
        return stats_of(self)
