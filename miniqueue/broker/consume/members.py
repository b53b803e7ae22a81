"""The members of all groups: admits consumers as members, ends sessions, and moves partitions in time.

    join ───────────────────▶ Membership of the group ─▶ partitions move ─▶ check every few ms, while leases of moving
    leave, or at a tick:        ▲                                             │ partitions exist
      the session expired ──────┤                                             └ moved ─▶ waiting consumers are served,
      no message settled in time: its stream is closed                          in a later event-loop iteration

A group has a membership from the time its first member joins until its last member leaves.
"""

import asyncio

import structlog

from miniqueue.broker.consume.dispatcher import Dispatcher
from miniqueue.broker.consume.member_clock import MemberClock
from miniqueue.broker.consume.membership import Member, Membership
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.runtime.accounts import account_of
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.message.names import check_member, check_new_group
from miniqueue.core.message.parts import is_first
from miniqueue.errors import LimitReachedError, MiniqueueError
from miniqueue.errors.requests import MembersOnlyError, NoMembersError

log = structlog.get_logger()

#: Maximum number of members of one group: each join recalculates the partitions of all members.
MAX_MEMBERS = 4096
#: Interval at which partitions that are moving are checked for leases.
LOOK_SECONDS = 0.005


class Members:
    """The members of all groups.

    Args:
      engine: provides the topics, and limits the number of groups and the memory of members.
      dispatcher: serves waiting consumers.
      period_seconds: the time between two ticks.
    """

    def __init__(self, engine: Engine, dispatcher: Dispatcher, period_seconds: float) -> None:
        self._topic_of = engine.topics.topic
        self._limits = engine.limits
        self._memory = engine.memory
        self._clock = MemberClock(engine.clock, engine.journal.admission, period_seconds)
        self._dispatcher = dispatcher
        self._memberships: dict[Group, Membership] = {}
        self._names: dict[Group, frozenset[bytes]] = {}  # the members of each group when they last changed
        self._notices = engine.notices
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, topic_name: bytes, group_name: bytes, name: bytes) -> tuple[Group, Member | None]:
        """Return a group of a topic, and the member `name` of it, for a consumer that joins immediately.

        Neither the topic nor the group need exist. The new consumer is already counted in the member. If `name` is
        b"", the consumer belongs to no member, and None is returned as the member.

        Raises:
          InvalidTopicError, InvalidGroupError: the topic or the group cannot have its name.
          UnknownGroupError: the group does not exist, and the topic's settings do not let it begin by being used.
          LimitReachedError: the topic has its maximum number of groups, or the group that of members.
          InvalidMemberError: no member can have this name.
          MembersOnlyError: the group has members, and `name` is b"".
          NoMembersError: the group has consumers that belong to no member.
          MemoryLimitError: the client may not use the memory of another member.
        """
        topic = self._topic_of(topic_name)
        group = topic.groups.get(group_name)
        try:
            if group is None:
                check_new_group(group_name)
            topic.check_use(group_name)
            if group is None:
                group = self._made(topic, group_name)
            elif group.id is None and not group.consumer_count:  # the default group, which does not exist yet
                self._limits.admit_group(topic)
            return group, self._admit(group, name)
        except MiniqueueError:
            self._dispatcher.consumer_left(group or topic.default, [])
            raise

    def touch(self, topic_name: bytes, group_name: bytes, name: bytes) -> None:
        """Add a member, or extend its session, as a receive does that gets nothing; raises as `enter`."""
        group, member = self.enter(topic_name, group_name, name)
        if member is not None:
            member.leave(group.topic.settings.session_seconds)
        self._dispatcher.consumer_left(group)

    def _made(self, topic: Topic, name: bytes) -> Group:
        self._limits.admit_group(topic)
        return topic.group(name)

    def _admit(self, group: Group, name: bytes) -> Member | None:
        membership = self._memberships.get(group)
        if not name:
            if membership is not None:
                raise MembersOnlyError
            return None
        check_member(name)
        if membership is None and group.consumer_count:
            raise NoMembersError
        if membership is None or name not in membership.members:
            self._memory.check()
        if membership is None:
            membership = group.membership = Membership(group, self._clock, self._changed)
            self._memberships[group] = membership
            self._dispatcher.apply_flow(group)
        if len(membership.members) >= MAX_MEMBERS and name not in membership.members:
            raise LimitReachedError(f"as many members are in the group as may be, {MAX_MEMBERS}")
        account = account_of(CURRENT_ACTOR.get())
        return membership.join(name, None if account is None else account.owner)  # which outlives the connection

    def tick(self) -> None:
        """End the sessions that have expired; a gap between two ticks does not count."""
        now = self._clock.now()
        late = [stream for membership in self._memberships.values() for stream in membership.late_streams(now)]
        if late:
            with self._dispatcher.many_leave():
                for stream in late:
                    stream.end_session()
            log.warning("streams of members were ended: they held messages and settled none in time", count=len(late))
        for membership in list(self._memberships.values()):
            membership.end_sessions()

    def restored(self, _content: StoreContent) -> None:
        """Exclude the time in which the store was closed from all sessions and handovers."""
        self._clock.skip()

    def _changed(self, membership: Membership) -> None:
        group = membership.group
        self._report_changes(membership)
        if not membership.members:
            group.membership = None
            self._memberships.pop(group, None)
            self._dispatcher.apply_flow(group)
        asyncio.get_running_loop().call_soon(self._serve, group)
        self._look_later()

    def _report_changes(self, membership: Membership) -> None:
        group, names = membership.group, frozenset(membership.members)
        before = self._names.pop(group, frozenset())
        if names:
            self._names[group] = names
        if not is_first(group.topic.name):  # members are in all parts of a spread topic
            return
        for kind, changed in ((NoticeKind.MEMBER_JOINED, names - before), (NoticeKind.MEMBER_LEFT, before - names)):
            for name in sorted(changed):
                self._notices.report(kind, group.topic.name, group=group.name.decode(), member=name.decode())

    def _serve(self, group: Group) -> None:
        """Commit returned messages, and deliver them to the consumers that read their partitions now."""
        self._dispatcher.settled(group, 0)

    def _look_later(self) -> None:
        if self._timer is None and any(membership.is_moving for membership in self._memberships.values()):
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        for membership in list(self._memberships.values()):
            if membership.is_moving and membership.look():
                self._serve(membership.group)
        self._look_later()
