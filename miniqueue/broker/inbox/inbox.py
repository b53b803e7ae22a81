"""The inbox of a shard: adds what other shards send, in the commit that records that it has arrived.

    parcel ─▶ each transfer: arrived before? ─ yes ──────────────────────────┐
                 └ no ─▶ room in its topic? ─ yes ─▶ added, RECEIVED ─▶ commit ─▶ arrived
                             └ no ─▶ refused: the source keeps it, and tries again

A message for a spread topic goes to the part of its key, on through the outbox if that is in another shard; so does one
for a part that no longer exists.
What follows a refused transfer to the same topic is refused, too, so that messages keep their order. A dead letter that
comes home to a group that no longer exists goes back to its dead-letter topic, through the outbox of this shard.
"""

from collections.abc import Iterable
from typing import NamedTuple

from miniqueue.broker.consume.redrive import DeadLetter, dead_letter, destination
from miniqueue.broker.dead_letters import move
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.lanes import NewMessage
from miniqueue.broker.model.recording import Source
from miniqueue.broker.outbox.outbox import Outbox
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.log.transfer import Parcel, Received, Transfer
from miniqueue.core.message.attributes import key_of
from miniqueue.core.message.parts import whole_of
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import InternalError, MiniqueueError, described
from miniqueue.errors.requests import PausedError
from miniqueue.storage.format import transfers


class Taken(NamedTuple):
    """What became of a parcel: the numbers that are durable here, and why those to a topic were refused, by topic."""

    arrived: list[int]
    refused: dict[bytes, str]


class Inbox:
    """Adds messages from other shards.

    Args:
      engine: has the topics, and commits what is added.
      outbox: sends back dead letters whose group is gone.
    """

    def __init__(self, engine: Engine, outbox: Outbox) -> None:
        self._engine = engine
        self._outbox = outbox
        self._received: dict[int, Received] = {}

    async def take(self, source: int, parcel: Parcel) -> Taken:
        """Add the transfers of a parcel from a shard that have not arrived yet; return when that is durable.

        While a backup of all shards begins, it waits.

        Raises UnavailableError or StorageError: nothing has arrived, or that is not known; the source sends it again.
        """
        decoded = [(number, transfers.decode_transfer(value)) for number, value in parcel.transfers]
        await self._engine.waking.wake_named([transfer.topic for _, transfer in decoded])
        await self._outbox.pause.wait()
        self._engine.journal.admission.check()
        try:
            taken = self._add(source, parcel.held, decoded)
        except Exception as exc:  # a part of them was added, and it is not recorded that they have arrived
            self._engine.journal.distrust(InternalError(described(exc)))
            raise
        await self._engine.journal.committer.flush()  # what arrived before may not be durable yet, either
        return taken

    def restored(self, content: StoreContent) -> None:
        """Take over the content of the store, at startup and after a fault."""
        self._received = {
            transfers.shard_of(key): transfers.decode_received(value)
            for key, value in content.transfers
            if key > transfers.SENT
        }

    def _add(self, source: int, held: list[int], parcel: list[tuple[int, Transfer]]) -> Taken:
        """Add transfers, in one iteration of the event loop, so in one commit."""
        before = self._received.get(source, Received())
        arrived, added, refused = list[int](), list[int](), dict[bytes, str]()
        groups = _home_groups(transfer for _, transfer in parcel)
        for number, transfer in parcel:
            if before.has(number):
                arrived.append(number)
            elif transfer.topic not in refused:
                try:
                    self._place(transfer, groups.get(transfer.topic, []))
                except MiniqueueError as exc:
                    refused[transfer.topic] = str(exc)
                else:
                    arrived.append(number)
                    added.append(number)
        after = before.after(added, {*held, *(number for number, _ in parcel)}.difference(added))
        if after != before:
            self._received[source] = after
            self._engine.journal.change({transfers.received(source): transfers.encode_received(after)})
        return Taken(arrived, refused)

    def _place(self, transfer: Transfer, groups: list[bytes]) -> None:
        """Add a message to its topic, which is created with `groups` if necessary; raises MiniqueueError."""
        engine, name = self._engine, self._target(transfer)
        if engine.topics.is_elsewhere(name):
            self._send_on(transfer, name, transfer.kind)
            return
        if transfer.kind is not Kind.REDRIVEN:
            source = Source(Kind.ARRIVED, transfer.position, transfer.seq + 1)
            content = NewMessage(transfer.payload, transfer.attributes, transfer.lane, source)
            policies = (LimitPolicy.DROP_OLDEST,)
            move.add(engine, move.room(engine, name, [content], policies=policies, owner=transfer.owner), [content])
            return
        letter = _letter(transfer)
        existing = engine.topics.find(name)
        if existing is not None:
            groups = [group.name for group in existing.existing_groups]
        if letter.group is not None and letter.group not in groups:
            self._send_back(transfer)
            return
        content = (letter if len(groups) <= 1 else letter.only_for_its_group()).content
        topic = move.room(engine, name, [content], groups, owner=transfer.owner)
        if topic.is_paused_in:
            raise PausedError
        move.add(engine, topic, [content])

    def _target(self, transfer: Transfer) -> bytes:
        """Return the name of the topic for a message: that of the transfer, unless it was spread or deleted since.

        A part that a new topic of the name does not have is replaced by that of the message's key.
        """
        topics, whole = self._engine.topics, whole_of(transfer.topic)
        if not topics.spread_of(whole):
            return whole
        if transfer.topic != whole:
            if topics.has_part(transfer.topic) or topics.find(transfer.topic) is not None:
                return transfer.topic
        elif transfer.kind is Kind.REDRIVEN:
            return destination(topics, _letter(transfer)) or whole
        return topics.part_to_move_to(whole, key_of(transfer.attributes))

    def _send_back(self, transfer: Transfer) -> None:
        """Return a dead letter to the back of its topic; raises LimitReachedError."""
        self._send_on(transfer, transfer.position.partition(b" ")[2], Kind.BACKED)

    def _send_on(self, transfer: Transfer, name: bytes, kind: Kind) -> None:
        """Send a message to a topic of another shard; raises LimitReachedError."""
        leaving = transfer.lane, transfer.position, transfer.seq, transfer.payload, transfer.attributes
        self._outbox.admit(name)
        self._outbox.put(name, kind, [leaving], transfer.owner, is_home=transfer.is_home and kind is Kind.REDRIVEN)


def _letter(transfer: Transfer) -> DeadLetter:
    partition = int(transfer.position.partition(b" ")[0])
    letter = dead_letter((0, partition, transfer.seq), transfer.payload, transfer.attributes, transfer.position)
    return letter if transfer.is_home else letter.to(transfer.topic)


def _home_groups(parcel: Iterable[Transfer]) -> dict[bytes, list[bytes]]:
    """Return the groups of the dead letters that come home, sorted, by topic."""
    groups: dict[bytes, set[bytes]] = {}
    for transfer in parcel:
        if transfer.is_home and (group := _letter(transfer).group) is not None:
            groups.setdefault(transfer.topic, set()).add(group)
    return {topic: sorted(names) for topic, names in groups.items()}
