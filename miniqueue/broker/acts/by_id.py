"""Acts on one message, which its id names.

    id ─▶ where is it, in each group? ─▶ leased: refused, the consumer settles it
                                       ├ waits: the act ─▶ commit ─▶ the id of the message, which DUE can change
                                       └ nowhere: NOMESSAGE

A message of the log waits in each group separately: DELETE acts in all groups, or in one that is named; other acts in
one. If a consumer takes the message in the middle, it is looked for again.
"""

from collections.abc import Iterable

from miniqueue.broker.acts.acts import Acts, Front
from miniqueue.broker.acts.orders import MessageAct, Order
from miniqueue.broker.consume.redrive import check_destination
from miniqueue.broker.delays.delays import GONE, DelayedMessages
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.peek import MAX_LOOKS, Peek
from miniqueue.broker.inspect.peeked import PeekedMessage, State
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import group_named
from miniqueue.core.message import attributes
from miniqueue.core.message.ids import DelayedId
from miniqueue.errors.requests import MessageStateError, UnknownGroupError, UnknownMessageError


class ActsById:
    """Carries out acts on one message.

    Args:
      engine: has the topics and the store.
      acts: carries out acts on messages.
      messages: finds messages.
      delayed: the messages that were published with a delay.
    """

    def __init__(self, engine: Engine, acts: Acts, messages: Peek, delayed: DelayedMessages) -> None:
        self._engine = engine
        self._journal = engine.journal
        self._acts = acts
        self._messages = messages
        self._delayed = delayed

    async def act(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, order: Order, group: bytes | None = None
    ) -> bytes:
        """Carry out an act on a message; return its id when that is durable.

        Args:
          name: the name of the topic.
          message_id: the parts of the id of the message.
          order: the act.
          group: the group in which the message waits; None: for DELETE all groups, else the default group.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError, UnavailableError, StorageError.
          UnknownMessageError: no message that waits has this id.
          MessageStateError: the message is leased, or in a state in which the act means nothing.
          PausedError, LimitReachedError, RequestError: a dead letter cannot be moved.
        """
        if order.target is not None:
            check_destination(self._engine, name, order.target)
        new_id = await self._journal.epoch.once(self._act(name, message_id, order, group))
        await self._journal.committer.flush()
        if order.act is MessageAct.DUE:
            self._delayed.tick()
        return new_id

    async def _act(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, order: Order, group: bytes | None
    ) -> bytes:
        if isinstance(message_id, DelayedId):
            return await self._act_on_delayed(name, message_id, order)
        for _ in range(MAX_LOOKS):
            topic = await self._journal.committed_topic(name)
            looks = [await self._look(each, name, message_id, order) for each in _groups(topic, order, group)]
            waiting = [look for look in looks if look is not None]
            if not waiting:
                raise UnknownMessageError
            for _, message in waiting:
                _check(order, message)
            counts = [await self._act_in(group_of, order, message) for group_of, message in waiting]
            if any(counts):
                return waiting[0][1].message_id
        if order.act is MessageAct.REDRIVE:
            raise MessageStateError(
                "the dead letter stays: the group that it came from does not exist; name a topic TO"
            )
        raise UnknownMessageError

    async def _look(
        self, group: Group, name: bytes, message_id: tuple[int, int], order: Order
    ) -> tuple[Group, PeekedMessage] | None:
        """Return where a message is in a group, with its content only if the act needs it.

        Returns None if the message is settled there, or the group was deleted meanwhile.
        """
        try:
            message = await self._messages.find(name, message_id, group.name)
        except (UnknownMessageError, UnknownGroupError):
            return None
        if order.act is not MessageAct.REDRIVE:  # a thousand groups can have the message
            message = message._replace(stored=message.stored._replace(payload=b"", attributes=b"", failure=b""))
        return group, message

    async def _act_in(self, group: Group, order: Order, message: PeekedMessage) -> int:
        if group.id is None:  # deleted meanwhile
            return 0
        outcome = await self._acts.carry_out(group, order, [message], Front())
        if outcome.error is not None:
            raise outcome.error
        return outcome.settled

    async def _act_on_delayed(self, name: bytes, delayed_id: DelayedId, order: Order) -> bytes:
        message = await self._messages.find(name, delayed_id)
        _check(order, message)
        topic = await self._journal.committed_topic(name)
        if order.act is MessageAct.DUE and order.due_at_ms is None:
            order = order._replace(due_at_ms=self._engine.clock.now_ms())
        if not (await self._acts.carry_out(group_named(topic, None), order, [message], Front())).settled:
            raise UnknownMessageError(GONE)
        return bytes(delayed_id if order.due_at_ms is None else delayed_id._replace(due_at_ms=order.due_at_ms))


def _groups(topic: Topic, order: Order, group: bytes | None) -> Iterable[Group]:
    return topic.existing_groups if group is None and order.act is MessageAct.DELETE else [group_named(topic, group)]


def _check(order: Order, message: PeekedMessage) -> None:
    """Raise MessageStateError unless an act makes sense for a message."""
    stored, act = message.stored, order.act
    if message.state is State.LEASED:
        raise MessageStateError("the message is leased; its consumer settles it, or its lease expires")
    if act is MessageAct.DUE and message.state is not State.DELAYED:
        raise MessageStateError("the message is not delayed")
    if act is MessageAct.FRONT and stored.delayed_id is not None:
        raise MessageStateError("the message is not published yet; make it due first")
    if act is MessageAct.REDRIVE and message.state is not State.READY:
        raise MessageStateError("the message is delayed; only ready dead letters are moved")
    if act is MessageAct.REDRIVE and order.target is None and attributes.decode(stored.attributes).origin is None:
        raise MessageStateError("the message is no dead letter; name a topic TO")
