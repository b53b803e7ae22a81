"""Redrive: moves dead letters back to the topics they came from, page by page.

    redrive ─▶ take a page, as a consumer ─▶ by origin: add to that topic, without the origin ─▶ commit ─▶ next page
                                                └ no origin: return to the back    pause, if there is a rate ┘

One commit removes a page from the dead-letter topic and adds it to the other topics. So if a redrive is interrupted,
each message is in exactly one topic: messages that were taken and not moved return to the front.

A redriven message is for the group that dead-lettered it. If other groups read the topic as well, the message is marked
as for that group only. If the group no longer exists, the message is returned to the back of the dead-letter topic.
With a target, all messages go to the target, for all its groups, wherever they came from; so do messages without an
origin.

A redrive takes messages as a consumer of the default group or, if this group does not exist, of the first group. It
does not create a group of its own, because no consumer would read the dead letters that this group gets later.

A redrive ends when it has examined as many messages as were ready at its start. So messages that become dead letters
again meanwhile are not moved twice.
"""

import asyncio
from asyncio import sleep
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from miniqueue.broker.consume.consumer import Consumer
from miniqueue.broker.consume.dispatcher import Dispatcher
from miniqueue.broker.dead_letters import move
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.lanes import NewMessage
from miniqueue.broker.engine.topics import Topics
from miniqueue.broker.inspect.due_counting import count_due
from miniqueue.broker.model.recording import Receiver, Source, place_of
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import figures_of, group_named
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import Attributes
from miniqueue.core.message.lanes import lane, partition_of, priority_of
from miniqueue.core.message.names import check_topic
from miniqueue.core.message.parts import MAX_PARTS, part_name, part_of_partition, whole_of
from miniqueue.errors import LimitReachedError, MiniqueueError, RequestError, TopicFullError
from miniqueue.errors.requests import CrossShardError, PausedError, UnknownTopicError

#: Maximum number of messages that one commit moves.
MAX_PAGE_MESSAGES = 1000


class DeadLetter(NamedTuple):
    """A message of the dead-letter topic that is to be moved.

    Attributes:
      receipt: its receipt in the consumer that took it, or another number by which the caller knows it.
      partition: its partition in the dead-letter topic.
      seq: its sequence number in that partition.
      name: the name of the topic to move it to; None if it has no origin, so is not a dead letter.
      group: the group that dead-lettered it; None if it is to be for all groups.
      attributes: its attributes after the move.
      content: the message to be added.
      letter: the encoded attributes that it has now.
      home: the partition, or lane, of its topic from which it became a dead letter; None if it does not return there.
    """

    receipt: int
    partition: int
    seq: int
    name: bytes | None
    group: bytes | None
    attributes: Attributes
    content: NewMessage
    letter: bytes
    home: int | None = None

    def to(self, name: bytes | None) -> "DeadLetter":
        """Return this message as one for another topic, for all its groups; None leaves it as it is."""
        return self if name is None else self._replace(name=name, group=None, home=None)

    def only_for_its_group(self) -> "DeadLetter":
        """Return this message marked as for its group only."""
        if self.group is None:
            return self
        extra = self.attributes._replace(only_for=self.group).encode()
        return self._replace(content=self.content._replace(attributes=extra))


class Redriven(NamedTuple):
    """The result of a redrive.

    Attributes:
      moved: number of messages that were durably moved.
      remaining: number of messages that are ready in the topic now, and were not moved; None if the topic was deleted,
        or the number is unknown because the store failed.
      error: the error that ended the redrive early, if any.
    """

    moved: int
    remaining: int | None
    error: MiniqueueError | None = None

    @property
    def error_text(self) -> str:
        """The error that ended the redrive early, with the counts, as text for users; empty if there was none."""
        if self.error is None:
            return ""
        remaining = "how many remain is not known" if self.remaining is None else f"{self.remaining} remain"
        return f"{self.error}; {self.moved} were moved, {remaining}"


async def redrive(
    engine: Engine,
    dispatcher: Dispatcher,
    name: bytes,
    *,
    limit: int | None,
    per_second: float | None,
    target: bytes | None,
    is_wanted: Callable[[], bool],
) -> Redriven:
    """Move the dead letters of a topic back that are ready now; return the result when it is durable.

    A redrive ends early, with an error in the result, if a destination topic cannot be created, is full, or is paused;
    if the dead-letter topic is paused; or if the store fails. Redriven messages never evict messages of a destination
    topic, whatever its limit policy. Messages for a topic of another shard are moved once they are in the outbox.

    Args:
      engine: provides the topics, and commits each page.
      dispatcher: delivers the dead letters.
      name: the name of the topic with the dead letters.
      limit: maximum number of messages to move; None means all.
      per_second: maximum number of messages per second; None means unlimited.
      target: the topic to move all messages to, created if necessary; None means the origin of each message.
      is_wanted: called after each pause that `per_second` causes; if it returns False, the redrive ends.

    Raises:
      InvalidTopicError, UnknownTopicError: there is no such topic.
      RequestError: the target is the dead-letter topic itself.
      UnavailableError, StorageError: no message can be moved now.
    """
    if target is not None:
        check_destination(engine, name, target)
    topic, ready_count = await engine.journal.epoch.repeat(partial(_ready, engine, name))
    remaining = ready_count if limit is None else min(limit, ready_count)
    moved_count, topic_id = 0, topic.id
    error: MiniqueueError | None = None
    while remaining > 0 and not _is_deleted(engine, topic, topic_id):
        page_count = min(remaining, MAX_PAGE_MESSAGES, max(1, int(per_second or MAX_PAGE_MESSAGES)))
        try:
            if topic.is_paused_out or group_named(topic, None).is_paused:
                raise PausedError
            page = await engine.journal.epoch.once(_page(engine, dispatcher, topic, page_count, target))
            # Outside the epoch, because the commit itself reports whether it moved the page.
            await engine.journal.committer.flush()
        except MiniqueueError as exc:
            error = exc.detached()
            break
        if page is None:  # the group was moved meanwhile, and the messages taken are ready again
            continue
        taken_count, page_moved_count, error = page
        moved_count += page_moved_count
        remaining -= taken_count
        if error is not None or not taken_count:
            break
        if per_second and remaining > 0:
            await sleep(taken_count / per_second)
            if not is_wanted():
                break
    return Redriven(moved_count, _remaining(topic, topic_id), error)


def check_destination(engine: Engine, name: bytes, target: bytes) -> None:
    """Raise RequestError or InvalidTopicError unless messages of a topic can be moved to `target`."""
    if check_topic(target) == whole_of(name):
        raise RequestError("messages cannot be moved to the topic that they are in")
    existing = engine.topics.by_name.get(target)
    if existing is None or existing.id is None:
        engine.topics.check_destination(target)


async def _ready(engine: Engine, name: bytes) -> tuple[Topic, int]:
    """Return a topic, and how many of its messages are ready, including those rejected a moment ago."""
    topic = await engine.journal.committed_topic(name)
    topic_id = topic.id
    await count_due(engine, topic)
    if topic.id != topic_id:  # the topic was deleted meanwhile
        raise UnknownTopicError
    return topic, figures_of(group_named(topic, None)).ready


def _is_deleted(engine: Engine, topic: Topic, topic_id: int | None) -> bool:
    """Whether a topic was deleted; False while the store is being reopened, because that is unknown then."""
    return engine.journal.admission.is_open and (
        engine.topics.by_name.get(topic.name) is not topic or topic.id != topic_id
    )


async def _page(
    engine: Engine, dispatcher: Dispatcher, topic: Topic, count: int, target: bytes | None
) -> tuple[int, int, MiniqueueError | None] | None:
    """Move up to `count` messages of a topic with the next commit; call it only within an epoch.

    Returns how many messages were examined, how many of them were moved, and the error that ended the page early, if
    any. Returns None if the group was deleted or moved meanwhile. Raises MiniqueueError if no message was moved.
    """
    engine.journal.admission.check()
    group = group_named(topic, None)
    leases: list[Lease] = []
    faults: list[MiniqueueError] = []
    consumer = Consumer(dispatcher, group, leases.extend, faults.append, count)
    consumer.receiver = Receiver(b"redrive", prefix=None)
    ids = topic.id, group.id
    try:
        consumer.request()
        await _loaded(group, lambda: bool(leases or faults))
        if faults:
            raise faults[0]
        if (topic.id, group.id) != ids:  # the leases have ended with the topic or group
            return None
        if not leases and (topic.is_paused_out or group.is_paused):  # it was paused meanwhile
            raise PausedError
        taken = [message.to(target) for lease in leases for message in _messages(group, lease)]
        moved_count, error = move_back(engine, topic, taken, consumer.move, consumer.pass_over)
    finally:
        consumer.close("")  # no cause to count: the messages returned were not processed
    return len(taken), moved_count, error


def move_back(
    engine: Engine,
    source: Topic,
    taken: list[DeadLetter],
    leave: Callable[[Sequence[int]], None],
    pass_over: Callable[[Sequence[int]], None],
) -> tuple[int, MiniqueueError | None]:
    """Move messages to their topics; return how many were moved, and the error that ended it early, if any.

    Args:
      engine: has the topics.
      source: the topic of the dead letters.
      taken: the messages.
      leave: removes the messages with these receipts from `source`.
      pass_over: called with the receipts of messages that have no origin, or whose group does not exist.
    """
    by_name: dict[bytes | None, list[DeadLetter]] = {}
    for message in taken:
        name = destination(engine.topics, message)
        by_name.setdefault(name, []).append(message)
    moved_count = 0
    if without_origin := by_name.pop(None, []):
        pass_over([message.receipt for message in without_origin])
    for name, messages in by_name.items():
        assert name is not None  # None was removed above
        if engine.topics.is_elsewhere(name):
            count, error = _send(engine, source, name, messages, leave)
            moved_count += count
            if error is not None:
                return moved_count, error
            continue
        groups = _groups(engine, name, messages)
        remaining = _for_existing_groups(pass_over, messages, groups)
        while remaining:
            try:
                topic, fitting = _fitting(engine, name, remaining, groups)
            except MiniqueueError as exc:  # messages moved before stay moved
                return moved_count, exc.detached()
            moved_count += len(fitting)
            leave([message.receipt for message in fitting])
            positions = move.add(engine, topic, [message.content for message in fitting])
            _note(source, fitting, positions, name)
            remaining = remaining[len(fitting) :]
    return moved_count, None


def destination(topics: Topics, message: DeadLetter) -> bytes | None:
    """Return the name of the topic that a message enters; None if it has no origin.

    Of a spread topic, it is the part that the message came from, or, if it is moved elsewhere, that of its key.
    """
    if message.name is None or not topics.spread_of(message.name):
        return message.name
    number = part_of_partition(partition_of(message.home)) if message.home is not None else MAX_PARTS
    if number < topics.spread_of(message.name):
        return part_name(message.name, number)
    return topics.part_to_move_to(message.name, message.attributes.key)


def _send(
    engine: Engine, source: Topic, name: bytes, messages: list[DeadLetter], leave: Callable[[Sequence[int]], None]
) -> tuple[int, MiniqueueError | None]:
    """Move messages to a topic of another shard, through the outbox; return as `move_back`.

    The other shard finds out whether their group exists; if not, it sends them back.
    """
    outbox = engine.topics.outbox
    if outbox is None:
        return 0, CrossShardError(name)
    sizes_bytes = [message.content.size_bytes for message in messages]
    owner, moved_count = engine.topics.owner_of_new(None), 0
    fitting = messages[: outbox.fitting_count(name, sizes_bytes)]
    leave([message.receipt for message in fitting])
    for is_home, some in groupby(fitting, lambda message: message.group is not None):
        sent = list(some)
        moved_count += len(sent)
        contents = [message.content._replace(attributes=message.letter) for message in sent]
        _note(source, sent, move.send(engine, name, contents, Kind.REDRIVEN, owner, is_home=is_home), name)
    if len(fitting) < len(messages):
        try:
            outbox.admit(name)
        except LimitReachedError as exc:
            return moved_count, exc.detached()
    return moved_count, None


def _note(source: Topic, messages: list[DeadLetter], positions: list[tuple[int, int]], name: bytes) -> None:
    """Record the new positions of messages, if the topic is traced."""
    if source.trace is not None:
        for message, position in zip(messages, positions, strict=True):
            group = message.group or b""
            source.trace.moved(Kind.REDRIVEN, message.partition, [message.seq], [position], name, group)


def _for_existing_groups(
    pass_over: Callable[[Sequence[int]], None], messages: list[DeadLetter], groups: list[bytes]
) -> list[DeadLetter]:
    """Return the messages whose group is in `groups`, marked as for it only if necessary; pass over the others."""
    if groupless := [m.receipt for m in messages if m.group is not None and m.group not in groups]:
        pass_over(groupless)
    movable = [message for message in messages if message.group is None or message.group in groups]
    return movable if len(groups) <= 1 else [message.only_for_its_group() for message in movable]


def _groups(engine: Engine, name: bytes, messages: list[DeadLetter]) -> list[bytes]:
    """Return the names of the groups of a topic or, if it does not exist, of the groups to create it with."""
    topic = engine.topics.by_name.get(name)
    if topic is None or topic.id is None:
        return sorted({message.group for message in messages if message.group is not None})
    return [group.name for group in topic.existing_groups]


def _fitting(
    engine: Engine, name: bytes, messages: list[DeadLetter], groups: list[bytes]
) -> tuple[Topic, list[DeadLetter]]:
    """Return the topic of a name, created if necessary, and the first of `messages` that it has room for.

    Messages of the topic are not evicted for them, whatever its limit policy. Raises MiniqueueError if none fits.
    """
    while True:
        try:
            topic = move.room(engine, name, [message.content for message in messages], groups)
        except TopicFullError as exc:
            # All payloads may fit while they do not fit with their attributes; then half of the messages is tried.
            count = exc.fitting_count if exc.fitting_count < len(messages) else len(messages) // 2
            if not count:
                outcome = f"nothing more fits into {name.decode()}"
                raise TopicFullError(exc.unit, exc.setting, outcome=outcome) from exc
            messages = messages[:count]
        else:
            if topic.is_paused_in:
                raise PausedError
            return topic, messages


def _remaining(topic: Topic, topic_id: int | None) -> int | None:
    """Return how many messages of a topic are ready; None if it was deleted or the number is unknown."""
    if topic_id is None or topic.id != topic_id:
        return None
    return figures_of(group_named(topic, None)).ready


async def _loaded(group: Group, is_done: Callable[[], bool]) -> None:
    """Wait while messages of a group are loaded from the store, or are removed because they have expired."""
    while not is_done() and (group.is_loading or group.is_postponed):
        if group.is_loading:
            await group.load_ended()
        else:
            await asyncio.sleep(0)


def _messages(group: Group, lease: Lease) -> list[DeadLetter]:
    extras = lease.attributes or [b""] * lease.count
    partition, ahead = group.partition_of(lease.receipt), lease.first_seq - lease.receipt
    source_name = place_of(group.topic.name, partition)
    return [
        dead_letter((receipt, partition, receipt + ahead), payload, extra, source_name)
        for receipt, (payload, extra) in enumerate(zip(lease.payloads, extras, strict=True), lease.receipt)
    ]


def dead_letter(position: tuple[int, int, int], payload: bytes, extra: bytes, source_name: bytes) -> DeadLetter:
    """Return the message with a receipt, partition and sequence number, as it is to be added to its origin."""
    source = Source(Kind.ARRIVED, source_name, position[2] + 1)
    described = attributes.decode(extra)
    origin = described.origin
    # Without its unique key, because another message may have that key in the destination topic.
    kept = described._replace(origin=None, unique_key=b"", only_for=b"", failure=b"")
    if origin is None:
        return DeadLetter(*position, None, None, kept, NewMessage(payload, kept.encode(), source=source), extra)
    content = NewMessage(payload, kept.encode(), lane(0, priority_of(origin.partition)), source)
    return DeadLetter(*position, origin.topic, origin.group, kept, content, extra, origin.partition)
