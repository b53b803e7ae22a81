"""Moves dead letters back to where they came from, a page at a time; each page leaves and arrives in one commit.

    redrive ─▶ take a page, as a consumer ─▶ by origin: add there, without the origin ─▶ commit ─▶ next page
                                                └ no origin: to the back       pause, if there is a rate ┘

It is the group that gave a message up that gets it back: where others read the topic, too, it is marked as for that
group alone. Where the group is no more, the message goes to the back as well.
With a target all go there, wherever they came from, also what has no origin, and for all groups.

They are taken as a consumer of the default group takes them, or of the first where that is not there: no group is made
for it, since nobody would read what dies later in it.

It stops when as many were looked at as were ready when it began, so what dies again meanwhile is not chased. Wherever
it is broken off, a message is in one of the topics: what was taken and not moved returns to the front.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

from miniqueue.broker.consumer import Consumer
from miniqueue.broker.dispatcher import Dispatcher
from miniqueue.broker.due_counting import DueCounter
from miniqueue.broker.group import Group
from miniqueue.broker.group_figures import figures_of
from miniqueue.broker.journal import Journal
from miniqueue.broker.lanes import Content
from miniqueue.broker.looking import committed_topic
from miniqueue.broker.named_groups import group_named
from miniqueue.broker.topic import Topic
from miniqueue.broker.trace import Receiver, Source, place_of
from miniqueue.broker.transfer import Transfer
from miniqueue.core import attributes
from miniqueue.core.attributes import Attributes
from miniqueue.core.lanes import lane, priority_of
from miniqueue.core.lease import Lease
from miniqueue.core.names import check_new_topic, check_topic
from miniqueue.core.topic_errors import PausedError, UnknownTopicError
from miniqueue.core.tracing import Kind
from miniqueue.errors import MiniqueueError, RequestError, TopicFullError

#: Of a commit.
MAX_PAGE_MESSAGES = 1000


class _Found(NamedTuple):
    """A message taken, by its receipt, and what it is again where it came from; `name` is None for no dead letter.

    `partition` and `seq` are where it is; `group` gave it up, None where it is to be for all.
    """

    receipt: int
    partition: int
    seq: int
    name: bytes | None
    group: bytes | None
    attributes: Attributes
    content: Content

    def only_for_its_group(self) -> "_Found":
        """Return it as a message that no other group gets."""
        if self.group is None:
            return self
        extra = self.attributes._replace(only_for=self.group).encode()
        return self._replace(content=self.content._replace(attributes=extra))


class Redriven(NamedTuple):
    """What a redrive has done.

    Attributes:
      moved: how many messages were moved, durably.
      remaining: how many are ready in the topic now, and were not moved; None if the topic is gone, or if the store
        failed, so that nobody knows.
      error: what ended it before its end, if anything did.
    """

    moved: int
    remaining: int | None
    error: MiniqueueError | None = None

    @property
    def error_text(self) -> str:
        """What ended it before its end, with the counts, for people; empty if nothing did."""
        if self.error is None:
            return ""
        remaining = "how many remain is not known" if self.remaining is None else f"{self.remaining} remain"
        return f"{self.error}; {self.moved} were moved, {remaining}"


class Redriver:
    """Moves dead letters back.

    Args:
      topics: by name.
      journal: commits each page.
      dispatcher: hands out the dead letters.
      transfer: puts the messages into their topics.
      due_counter: counts delayed messages that are due.
      sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        topics: Mapping[bytes, Topic],
        journal: Journal,
        dispatcher: Dispatcher,
        transfer: Transfer,
        due_counter: DueCounter,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._topics = topics
        self._journal = journal
        self._dispatcher = dispatcher
        self._transfer = transfer
        self._due_counter = due_counter
        self._sleep = sleep

    async def redrive(
        self,
        name: bytes,
        limit: int | None = None,
        per_second: float | None = None,
        target: bytes | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> int:
        """Move dead letters back as `report` does; return how many were moved, or raise what ended it early."""
        report = await self.report(name, limit, per_second, target, is_wanted)
        if report.error is not None:
            raise report.error
        return report.moved

    async def report(
        self,
        name: bytes,
        limit: int | None = None,
        per_second: float | None = None,
        target: bytes | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Redriven:
        """Move the dead letters of a topic back that are ready now; return what was done, when that is durable.

        It ends early, with an error, when a topic that they go to cannot be made, is full (nothing in it gives way to
        them, whatever its limit policy) or is paused; when the topic itself is paused; when the store fails.

        Args:
          name: of the topic with the dead letters.
          limit: how many at most.
          per_second: how many in a second at most.
          target: the topic to move all to, made if there is none; None for where each came from.
          is_wanted: asked after each pause that `per_second` makes; when it says no, the rest stays where it is.

        Raises:
          InvalidTopicError, UnknownTopicError: there is no such topic.
          RequestError: the target is the topic itself.
          UnavailableError, StorageError: nothing can be moved now.
        """
        if target is not None and check_topic(target) == name:
            raise RequestError("messages cannot be moved to the topic that they are in")
        if target is not None and ((there := self._topics.get(target)) is None or there.id is None):
            check_new_topic(target)
        topic, ready_count = await self._journal.epoch.repeat(partial(self._ready, name))
        left = ready_count if limit is None else min(limit, ready_count)
        moved_count, topic_id = 0, topic.id
        error: MiniqueueError | None = None
        while left > 0 and not self._is_gone(topic, topic_id):
            page_count = min(left, MAX_PAGE_MESSAGES, max(1, int(per_second or MAX_PAGE_MESSAGES)))
            try:
                if topic.is_paused_out:
                    raise PausedError
                page = await self._journal.epoch.once(self._page(topic, page_count, target))
                await self._journal.committer.flush()  # outside: the commit knows whether the page was moved
            except MiniqueueError as exc:
                error = exc
                break
            if page is None:  # the group was moved meanwhile, and what was taken is ready again
                continue
            taken_count, page_moved_count, error = page
            moved_count += page_moved_count
            left -= taken_count
            if error is not None or not taken_count:
                break
            if per_second and left > 0:
                await self._sleep(taken_count / per_second)
                if not is_wanted():
                    break
        return Redriven(moved_count, _remaining(topic, topic_id), error)

    async def _ready(self, name: bytes) -> tuple[Topic, int]:
        """Return a topic, and how many of its messages can be handed out now; also what was rejected a moment ago."""
        topic = await committed_topic(self._topics, self._journal, name)
        topic_id = topic.id
        await self._due_counter.count(topic)
        if topic.id != topic_id:  # it was deleted meanwhile
            raise UnknownTopicError
        return topic, figures_of(group_named(topic, None)).ready

    def _is_gone(self, topic: Topic, topic_id: int | None) -> bool:
        """Whether a topic was deleted; not while the store is being reopened, when nobody knows."""
        return self._journal.admission.is_open and (self._topics.get(topic.name) is not topic or topic.id != topic_id)

    async def _page(
        self, topic: Topic, count: int, target: bytes | None
    ) -> tuple[int, int, MiniqueueError | None] | None:
        """Move up to `count` messages of a topic with the next commit; it is for acts that run within an epoch.

        Returns how many were looked at and moved, and what ended it early; None if the group they were taken from was
        deleted or moved meanwhile. Raises MiniqueueError when none was moved.
        """
        self._journal.admission.check()
        group = group_named(topic, None)
        leases: list[Lease] = []
        faults: list[MiniqueueError] = []
        consumer = Consumer(self._dispatcher, group, leases.extend, faults.append, count)
        consumer.receiver = Receiver(b"redrive", prefix=None)
        ids = topic.id, group.id
        try:
            consumer.request()
            await _loaded(group, lambda: bool(leases or faults))
            if faults:
                raise faults[0]
            if (topic.id, group.id) != ids:  # what was taken is gone with it
                return None
            if not leases and topic.is_paused_out:  # since this began
                raise PausedError
            found = [message for lease in leases for message in _messages(group, lease)]
            if target is not None:
                found = [message._replace(name=target, group=None) for message in found]
            moved_count, error = self._move(topic, consumer, found)
        finally:
            consumer.close("")  # nobody worked on what found no room
        return len(found), moved_count, error

    def _move(self, source: Topic, consumer: Consumer, found: list[_Found]) -> tuple[int, MiniqueueError | None]:
        """Move what was taken; return how many, and why no more, if so."""
        by_name: dict[bytes | None, list[_Found]] = {}
        for message in found:
            by_name.setdefault(message.name, []).append(message)
        moved_count = 0
        if strangers := by_name.pop(None, []):
            consumer.pass_over([message.receipt for message in strangers])
        for name, messages in by_name.items():
            assert name is not None  # it was taken out above
            groups = self._groups(name, messages)
            left = self._at_home(consumer, messages, groups)
            while left:
                try:
                    topic, fitting = self._fitting(name, left, groups)
                except MiniqueueError as exc:  # what was moved before stays moved
                    return moved_count, exc
                moved_count += len(fitting)
                consumer.move([message.receipt for message in fitting])
                places = self._transfer.add(topic, [message.content for message in fitting])
                if source.trace is not None:
                    for one, place in zip(fitting, places, strict=True):
                        source.trace.moved(Kind.REDRIVEN, one.partition, [one.seq], [place], name, one.group or b"")
                left = left[len(fitting) :]
        return moved_count, None

    def _at_home(self, consumer: Consumer, messages: list[_Found], groups: list[bytes]) -> list[_Found]:
        """Return messages as those groups of a topic get them that gave them up; pass over those of others."""
        if homeless := [one.receipt for one in messages if one.group is not None and one.group not in groups]:
            consumer.pass_over(homeless)
        found = [message for message in messages if message.group is None or message.group in groups]
        return found if len(groups) <= 1 else [message.only_for_its_group() for message in found]

    def _groups(self, name: bytes, messages: list[_Found]) -> list[bytes]:
        """Return the groups of a topic, or those that it is to be made with."""
        topic = self._topics.get(name)
        if topic is None or topic.id is None:
            return sorted({message.group for message in messages if message.group is not None})
        return [group.name for group in topic.existing_groups]

    def _fitting(self, name: bytes, messages: list[_Found], groups: list[bytes]) -> tuple[Topic, list[_Found]]:
        """Return the topic of that name, and the first of `messages`, as many as it has room for; raises if none.

        What is in the topic does not give way to them, whatever its limit policy.
        """
        while True:
            try:
                topic = self._transfer.room(name, [message.content for message in messages], groups)
            except TopicFullError as exc:
                # Payloads alone may fit where they do not with their attributes.
                count = exc.fitting_count if exc.fitting_count < len(messages) else len(messages) // 2
                if not count:
                    outcome = f"nothing more fits into {name.decode()}"
                    raise TopicFullError(exc.what, exc.setting, outcome=outcome) from exc
                messages = messages[:count]
            else:
                if topic.is_paused_in:
                    raise PausedError
                return topic, messages


def _remaining(topic: Topic, topic_id: int | None) -> int | None:
    """Return how many messages of a topic are ready; None if it is gone, or nobody knows."""
    if topic_id is None or topic.id != topic_id:
        return None
    return figures_of(group_named(topic, None)).ready


async def _loaded(group: Group, is_done: Callable[[], bool]) -> None:
    """Wait while messages of a group are read from the store, or are given up since they have expired."""
    while not is_done() and (group.is_loading or group.is_expiring):
        if group.is_loading:
            await group.load_ended()
        else:
            await asyncio.sleep(0)


def _messages(group: Group, lease: Lease) -> list[_Found]:
    extras = lease.attributes or [b""] * lease.count
    partition, ahead = group.partition_of(lease.receipt), lease.first_seq - lease.receipt
    here = place_of(group.topic.name, partition)
    return [
        _found((receipt, partition, receipt + ahead), payload, extra, here)
        for receipt, (payload, extra) in enumerate(zip(lease.payloads, extras, strict=True), lease.receipt)
    ]


def _found(place: tuple[int, int, int], payload: bytes, extra: bytes, here: bytes) -> _Found:
    source = Source(Kind.ARRIVED, here, place[2] + 1)
    described = attributes.decode(extra)
    origin = described.origin
    kept = described._replace(origin=None, unique_key=b"", only_for=b"")  # another may have the key where it goes
    if origin is None:
        return _Found(*place, None, None, kept, Content(payload, kept.encode(), source=source))
    content = Content(payload, kept.encode(), lane(0, priority_of(origin.partition)), source)
    return _Found(*place, origin.topic, origin.group, kept, content)
