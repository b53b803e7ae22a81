"""Joins successive acts that do the same to one topic: they are checked and done together, at the cost of one act.

    PUBLISH t a    PUBLISH t b               ──▶ publish t [a, b]
    PUB t a KEY k  PUB t b HEADER n v        ──▶ publish a batch to t, each message with its options
    ACK t r1       ACK t r2                  ──▶ acknowledge [r1, r2]

The result is the same. Messages with other options are published one by one. Messages that NACK returns to the front
are returned one by one, since the last of them becomes the first of the topic.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from miniqueue.broker.commit.journal import Accepted, Published
from miniqueue.broker.transactions.acts import Act, Outcome, Publish, PublishBatch, PublishWith, Refused, Settle, Way
from miniqueue.core.message.ids import following_ids
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import NO_OPTIONS
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import SchemaError

#: All fields of a settle but its topic and its receipts, and all options but headers, key, and time to live.
_HOW: Final = slice(2, None)
_OTHER_OPTIONS: Final = slice(3, None)
_NO_OTHER_OPTIONS: Final = NO_OPTIONS[_OTHER_OPTIONS]


class Joined(NamedTuple):
    """Some successive acts, and the act that does all of them.

    Attributes:
      act: does what all the acts do, with their messages or receipts in order.
      first: the index of the first of the acts.
      acts: the acts.
    """

    act: Act
    first: int
    acts: Sequence[Act]

    def outcomes(self, outcome: Outcome) -> list[Outcome]:
        """Return the outcome of each act, from that of `act`."""
        if len(self.acts) == 1 or outcome is None:
            return [outcome] * len(self.acts)
        outcomes: list[Outcome] = []
        if isinstance(outcome, Published):
            seq = outcome.first_seq
            for act in self.acts:
                assert isinstance(act, Publish)
                outcomes.append(Published(outcome.commit, outcome.partition, seq, sum(map(len, act.payloads))))
                seq += len(act.payloads)
        else:
            outcomes += [
                Accepted(outcome.commit, message_id)
                for message_id in following_ids(outcome.message_id, outcome.message_count)
            ]
        return outcomes

    def refused(self, refused: Refused) -> Refused:
        """Return the refusal of one of the acts, from that of `act`."""
        position = refused.message
        if len(self.acts) == 1:
            return refused._replace(act=self.first, message=0 if isinstance(self.act, Settle) else position)
        for index, act in enumerate(self.acts, self.first):
            count = item_count_of(act)
            if position < count:
                is_settle = isinstance(act, Settle)
                return Refused(index, 0 if is_settle else position, _error_of(refused, position, count))
            position -= count
        return Refused(self.first, 0, refused.error)


def _error_of(refused: Refused, position: int, count: int) -> MiniqueueError:
    """Return the error of a message of an act with `count` messages."""
    error = refused.error
    return SchemaError(error.problem, position, count) if isinstance(error, SchemaError) else error


def joined(acts: Sequence[Act]) -> list[Joined]:
    """Join the acts that can be done together."""
    if len(acts) == 1:
        return [Joined(acts[0], 0, acts)]
    runs: list[list[Act]] = []
    last: Act | None = None
    for act in acts:
        if last is not None and _continues(last, act):
            runs[-1].append(act)
        else:
            runs.append([act])
        last = act
    joins: list[Joined] = []
    first = 0
    for run in runs:
        joins.append(Joined(run[0] if len(run) == 1 else _join(run), first, run))
        first += len(run)
    return joins


def _continues(last: Act, act: Act) -> bool:
    """Whether an act does the same as the last one, in the same topic."""
    if act.topic != last.topic:
        return False
    if isinstance(act, Settle):
        if act.way is Way.NACK and act.nack.delay_seconds is None:
            return False  # each returns to the front of those before it
        return isinstance(last, Settle) and act[_HOW] == last[_HOW]
    if isinstance(act, PublishWith):
        return isinstance(last, PublishWith) and _fits_batch(act) and _fits_batch(last)
    return isinstance(act, Publish) and isinstance(last, Publish)


def _fits_batch(act: PublishWith) -> bool:
    return act.options[_OTHER_OPTIONS] == _NO_OTHER_OPTIONS


def _join(run: Sequence[Act]) -> Act:
    """Return one act that does several."""
    first = run[0]
    if isinstance(first, Settle):
        receipts = [receipt for act in run if isinstance(act, Settle) for receipt in act.receipts]
        return first._replace(receipts=receipts)
    if isinstance(first, Publish):
        return Publish(first.topic, [payload for act in run if isinstance(act, Publish) for payload in act.payloads])
    messages = [act for act in run if isinstance(act, PublishWith)]
    others = {
        index: act.options
        for index, act in enumerate(messages)
        if act.options.headers or act.options.ttl_seconds is not None
    }
    keys = [act.options.key for act in messages]
    return PublishBatch(first.topic, [act.payload for act in messages], b"", BatchOptions(keys, others))


def item_count_of(act: Act) -> int:
    """Return the number of messages or receipts of an act."""
    if isinstance(act, Publish | PublishBatch):
        return len(act.payloads)
    return len(act.receipts) if isinstance(act, Settle) else 1
