"""Acts on chosen messages of a group, wherever they wait; leased messages are left to their consumers.

    positions ─▶ read again from the store ─▶ which still wait? ─▶ leased out of turn ─▶ settled
                                              └──────────── one iteration of the event loop ─────┘

    DELETE     dropped
    FRONT      to the range FRONT, without a count
    DUE        to another position of the range DELAYED, or among the messages that were published with a delay
    REDRIVE    to the topic that the dead letter came from, or to a target

What is settled in one iteration is in one commit, with what `note` changes: so a caller can store how far it has come.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import groupby, islice
from typing import NamedTuple

from miniqueue.broker.acts.holes import Holes
from miniqueue.broker.acts.orders import MessageAct, Order
from miniqueue.broker.consume.dispatcher import Dispatcher
from miniqueue.broker.consume.redrive import dead_letter, move_back
from miniqueue.broker.delays.delays import DelayedMessages
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.peeked import PeekedMessage
from miniqueue.broker.inspect.positions import ScanPosition
from miniqueue.broker.inspect.scan import position_of
from miniqueue.broker.model.recording import place_of
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.stored.browse import CursorBrowser, StoredMessage
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Lease, Range
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.group import picking, view
from miniqueue.core.message.message import Record
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import PausedError
from miniqueue.storage.format import keys, values

#: Maximum number of messages that are settled in one iteration of the event loop.
MESSAGES_IN_TURN = 128


class Front:
    """The orders in FRONT for the messages of one act, so that they keep their order over many pages.

    They are reserved when the first message of a lane is moved: the same commit stores that they are used.

    Attributes:
      owner: the group and the lane for which they were reserved.
      order: the order of the next message.
    """

    def __init__(self, owner: tuple[int, int] | None = None, order: int = 0) -> None:
        self.owner = owner
        self.order = order

    def start(self, cursor: GroupCursor, count: int) -> int:
        """Return the start of the orders, as `GroupCursor.put` expects it, of the next `count` messages of a lane."""
        owner = cursor.group, cursor.partition
        if self.owner != owner:
            self.owner, self.order = owner, cursor.reserve_front(cursor.depth)
        self.order += count
        return self.order + cursor.serial


class Outcome(NamedTuple):
    """How many messages an act has settled, and the error that ended it early, if any."""

    settled: int
    error: MiniqueueError | None = None


#: Receives the number of messages that were just settled, and the position of the last one, None if it is not known.
Note = Callable[[int, ScanPosition | None], None]


class _Waiting(NamedTuple):
    """Messages of a lane that wait in the same range, in this iteration of the event loop.

    Attributes:
      group: the group.
      cursor: the cursor of the group in the lane.
      range_: the range.
      messages: the messages, by sequence number.
      settle: settles messages with these sequence numbers.
    """

    group: Group
    cursor: GroupCursor
    range_: Range
    messages: dict[int, StoredMessage]
    settle: Callable[[Collection[int], picking.Settle], None]


class Acts:
    """Carries out acts on messages that a reader has chosen.

    Args:
      engine: has the topics and the store.
      dispatcher: delivers messages that were moved.
      delayed: the messages that were published with a delay.
      holes: limits what is settled ahead of reading.
    """

    def __init__(self, engine: Engine, dispatcher: Dispatcher, delayed: DelayedMessages, holes: Holes) -> None:
        self._engine = engine
        self._journal = engine.journal
        self._dispatcher = dispatcher
        self._delayed = delayed
        self._holes = holes

    async def carry_out(
        self,
        group: Group,
        order: Order,
        messages: Sequence[PeekedMessage],
        front: Front,
        note: Note = lambda _count, _position: None,
    ) -> Outcome:
        """Carry out an act on messages of a group that still wait where they were read.

        Only acts that run within an epoch may call this; the caller commits.

        Args:
          group: the group.
          order: the act.
          messages: the messages, in the order in which they were read.
          front: the orders that FRONT gives the messages.
          note: called with the number of messages that were just settled, and the position of the last one, before
            anything else happens.

        Raises PausedError, LimitReachedError, UnavailableError, StorageError; what was settled before stays settled.
        """
        count, ids, topic = 0, (group.topic.id, group.id), group.topic
        if order.act is MessageAct.REDRIVE and (topic.is_paused_out or group.is_paused):
            raise PausedError
        async with aclosing(self._engine.share.in_turns(_parts(messages), 1)) as parts:
            async for part in parts:
                if (topic.id, group.id) != ids:  # the topic or the group was deleted or moved meanwhile
                    break
                outcome = await self._act_on(group, order, part, front, note)
                count += outcome.settled
                if outcome.error is not None:
                    return Outcome(count, outcome.error)
        return Outcome(count)

    async def _act_on(self, group: Group, order: Order, part: list[PeekedMessage], front: Front, note: Note) -> Outcome:
        """Act on a part of the messages."""
        if part[0].stored.delayed_id is not None:
            return Outcome(await self._change_delayed(group.topic, order, part, note))
        count = 0
        async with aclosing(self._waiting(group, part)) as waiting:
            async for some in waiting:
                hole_count = view.hole_count(some.cursor)
                outcome = self._settle(some, order, front)
                self._holes.charge(group.topic, view.hole_count(some.cursor) - hole_count)
                if outcome.error is None:
                    note(outcome.settled, position_of(part[0].partition, list(some.messages.values())[-1]))
                elif outcome.settled:
                    note(outcome.settled, None)
                count += outcome.settled
                if outcome.error is not None:
                    return Outcome(count, outcome.error)
        return Outcome(count)

    async def _change_delayed(self, topic: Topic, order: Order, part: list[PeekedMessage], note: Note) -> int:
        """Act on messages that were published with a delay; only DELETE and DUE do something with them."""
        delayed = self._delayed
        if order.act not in (MessageAct.DELETE, MessageAct.DUE):
            return 0
        is_due = order.act is MessageAct.DUE
        due_at_ms = self._engine.clock.now_ms() if order.due_at_ms is None else order.due_at_ms
        change = delayed.mover(topic, due_at_ms) if is_due else delayed.remover(topic, Kind.CANCELLED)
        delayed_ids = [each.stored.delayed_id for each in part if each.stored.delayed_id is not None]
        last = position_of(part[-1].partition, part[-1].stored)
        return await delayed.change(topic, delayed_ids, change, lambda count: note(count, last))

    async def _waiting(self, group: Group, part: list[PeekedMessage]) -> AsyncGenerator[_Waiting, None]:
        """Yield those of some messages of one range that still wait, if any do; valid until the caller waits."""
        number, topic_id, position = part[0].partition, group.topic.id, part[0].stored.position
        cursor = next((cursor for cursor in group.cursors if cursor.partition == number), None)
        if cursor is None or topic_id is None or position is None:
            return
        if position.range_ is not Range.LOG:
            returned = await self._returned(group, cursor, topic_id, position.range_, part)
            if returned.messages:
                yield returned
            return
        browser = CursorBrowser(self._journal.store, topic_id, cursor, group.name)
        remaining = {each.stored.seq: each.stored for each in part}
        while remaining:
            first_seq = next(iter(remaining))
            chunk = await browser.chunk_of(first_seq)
            end_seq = first_seq + 1 if chunk is None else chunk.end_seq
            within = {seq: message for seq, message in remaining.items() if seq < end_seq}
            remaining = {seq: message for seq, message in remaining.items() if seq >= end_seq}
            if chunk is None or cursor not in group.cursors:
                continue
            waits = picking.waiting_in_log(cursor, chunk, within)
            if messages := {seq: message for seq, message in within.items() if seq in waits}:
                self._holes.check(cursor)
                yield _Waiting(group, cursor, Range.LOG, messages, partial(picking.settle_in_log, cursor, chunk))

    async def _returned(
        self, group: Group, cursor: GroupCursor, topic_id: int, range_: Range, part: list[PeekedMessage]
    ) -> _Waiting:
        """Return those of some returned messages that still wait."""
        store, records = self._journal.store, dict[int, tuple[int, Record]]()
        orders = {each.stored.seq: each.stored.position.order for each in part if each.stored.position is not None}
        with cursor.returned[range_].watch() as removed_orders:
            await self._journal.committer.flush()  # so the store does not have records that were removed before
            for seq, order in orders.items():
                value = await store.get(keys.record(topic_id, cursor.partition, cursor.group, range_, order))
                if value is not None:
                    records[seq] = order, values.decode_record(value)
            records = {seq: each for seq, each in records.items() if each[0] not in removed_orders}

        def settle(seqs: Collection[int], settle_one: picking.Settle) -> None:
            for seq in seqs:
                settle_one(picking.take_returned(cursor, range_, *records[seq]))

        messages = {
            each.stored.seq: each.stored
            for each in part
            if cursor in group.cursors
            and each.stored.seq in records
            and view.is_waiting(cursor, range_, orders[each.stored.seq])
        }
        return _Waiting(group, cursor, range_, messages, settle)

    def _settle(self, waiting: _Waiting, order: Order, front: Front) -> Outcome:
        """Settle messages that wait, in one iteration of the event loop."""
        group, cursor, seqs = waiting.group, waiting.cursor, waiting.messages.keys()
        outcome = Outcome(len(seqs))
        match order.act:
            case MessageAct.DELETE:
                waiting.settle(seqs, partial(cursor.drop, kind=Kind.PURGED))
            case MessageAct.FRONT:
                waiting.settle(seqs, partial(_to_front, cursor, front))
            case MessageAct.DUE if waiting.range_ is Range.DELAYED:
                start = (self._engine.horizon.at_ms if order.due_at_ms is None else order.due_at_ms) << 64
                move = partial(returning.move, cursor, range_=Range.DELAYED, start=start, kind=Kind.RESCHEDULED)
                waiting.settle(seqs, move)
            case MessageAct.REDRIVE:
                outcome = self._redrive(waiting, order.target)
            case _:
                outcome = Outcome(0)
        if outcome.settled:
            self._dispatcher.settled(group, 0 if order.act in (MessageAct.FRONT, MessageAct.DUE) else None)
        return outcome

    def _redrive(self, waiting: _Waiting, target: bytes | None) -> Outcome:
        """Move dead letters back; messages without an origin stay where they are."""
        topic, number = waiting.group.topic, waiting.cursor.partition
        source_name = place_of(topic.name, number)
        letters = [
            dead_letter((seq, number, seq), message.payload, message.attributes, source_name).to(target)
            for seq, message in waiting.messages.items()
        ]

        def leave(seqs: Collection[int]) -> None:
            waiting.settle(seqs, partial(_move_away, waiting.cursor))

        return Outcome(*move_back(self._engine, topic, letters, leave, lambda _: None))


def _parts(messages: Sequence[PeekedMessage]) -> Iterator[list[PeekedMessage]]:
    """Cut messages into parts of one lane and one range, small enough for one iteration of the event loop."""
    for _, run in groupby(messages, _range_of):
        while part := list(islice(run, MESSAGES_IN_TURN)):
            yield part


def _range_of(message: PeekedMessage) -> tuple[int, bool, Range | None]:
    stored = message.stored
    return message.partition, stored.delayed_id is None, None if stored.position is None else stored.position.range_


def _to_front(cursor: GroupCursor, front: Front, lease: Lease) -> None:
    returning.move(cursor, lease, Range.FRONT, front.start(cursor, lease.count), Kind.FRONTED)


def _move_away(cursor: GroupCursor, lease: Lease) -> None:
    cursor.drop(lease, None, moved_count=lease.count)
