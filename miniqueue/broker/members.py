"""Lets consumers be members of groups, and has partitions move in time.

    join ─▶ Membership of the group ─▶ partitions move ─▶ look, every few ms while some wait for leases
    leave, tick: somebody is gone ────────┘                  └ moved ─▶ who waits is served, in a later turn
         └ or holds messages and settles none: its stream is ended

A group has a membership from its first member to its last.
"""

import asyncio
from collections.abc import Callable

import structlog

from miniqueue.broker.clock import Clock
from miniqueue.broker.dispatcher import Dispatcher
from miniqueue.broker.group import Group
from miniqueue.broker.limits import Quota
from miniqueue.broker.membership import Member, Membership
from miniqueue.broker.topic import Topic
from miniqueue.core.group_start import check_new_group
from miniqueue.core.members import MembersOnlyError, NoMembersError, check_member
from miniqueue.errors import LimitReachedError, MiniqueueError

log = structlog.get_logger()

#: Of one group: each that joins has the shares of all looked at.
MAX_MEMBERS = 4096
#: How often partitions are looked at that wait for leases.
LOOK_SECONDS = 0.005


class Members:
    """The members of all groups.

    Args:
      topic_of: returns the topic of a name, also one that does not exist; raises InvalidTopicError.
      clock: tells whose time is over.
      dispatcher: serves who waits.
      quota: says how many groups there may be.
    """

    def __init__(self, topic_of: Callable[[bytes], Topic], clock: Clock, dispatcher: Dispatcher, quota: Quota) -> None:
        self._topic_of = topic_of
        self._quota = quota
        self._clock = clock
        self._dispatcher = dispatcher
        self._memberships: dict[Membership, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, topic_name: bytes, group_name: bytes, name: bytes) -> tuple[Group, Member | None]:
        """Return a group of a topic, neither of which need exist, for a consumer that joins at once.

        With it comes the member that the consumer is of, with one consumer more; None for b"", no name.

        Raises:
          InvalidTopicError, InvalidGroupError: there can be none of that name.
          UnknownGroupError: it does not exist, and the settings of the topic do not let it begin by being used.
          LimitReachedError: the topic has as many groups as it may have.
          InvalidMemberError: nobody can have this name.
          MembersOnlyError: the group has members.
          NoMembersError: it has others.
          LimitReachedError: it has as many members as may be.
        """
        topic = self._topic_of(topic_name)
        group = topic.groups.get(group_name)
        try:
            if group is None:
                check_new_group(group_name)
            topic.check_use(group_name)
            if group is None:
                group = self._made(topic, group_name)
            elif group.id is None and not group.consumer_count:  # the default group, which others have done without
                self._quota.admit_group(topic)
            return group, self._admit(group, name)
        except MiniqueueError:
            self._dispatcher.left(group or topic.default, [])
            raise

    def _made(self, topic: Topic, name: bytes) -> Group:
        self._quota.admit_group(topic)
        return topic.group(name)

    def _admit(self, group: Group, name: bytes) -> Member | None:
        membership = group.membership
        if not name:
            if membership is not None:
                raise MembersOnlyError
            return None
        check_member(name)
        if membership is None:
            if group.consumer_count:
                raise NoMembersError
            membership = group.membership = Membership(group, self._clock, self._changed)
            self._memberships[membership] = None
            _flow_anew(group)
        if len(membership.members) >= MAX_MEMBERS and name not in membership.members:
            raise LimitReachedError(f"as many members are in the group as may be, {MAX_MEMBERS}")
        return membership.join(name)

    def tick(self) -> None:
        """Have members leave whose sessions are over."""
        late = [stream for membership in self._memberships for stream in membership.late_streams()]
        if late:
            with self._dispatcher.many_leave():
                for stream in late:
                    stream.end_session()
            log.warning("streams of members were ended: they held messages and settled none in time", count=len(late))
        for membership in list(self._memberships):
            membership.end_sessions()

    def _changed(self, membership: Membership) -> None:
        group = membership.group
        if not membership.members:
            group.membership = None
            self._memberships.pop(membership, None)
            _flow_anew(group)
        asyncio.get_running_loop().call_soon(self._serve, group)
        self._look_later()

    def _serve(self, group: Group) -> None:
        """Commit what came back, and hand it to who reads it now."""
        self._dispatcher.settled(group, is_returned=True)

    def _look_later(self) -> None:
        if self._timer is None and any(membership.is_moving for membership in self._memberships):
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        for membership in list(self._memberships):
            if membership.is_moving and membership.look():
                self._serve(membership.group)
        self._look_later()


def _flow_anew(group: Group) -> None:
    """Have messages flow as they do for members, or no more."""
    if group.topic.flows is not None:
        group.topic.flows.apply_to(group)
