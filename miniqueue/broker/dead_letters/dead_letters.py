"""Dead letters: messages that were returned too often, rejected, or expired move to a separate topic.

    returned ─▶ deliveries < max_deliveries ─▶ to its position, or after the delay of the retry policy
                    └ otherwise ─▶ dead-letter topic, with its origin, in the same commit
    rejected ────────────────────┘     └ no room there: it is returned as if there were no limit
    expired ─────▶ dead-letter topic, if the settings say so; dropped if there is no room there
    over limits ─▶ dead-letter topic, if the limit policy says so; new messages are refused if there is no room there

A dead letter that is returned too often is not moved again, which prevents loops. A dead letter that is rejected, or
for which there is no room, is dropped. Dead letters enter a topic even if its publishers are paused: the pause is meant
for publishers, and messages that cannot move would be returned forever.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress, repeat
from operator import attrgetter, is_not

from miniqueue.broker.dead_letters import move
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.lanes import NewMessage
from miniqueue.broker.model.limits import Room
from miniqueue.broker.model.recording import Source, place_of
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import Origin, is_for
from miniqueue.core.message.lanes import lane, priority_of
from miniqueue.core.message.message import Record
from miniqueue.core.message.parts import SEPARATOR, part_name, whole_of
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError, LimitReachedError
from miniqueue.errors.requests import ShardAwayError

#: Reason of a dead letter that was returned too often.
MAX_DELIVERIES = b"max_deliveries"
#: Reason of a dead letter that has expired.
EXPIRED = b"expired"
#: Reason of a dead letter for which its topic had no room.
LIMIT = b"limit"
#: Causes of a return that count as failures for the delay of the retry policy.
_FAILURES = ("nacks", "timeouts")
#: The lane and the number of each message.
_Positions = list[tuple[int, int]]

_policy = attrgetter("policy")


def changed(engine: Engine, topic: Topic) -> None:
    """Apply the settings of `topic` to the messages that are returned to it from now on."""
    settings, cursors = topic.settings, topic.cursors
    policy = next(filter(None, map(_policy, cursors)), None)
    if not settings.max_deliveries and not settings.has_retry_delay:
        policy = None
    elif not isinstance(policy, _Policy) or policy.settings is not settings:
        policy = _Policy(engine, topic, settings)
    # There may be thousands of cursors, and usually only those of a new group have another policy.
    for cursor in compress(cursors, map(is_not, map(_policy, cursors), repeat(policy))):
        cursor.policy = policy


def reject(
    engine: Engine,
    topic: Topic,
    held: Iterable[CursorLease],
    reason: bytes,
    places: returning.FrontPlaces | None = None,
) -> None:
    """Make messages dead letters; drop those that are dead letters already.

    Messages for which there is no room are returned together, as by NACK; `places` is as in `returning.nack_all`.
    """
    returning.nack_all([lease for lease in held if not _give_up(engine, topic, *lease, reason)], places=places)


def _give_up(engine: Engine, topic: Topic, cursor: GroupCursor, lease: Lease, reason: bytes) -> bool:
    """Make the messages of a lease dead letters, or drop them; return False if there is no room."""
    records = lease.records()
    letters = [record for record in records if not _is_dead_letter(record)]
    leave = partial(_reject, cursor, lease, reason, len(letters))
    if letters:
        return _dead_letter(engine, topic, cursor, letters, reason, leave)
    leave()
    return True


def room_left(engine: Engine, topic: Topic) -> Room:
    """Return the number of dead letters, and of their bytes, for which there is room."""
    name, owner = topic.settings.dead_letters_of(topic.name), topic.settings.owner or ""
    part_count = engine.topics.spread_of(name)
    if SEPARATOR in name or not part_count:
        return move.room_left(engine, name, owner)
    rooms = [move.room_left(engine, part_name(name, number), owner) for number in range(part_count)]
    return Room(min(room.messages for room in rooms), min(room.size_bytes for room in rooms))


def may_dead_letter(engine: Engine, topic: Topic, over: Room) -> bool:
    """Whether the messages that are over the limits of a topic can become dead letters."""
    room = room_left(engine, topic)
    return room.messages >= max(1, over.messages) and room.size_bytes >= max(1, over.size_bytes)


def dead_letter_oldest(engine: Engine, topic: Topic, cursor: GroupCursor, lease: Lease) -> None:
    """Make messages dead letters that were leased because their topic has no room; requires some `room_left`."""
    group = topic.group_of(cursor).name
    own = [record for record in lease.records() if is_for(record.attributes, group)]
    letters = [record for record in own if not _is_dead_letter(record)]
    cursor.drop(lease, moved_count=len(letters))
    contents = [_letter(engine, topic, cursor, record, LIMIT) for record in letters]
    owner = topic.settings.owner or ""
    for name, indexes in _by_target(engine, topic, contents).items():
        positions = move.push(engine, name, [contents[index] for index in indexes], owner)
        _note(cursor, [letters[index] for index in indexes], positions, name)
    _report(engine, topic, cursor, letters, LIMIT)


def expire(engine: Engine, topic: Topic, cursor: GroupCursor, lease: Lease) -> None:
    """Make expired messages dead letters; drop those that are dead letters already, or all if there is no room."""
    letters = [record for record in lease.records() if not _is_dead_letter(record)]
    leave = partial(cursor.drop, lease, Kind.EXPIRED, moved_count=len(letters))
    if not letters or not _dead_letter(engine, topic, cursor, letters, EXPIRED, leave):
        cursor.drop(lease, Kind.EXPIRED)


def _dead_letter(
    engine: Engine,
    topic: Topic,
    cursor: GroupCursor,
    records: list[Record],
    reason: bytes,
    leave: Callable[[], None],
) -> bool:
    """Make messages dead letters; return False if one is a dead letter already, or if there is no room."""
    if any(map(_is_dead_letter, records)):
        return False
    contents = [_letter(engine, topic, cursor, record, reason) for record in records]
    targets = _by_target(engine, topic, contents)
    owner = topic.settings.owner or ""  # the consumer whose act this is may be another user
    try:
        adds = [
            _adding(engine, name, [contents[index] for index in indexes], owner) for name, indexes in targets.items()
        ]
    except (InvalidTopicError, LimitReachedError, ShardAwayError):
        return False
    leave()
    for add, (name, indexes) in zip(adds, targets.items(), strict=True):
        _note(cursor, [records[index] for index in indexes], add(), name)
    _report(engine, topic, cursor, records, reason)
    return True


def _by_target(engine: Engine, topic: Topic, contents: list[NewMessage]) -> Mapping[bytes, Sequence[int]]:
    """Return which dead letters of a topic enter which topic: one, or, if that is spread, the parts of their keys."""
    name = topic.settings.dead_letters_of(topic.name)
    if SEPARATOR in name or not engine.topics.spread_of(name):
        return {name: range(len(contents))}
    targets: dict[bytes, list[int]] = {}
    for index, content in enumerate(contents):
        part = engine.topics.part_to_move_to(name, attributes.key_of(content.attributes))
        targets.setdefault(part, []).append(index)
    return targets


def _adding(engine: Engine, name: bytes, contents: list[NewMessage], owner: str) -> Callable[[], _Positions]:
    """Return what adds dead letters to a topic, if there is room for them; raises as `move.room`."""
    outbox = engine.topics.outbox
    if outbox is not None and engine.topics.is_elsewhere(name):
        outbox.admit(name)
        return partial(move.send, engine, name, contents, Kind.DEAD_LETTERED, owner)
    dead = move.room(engine, name, contents, policies=(LimitPolicy.DROP_OLDEST,), owner=owner)
    return partial(move.add, engine, dead, contents)


def _letter(engine: Engine, topic: Topic, cursor: GroupCursor, record: Record, reason: bytes) -> NewMessage:
    """Return a message as a dead letter, which never expires, keeps its priority, and has no unique key."""
    partition = cursor.partition
    origin = Origin(
        whole_of(topic.name),  # dead letters of a part return to the part beside theirs
        partition,
        record.seq,
        record.published_at_ms,
        engine.clock.now_ms(),
        record.counts,
        reason,
        topic.group_of(cursor).name,
    )
    described = attributes.decode(record.attributes)
    kept = described._replace(expires_at_ms=0, origin=origin, reply_to=b"", unique_key=b"", only_for=b"")
    if record.failure:
        kept = kept._replace(failure=record.failure)
    source = Source(Kind.ARRIVED, place_of(topic.name, partition), record.seq + 1)
    return NewMessage(record.payload, kept.encode(), lane(0, priority_of(partition)), source)


class _Policy:
    """Applies the settings of a topic to the messages that are returned to it."""

    __slots__ = ("_engine", "_topic", "settings")

    def __init__(self, engine: Engine, topic: Topic, settings: TopicSettings) -> None:
        self._engine = engine
        self._topic = topic
        self.settings = settings

    def dead_letter(self, cursor: GroupCursor, record: Record) -> bool:
        """Make the message a dead letter if it was delivered `max_deliveries` times; return whether it is one now."""
        max_deliveries = self.settings.max_deliveries
        if not max_deliveries or sum(record.counts) < max_deliveries:
            return False
        return _dead_letter(self._engine, self._topic, cursor, [record], MAX_DELIVERIES, _nothing)

    def due_at_ms(self, record: Record, cause: str) -> int | None:
        """Return when a message that failed may be delivered again; None if there is no delay."""
        if cause not in _FAILURES or not self.settings.has_retry_delay:
            return None
        return_count = record.counts.nacks + record.counts.timeouts
        return self._engine.horizon.due_at_ms(self.settings.retry_seconds(return_count, random.random()))


def _is_dead_letter(record: Record) -> bool:
    """Whether a message is a dead letter, or cannot be decoded: messages of newer versions are not moved."""
    try:
        return bool(record.attributes) and attributes.decode(record.attributes).origin is not None
    except (CorruptionError, FormatVersionError):
        return True


def _reject(cursor: GroupCursor, lease: Lease, reason: bytes, moved_count: int) -> None:
    cursor.drop(lease, None, moved_count=moved_count)
    if cursor.trace is not None:
        cursor.trace.note(cursor, Kind.REJECTED, lease, reason)


def _note(cursor: GroupCursor, records: list[Record], positions: list[tuple[int, int]], topic: bytes) -> None:
    """Record the new positions of messages, if the topic is traced."""
    if cursor.trace is not None:
        seqs = [record.seq for record in records]
        cursor.trace.moved(cursor, Kind.DEAD_LETTERED, seqs, positions, topic)


def _report(engine: Engine, topic: Topic, cursor: GroupCursor, records: list[Record], reason: bytes) -> None:
    """Count new dead letters for the clients that listen."""
    if engine.notices.is_heard and records:
        name, group = whole_of(topic.name), topic.group_of(cursor).name.decode()
        engine.notices.count(
            NoticeKind.DEAD_LETTER, name, len(records), group, reason=reason.decode("utf-8", "replace")
        )


def _nothing() -> None:
    """Do nothing: the message has left its topic already."""
