"""Checks the acts of a transaction before any of them is done: what they need together must be there.

    act by act      valid? ─▶ a duplicate? ─▶ does it fit the schema? ─▶ is each receipt leased, and named once?
    topic by topic  is there room for all its messages, or for the topic, if it is new?
    all together    dedup ids, partitions, and, last, the rate of the user

Room that a settle of the transaction frees does not count, and a message with a unique key needs room even if it turns
out to be a duplicate: a settle of the same transaction may free the key first.

All of it together must not be more work than one event-loop iteration may do (`work`).

A check changes nothing but counters that may be too high until they are counted again.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.publish.publisher import Publisher
from miniqueue.broker.publish.unique import KnownKeys
from miniqueue.broker.transactions.acts import Act, Publish, PublishBatch, Refused, Settle, Way
from miniqueue.broker.transactions.joining import Joined, item_count_of
from miniqueue.broker.transactions.work import NEW_LANE, NEW_TOPIC, TooMuchWorkError, Work, work_of, work_of_leases
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import NOT_LEASED, check_lease
from miniqueue.core.options.publish import PublishOptions, without_digest
from miniqueue.core.options.settle import check_reason
from miniqueue.errors import (
    InvalidAttributesError,
    MiniqueueError,
    NothingOutstandingError,
    PayloadTooLargeError,
    RequestError,
    TopicFullError,
)
from miniqueue.errors.requests import SchemaError


class RefusalError(Exception):
    """The transaction cannot be carried out; `refused` says which act is impossible."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused)
        self.refused = refused


class Addition:
    """The messages that a transaction adds to one topic.

    Attributes:
      topic: the topic; None if it does not exist yet.
      size_bytes: total size of payloads and attributes.
      message_count: number of messages.
      lanes: the lanes that an existing topic gets for them.
      lane_count: maximum number of lanes that a new topic gets for them.
      first_act: the index of the first act that adds some.
    """

    def __init__(self, topic: Topic | None, first_act: int) -> None:
        self.topic = topic
        self.first_act = first_act
        self.size_bytes = self.message_count = self.lane_count = 0
        self.lanes: set[int] = set()
        self._parts: list[tuple[int, Sequence[bytes], list[bytes] | None]] = []

    def add(self, act: int, payloads: Sequence[bytes], attributes: list[bytes] | None) -> None:
        """Add the messages of an act."""
        self._parts.append((act, payloads, attributes))
        self.message_count += len(payloads)
        self.size_bytes += sum(map(len, payloads))
        if attributes is not None:
            self.size_bytes += sum(map(len, attributes))

    def payloads(self) -> list[bytes]:
        """Return all payloads."""
        return [payload for _, payloads, _ in self._parts for payload in payloads]

    def attributes(self) -> list[bytes] | None:
        """Return the encoded attributes of all messages; None if none has any."""
        if all(attributes is None for _, _, attributes in self._parts):
            return None
        return [each for _, payloads, attributes in self._parts for each in (attributes or [b""] * len(payloads))]

    def place_of(self, index: int) -> tuple[int, int]:
        """Return the act that adds the message with this index, and the index of the message in the act."""
        for act, payloads, _ in self._parts:
            if index < len(payloads):
                return act, index
            index -= len(payloads)
        return self.first_act, 0


class Check:
    """The check of one transaction.

    Args:
      engine: has the topics and the limits.
      publisher: says which messages may be added.
      leases: knows which messages are leased.
      keys: what is known of the unique keys of the transaction; None if it has none.
      work: the work of its acts; the check adds what depends on their topics.

    Attributes:
      new_topics: names of the topics to create, in the order of the acts.
      full_topics: the topics from which older messages must be evicted.
    """

    def __init__(
        self, engine: Engine, publisher: Publisher, leases: Leases, keys: KnownKeys | None, work: Work
    ) -> None:
        self._engine = engine
        self._publisher = publisher
        self._leases = leases
        self._keys = keys
        self._now_ms = engine.clock.now_ms()
        self._additions: dict[bytes, Addition] = {}
        self._scratch: dict[bytes, Topic] = {}
        self._ids: set[tuple[bytes, str, bytes]] = set()
        self._receipts: defaultdict[bytes, set[bytes]] = defaultdict(set)  # named receipts by topic
        self._dedup_count = self._schema_work = 0
        self._work = work
        self.new_topics: list[bytes] = []
        self.full_topics: list[Topic] = []

    def run(self, joins: Sequence[Joined]) -> None:
        """Raise RefusalError unless all acts can be done now, one after the other, in this event-loop iteration.

        The index of the act in the error is that of the joined acts.
        """
        try:
            self._check_acts(joins)
            self._check_topics()
            self._check_rate()
        finally:
            for topic in self._scratch.values():
                topic.dissolve()

    def _check_acts(self, joins: Sequence[Joined]) -> None:
        for index, (act, _, _) in enumerate(joins):
            try:
                if isinstance(act, Publish):
                    self._add(index, act.topic, act.payloads, None)
                elif isinstance(act, Settle):
                    self._settle(index, act)
                elif isinstance(act, PublishBatch):
                    self._batch(index, act)
                else:
                    self._message(index, act.topic, act.payload, act.options)
            except MiniqueueError as exc:
                raise RefusalError(Refused(index, message_at(act, exc), exc)) from exc

    # --- act by act -------------------------------------------------------------------------------------------

    def _message(self, index: int, name: bytes, payload: bytes, options: PublishOptions) -> None:
        due_at_ms = options.due_at_ms(self._now_ms)
        attributes = options.attributes(due_at_ms).encode()
        if options.unique_key:
            self._name_once(name, "unique key", options.unique_key)
            if options.is_replacing and self._keys is not None:
                self._keys.check((name, options.unique_key))
        if self._is_duplicate(name, options.dedup_id):
            return
        addition = self._add(index, name, [payload], [attributes])
        if due_at_ms > self._now_ms:
            return
        topic = addition.topic
        if topic is None:
            is_in_lane = options.priority is not Priority.NORMAL
            addition.lane_count += is_in_lane  # at most: messages may share one
        elif (number := topic.number_for(options.key, options.priority)) not in topic.partitions:
            addition.lanes.add(number)
            self._work.add(NEW_LANE * len(topic.existing_groups))

    def _batch(self, index: int, act: PublishBatch) -> None:
        attributes = act.each.attributes(self._now_ms)
        if not self._is_duplicate(act.topic, act.dedup_id):
            self._add(index, act.topic, act.payloads, attributes)

    def _add(self, index: int, name: bytes, payloads: Sequence[bytes], attributes: list[bytes] | None) -> Addition:
        topic = self._publisher.check(name, payloads)
        if topic is None or topic.is_limited:
            self._check_schema(name, topic, payloads)
        addition = self._additions.get(name)
        if addition is None:
            addition = self._additions[name] = Addition(topic, index)
            self._work.add(NEW_TOPIC if topic is None else 0)
        addition.add(index, payloads, attributes)
        return addition

    def _check_schema(self, name: bytes, topic: Topic | None, payloads: Sequence[bytes]) -> None:
        settings = self._engine.topics.settings_of_new(name) if topic is None else topic.settings
        if settings.schema is not None:
            self._schema_work = self._engine.schemas.check(settings.schema, payloads, self._schema_work)

    def _is_duplicate(self, name: bytes, dedup_id: bytes) -> bool:
        """Whether a dedup id is in the window of a topic; if it is not, it is one more for the window."""
        if not dedup_id:
            return False
        self._name_once(name, "dedup id", without_digest(dedup_id))
        topic = self._engine.topics.find(name) or self._new_topic(name)
        if self._publisher.duplicates.published(topic, dedup_id, self._dedup_count + 1) is not None:
            return True
        self._dedup_count += 1
        return False

    def _new_topic(self, name: bytes) -> Topic:
        """Return a topic like the one that is created, whose settings can refuse dedup ids."""
        topic = self._scratch.get(name)
        if topic is None:
            topic = self._scratch[name] = Topic(name)
            topic.begin(0, (), self._engine.topics.settings_of_new(name))
        return topic

    def _name_once(self, name: bytes, kind: str, value: bytes) -> None:
        named = name, kind, value
        if named in self._ids:
            raise RequestError(f"a transaction has two messages with the same {kind} for one topic; send one of them")
        self._ids.add(named)

    def _settle(self, index: int, act: Settle) -> None:
        if act.way is Way.DACK or act.nack.delay_seconds is not None:
            self._leases.dispatcher.due_at_ms(act.seconds if act.way is Way.DACK else act.nack.delay_seconds or 0.0)
        elif act.way is Way.EXTEND:
            check_lease(act.seconds)
        elif act.way is Way.REJECT:
            check_reason(act.reason)
        leased = self._leases.find(act.topic, act.receipts, self._work.max_lease_count())
        self._work.add(work_of_leases(leased))
        if not all(leased.are_leased):
            raise RefusalError(Refused(index, leased.are_leased.index(False), NothingOutstandingError(NOT_LEASED)))
        known, receipts = self._receipts[act.topic], set(act.receipts)
        if len(receipts) < len(act.receipts) or not known.isdisjoint(receipts):
            repeated = RequestError("a transaction names a receipt twice; name each once")
            raise RefusalError(Refused(index, _first_repeated(known, act.receipts), repeated))
        known |= receipts

    # --- topic by topic ---------------------------------------------------------------------------------------

    def _check_topics(self) -> None:
        partition_count = 0
        for name, addition in self._additions.items():
            topic = addition.topic
            try:
                if topic is None:
                    settings = self._engine.topics.settings_of_new(name)
                    own_count, group_count = self._engine.topics.partition_count_of_new(name, settings)
                    partition_count += group_count * (own_count + addition.lane_count)
                    self._work.add(NEW_LANE * group_count * (own_count - 1 + addition.lane_count))
                    self._check_new(name, addition, partition_count)
                    self.new_topics.append(name)
                    continue
                if addition.lanes:
                    partition_count += len(topic.existing_groups) * len(addition.lanes)
                    self._engine.limits.admit_partitions(partition_count, topic.settings.owner or "")
                if topic.is_limited and self._publisher.check_room(
                    topic, addition.payloads(), addition.size_bytes, addition.attributes()
                ):
                    self.full_topics.append(topic)
            except MiniqueueError as exc:
                index = exc.fitting_count if isinstance(exc, TopicFullError) else 0
                raise RefusalError(Refused(*addition.place_of(index), exc)) from exc

    def _check_new(self, name: bytes, addition: Addition, partition_count: int) -> None:
        self._engine.topics.check_new(
            name,
            addition.payloads(),
            addition.size_bytes,
            addition.attributes(),
            topic_count=len(self.new_topics),
            partition_count=partition_count,
        )

    def _check_rate(self) -> None:
        """Count the messages for the rate of the user, now that nothing else can refuse them."""
        if self._engine.shares.rates and self._additions:
            try:
                self._engine.shares.spend(sum(addition.message_count for addition in self._additions.values()))
            except MiniqueueError as exc:
                first_act = min(addition.first_act for addition in self._additions.values())
                raise RefusalError(Refused(first_act, 0, exc)) from exc

    @property
    def size_bytes(self) -> int:
        """Total size of the payloads and attributes that are added."""
        return sum(addition.size_bytes for addition in self._additions.values())


def work_of_all(joins: Sequence[Joined]) -> Work:
    """Return the work of all acts, without what depends on their topics; raises RefusalError if it is too much."""
    work = Work()
    for index, (act, _, acts) in enumerate(joins):
        try:
            work.add(work_of(act, len(acts)))
        except TooMuchWorkError as exc:
            raise RefusalError(Refused(index, message_at(act, exc), exc)) from exc
    return work


def message_at(act: Act, error: MiniqueueError) -> int:
    """Return the index of the first message or receipt of an act that is too large, or does not fit; else 0."""
    if isinstance(error, TooMuchWorkError):
        return int(error.fitting_share * item_count_of(act))
    if isinstance(error, SchemaError):
        return error.index
    if isinstance(error, PayloadTooLargeError) and isinstance(act, Publish | PublishBatch):
        return next(index for index, payload in enumerate(act.payloads) if len(payload) > error.max_bytes)
    if isinstance(error, InvalidAttributesError) and isinstance(act, PublishBatch):
        return next(index for index, options in act.each.others.items() if not _can_encode(options))
    return 0


def _can_encode(options: PublishOptions) -> bool:
    """Whether headers and key are short enough together."""
    try:
        options.attributes(0).encode()
    except InvalidAttributesError:
        return False
    return True


def _first_repeated(known: Collection[bytes], receipts: Sequence[bytes]) -> int:
    """Return the index of the first receipt that is known, or that was named before it."""
    seen = set(known)
    for index, receipt in enumerate(receipts):
        if receipt in seen:
            return index
        seen.add(receipt)
    return 0
