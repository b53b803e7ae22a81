"""Whether a durable queue may have behaved as a history of `events` says. Pure: no clock, no I/O.

What is counted, and must be 0:

    lost          was confirmed or delivered once, was never acknowledged, and does not come; or a part of an MPUBLISH
    phantom       was never published, was refused, or has other bytes than were published
    duplicated    came although a client held it, although its ACK was durable, or as if it had never come back
    out of order  came before what was published before it, or before its delay was over

What a crash may do is counted, but allowed (P1 to P4 in docs/protocol.md):

    an unknown publish     is there or not, but all of it or nothing
    a settle               is applied when it is answered, and durable with the next commit: so a crash may forget it,
                           unless a publish that was *begun after the answer* has been confirmed, or the broker has
                           stopped in good order; with SYNC it is answered when it is durable
    what was out           comes again, at its place, as if it had not come before

A lease can also end before its client notices: it expires, or a shard that was suspended has ended the connection. Then
the message comes to another client, marked as returned for that reason, maybe before the first client has read it; and
nothing that the first one does with it from then on may be confirmed.

Sources: the total-queue checker of Jepsen; `docs/protocol.md` for what is promised.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from miniqueue.core.settings.placing import Placing
from tests.durability.clients.events import Act, Crash, Deliver, Drained, Event, Fail, Gone, Invoke, Ok, Stop, Unknown
from tests.durability.report import Report

#: Of a time of today in a float, many times over.
RESOLUTION_SECONDS = 0.000_01


@dataclass(slots=True)
class _Operation:
    """One request; `index`es are places in the history."""

    invoke: Invoke
    index: int
    epoch: int
    ok_index: int | None = None
    is_refused: bool = False
    is_over: bool = False


@dataclass(slots=True)
class _Message:
    """One message, and what is known of it."""

    id: int
    publish: _Operation
    position: int  # in its request
    seq: int | None = None
    deliveries: int = 0
    ended_leases: tuple[int, int] = (-1, 0)  # epoch of the last delivery, and the number in its marks
    holder: tuple[int, str] | None = None  # epoch and client
    past_holders: set[str] = field(default_factory=set)  # whose lease has ended before they have noticed
    settle: _Operation | None = None  # the last one, of the last delivery
    returns: list[_Operation] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        """Whether the broker has shown that it has taken the message."""
        return self.publish.ok_index is not None or self.deliveries > 0

    @property
    def is_done(self) -> bool:
        return self.settle is not None and self.settle.invoke.act is Act.ACK

    def __str__(self) -> str:
        text = f"message {self.id} of {self.publish.invoke.client} on {self.publish.invoke.topic}"
        return text + (f" (place {self.seq})" if self.seq is not None else "")


@dataclass(slots=True)
class _Seen:
    """The furthest that a consumer has come, by what is known of the order of publishes."""

    seq: int = -1
    invoke_index: int = -1
    of_client: dict[str, tuple[int, int]] = field(default_factory=dict)


class Checker:
    """Takes a history, event by event, and keeps only what later events may speak of."""

    def __init__(self, shard_count: int = 1, *, leases_end: bool = False) -> None:
        self.report = Report()
        self._leases_end = leases_end
        self._index = 0
        self._epoch = 0
        self._placing = Placing(0, shard_count)
        # For each shard: settles that were answered before this index are not forgotten.
        self._durable = [-1] * shard_count
        self._durable_at_end: dict[int, list[int]] = {}  # epochs that have ended
        self._operations: dict[int, _Operation] = {}  # not answered yet
        self._messages: dict[int, _Message] = {}
        self._highest_id = -1
        self._gone: set[str] = set()
        self._seen: dict[str, _Seen] = {}
        self._readers: dict[str, tuple[str, set[int]]] = {}  # who read last, and what was out then

    def knows(self, id_: int) -> bool:
        """Whether a message may come again, or must."""
        return id_ in self._messages

    def take(self, event: Event) -> None:
        """Judge the next event."""
        self._index += 1
        match event:
            case Invoke():
                self._invoke(event)
            case Ok():
                self._ok(event)
            case Fail() | Unknown():
                self._end(self._operations.pop(event.op), is_refused=isinstance(event, Fail))
            case Deliver():
                self._deliver(event)
            case Gone():
                self._gone.add(event.client)
            case Crash() | Stop():
                self._restart(is_in_good_order=isinstance(event, Stop))
            case Drained():
                self._drained(event)

    # --- requests ---------------------------------------------------------------------------------------------

    def _invoke(self, event: Invoke) -> None:
        operation = self._operations[event.op] = _Operation(event, self._index, self._epoch)
        if event.act is Act.PUBLISH:
            self._highest_id = max(self._highest_id, *event.ids)
            self._messages |= {id_: _Message(id_, operation, n) for n, id_ in enumerate(event.ids)}
            return
        for message in self._named(event):
            if event.client not in message.past_holders:
                message.holder, message.settle = None, operation

    def _ok(self, event: Ok) -> None:
        operation = self._operations.pop(event.op)
        operation.ok_index, operation.is_over = self._index, True
        messages = list(self._named(operation.invoke))
        if operation.invoke.act is Act.PUBLISH:
            self.report.counts["confirmed"] += len(messages)
            self._note_durable(operation)
            for message, seq in zip(messages, event.seqs, strict=False):
                message.seq = seq
            return
        if operation.invoke.is_synced:
            self.report.counts["synced"] += len(messages)
            self._note_durable(operation)
        self._judge_settled(operation.invoke.client, messages)
        if operation.invoke.act is Act.ACK:
            self.report.counts["acknowledged"] += len(messages)
        else:
            for message in messages:
                message.returns.append(operation)

    def _note_durable(self, operation: _Operation) -> None:
        """A commit of a shard was confirmed that began after the operation did."""
        shard = self._shard_of(operation)
        self._durable[shard] = max(self._durable[shard], operation.index)

    def _shard_of(self, operation: _Operation) -> int:
        return self._placing.shard_of(operation.invoke.topic.partition("/")[0].encode())

    def _end(self, operation: _Operation, *, is_refused: bool) -> None:
        operation.is_over, operation.is_refused = True, is_refused
        is_publish = operation.invoke.act is Act.PUBLISH
        if is_publish and not is_refused:
            self.report.counts["unknown"] += len(operation.invoke.ids)
        for message in self._named(operation.invoke):
            if is_refused and not is_publish:
                message.settle = None

    def _named(self, invoke: Invoke) -> Iterator[_Message]:
        return (self._messages[id_] for id_ in invoke.ids if id_ in self._messages)

    # --- deliveries -------------------------------------------------------------------------------------------

    def _deliver(self, event: Deliver) -> None:
        self.report.counts["delivered"] += 1
        message = self._genuine(event)
        if message is None:
            return
        if self._leases_end and (self._epoch, _ended_leases(event)) < message.ended_leases:
            message.past_holders.add(event.client)  # its client was slow to read
            return
        self._judge_holder(message, event)
        self._judge_reader(message, event)
        self._judge_settle(message, event)
        if event.marks is not None and not event.marks:
            self._judge_unmarked(message, event)
        message.deliveries += 1
        message.ended_leases = self._epoch, _ended_leases(event)
        message.past_holders.discard(event.client)
        message.holder, message.settle = (self._epoch, event.client), None

    def _genuine(self, event: Deliver) -> _Message | None:
        """Return the message, or report that it must not be."""
        message = None if event.id is None else self._messages.get(event.id)
        if message is None and event.id is not None and event.id <= self._highest_id:
            self.report.add("duplicated", f"message {event.id} came to {event.client} after {event.topic} was drained")
        elif message is None:
            self.report.add("phantom", f"{event.client} got {event.id} from {event.topic}: never published like that")
        elif message.publish.is_refused:
            self.report.add("phantom", f"{message} was refused, but came to {event.client}")
        elif message.publish.invoke.topic != event.topic:
            self.report.add("phantom", f"{message} came to {event.client} from {event.topic}")
        else:
            return message
        return None

    def _judge_holder(self, message: _Message, event: Deliver) -> None:
        if message.holder is None:
            return
        epoch, client = message.holder
        if epoch != self._epoch or client in self._gone:
            return
        if self._leases_end and _ended_leases(event) > message.ended_leases[1]:
            message.past_holders.add(client)
        else:
            self.report.add("duplicated", f"{message} came to {event.client} while {client} held it")

    def _judge_settled(self, client: str, messages: list[_Message]) -> None:
        for message in messages:
            if client in message.past_holders:
                self.report.add("duplicated", f"{message} was settled by {client}, whose lease had ended")

    def _judge_reader(self, message: _Message, event: Deliver) -> None:
        """Whoever read before has nothing out any more."""
        if not event.reader:
            return
        client, held = self._readers.get(event.reader, (event.client, set()))
        out = [other for other in held if self._is_held(other, client)]
        if client != event.client and client not in self._gone and out:
            self.report.add("out_of_order", f"{message} came to {event.client} while {client} held {sorted(out)}")
        kept = held if client == event.client else set()
        self._readers[event.reader] = (event.client, {id_ for id_ in kept if id_ in out} | {message.id})

    def _is_held(self, id_: int, client: str) -> bool:
        message = self._messages.get(id_)
        return message is not None and message.holder == (self._epoch, client)

    def _judge_settle(self, message: _Message, event: Deliver) -> None:
        settle = message.settle
        if settle is None or settle.ok_index is None:
            return
        act, is_applied = settle.invoke.act, self._is_applied(settle)
        if not is_applied:
            self.report.counts["forgotten"] += act is Act.ACK or event.marks == {}
        elif act is Act.ACK:
            since = "the same run" if settle.epoch == self._epoch else "a later commit was confirmed"
            self.report.add("duplicated", f"{message} came to {event.client} after its ACK {settle.invoke.op}: {since}")
        elif act is Act.DACK:
            early_seconds = settle.invoke.at + settle.invoke.delay_seconds - event.at
            if early_seconds > RESOLUTION_SECONDS:
                self.report.add("out_of_order", f"{message} came to {event.client} {early_seconds:.3f} s early")

    def _judge_unmarked(self, message: _Message, event: Deliver) -> None:
        applied = next((settle for settle in message.returns if self._is_applied(settle)), None)
        if applied is not None:
            act, op = applied.invoke.act, applied.invoke.op
            self.report.add("duplicated", f"{message} came to {event.client} as new in spite of its {act} {op}")
            return
        self._judge_order(message, event, self._seen.setdefault(event.reader or event.client, _Seen()))

    def _judge_order(self, message: _Message, event: Deliver, seen: _Seen) -> None:
        publish = message.publish
        publisher, place = publish.invoke.client, (publish.index, message.position)
        is_late = (
            (message.seq is not None and message.seq <= seen.seq)
            or (publish.ok_index is not None and publish.ok_index < seen.invoke_index)
            or place <= seen.of_client.get(publisher, (-1, -1))
        )
        if is_late:
            self.report.add("out_of_order", f"{message} came to {event.client} behind what was published after it")
        seen.seq = max(seen.seq, -1 if message.seq is None else message.seq)
        seen.invoke_index = max(seen.invoke_index, publish.index)
        seen.of_client[publisher] = max(place, seen.of_client.get(publisher, place))

    def _is_applied(self, settle: _Operation) -> bool:
        """Whether a settle must have its effect by now."""
        if settle.ok_index is None:
            return False
        return settle.epoch == self._epoch or self._is_durable(settle)

    def _is_durable(self, settle: _Operation) -> bool:
        assert settle.ok_index is not None
        durable = self._durable_at_end.get(settle.epoch, self._durable)
        return settle.invoke.is_synced or settle.ok_index < durable[self._shard_of(settle)]

    # --- the broker -------------------------------------------------------------------------------------------

    def _restart(self, *, is_in_good_order: bool) -> None:
        for op in list(self._operations):
            self._end(self._operations.pop(op), is_refused=False)
        count = len(self._durable)
        self._durable_at_end[self._epoch] = [self._index] * count if is_in_good_order else [*self._durable]
        self.report.counts["crashes"] += not is_in_good_order
        self._epoch += 1
        self._gone.clear()
        self._seen.clear()
        self._readers.clear()

    def _drained(self, event: Drained) -> None:
        messages = [m for m in self._messages.values() if m.publish.invoke.topic == event.topic]
        missing = {message.id for message in messages if not message.is_done}
        for message in messages:
            if message.exists and message.id in missing:
                state = "confirmed" if message.publish.ok_index is not None else "unknown"
                self.report.add("lost", f"{message}: {state}, came {message.deliveries} times, is not there")
                del self._messages[message.id]
            elif message.id in missing and any(self._exists(id_) for id_ in message.publish.invoke.ids):
                self.report.add("lost", f"{message}: others of {message.publish.invoke.ids} are there")
        if event.left:
            self.report.add("lost", f"{event.left} messages that {event.topic} counts do not come")
        self._forget_finished(messages)

    def _exists(self, id_: int) -> bool:
        message = self._messages.get(id_)
        return message is not None and message.exists

    def _forget_finished(self, messages: list[_Message]) -> None:
        """Drop what must never come again, all messages of a request together."""
        for message in messages:
            others = [self._messages[id_] for id_ in message.publish.invoke.ids if id_ in self._messages]
            if all(map(self._is_finished, others)):
                for other in others:
                    del self._messages[other.id]

    def _is_finished(self, message: _Message) -> bool:
        if message.is_done:
            assert message.settle is not None
            return message.settle.ok_index is not None and self._is_durable(message.settle)
        return message.publish.is_over and message.publish.epoch < self._epoch and not message.exists


def _ended_leases(event: Deliver) -> int:
    """Return how many leases of a message have ended by themselves, as its marks say."""
    marks = event.marks or {}
    return marks.get("timeouts", 0) + marks.get("disconnects", 0)


def check(events: list[Event]) -> Report:
    """Judge a whole history."""
    checker = Checker()
    for event in events:
        checker.take(event)
    return checker.report
