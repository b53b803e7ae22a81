"""Carries out transactions: publishes and settles that are one commit.

    acts ─▶ look up unique keys ─▶ join ─▶ check all ─▶ do all ─▶ the open commit ─▶ durable: answered, delivered
                                              │           └ fails, which is a bug ─▶ memory is dropped and read again
                                              └ one is impossible ─▶ nothing is done

The broker decides in memory, and everything that is decided within one iteration of the event loop is one commit. So a
transaction is checked and done in one iteration, without a wait; it needs no locks on topics, and there is no undo. The
acts are done by the functions that do them alone, in their order: a message that settles a unique key and the next one
with that key work as they do outside.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from miniqueue.broker.commit.backpressure import Backpressure
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.publish.publisher import Publisher
from miniqueue.broker.publish.unique import KnownKeys
from miniqueue.broker.transactions.acts import (
    Act,
    Executed,
    Outcome,
    Publish,
    PublishBatch,
    PublishWith,
    Refused,
    Settle,
    Way,
)
from miniqueue.broker.transactions.checks import Check, RefusalError, message_at, work_of_all
from miniqueue.broker.transactions.joining import Joined, item_count_of, joined
from miniqueue.broker.transactions.work import Work
from miniqueue.errors import InternalError, LimitReachedError, MiniqueueError, TopicFullError, described

log = structlog.get_logger()

#: Maximum number of acts of a transaction, before they are joined.
MAX_ACTS: Final = 1_000
#: Maximum number of messages and receipts of all acts together.
MAX_ITEMS: Final = 10_000

_SETTLES: Final[Mapping[Way, Callable[[Leases, Settle], list[bool]]]] = {
    Way.ACK: lambda leases, act: leases.ack(act.topic, act.receipts),
    Way.NACK: lambda leases, act: leases.nack(act.topic, act.receipts, act.nack),
    Way.BACK: lambda leases, act: leases.back(act.topic, act.receipts),
    Way.DACK: lambda leases, act: leases.dack(act.topic, act.receipts, act.seconds),
    Way.REJECT: lambda leases, act: leases.reject(act.topic, act.receipts, act.reason),
    Way.EXTEND: lambda leases, act: leases.extend(act.topic, act.receipts, act.seconds),
}


class Transactions:
    """Carries out transactions.

    Args:
      engine: has the topics, and the journal that commits.
      publisher: adds messages.
      leases: settles messages.
      backpressure: makes transactions wait for room, as single publishes.
    """

    def __init__(self, engine: Engine, publisher: Publisher, leases: Leases, backpressure: Backpressure) -> None:
        self._engine = engine
        self._journal = engine.journal
        self._publisher = publisher
        self._leases = leases
        self._backpressure = backpressure

    async def execute(self, acts: Sequence[Act], *, is_synced: bool = False) -> Executed | Refused:
        """Do all acts, in one commit, or none.

        The commit is done when it is on the disk, whatever the store's sync mode, if `is_synced`, or if a settle is.

        Raises:
          LimitReachedError: there are too many acts, messages or receipts.
          StorageError, UnavailableError: a unique key cannot be looked up.
          InternalError: a bug; nothing was done.
        """
        plan = _planned(acts)
        if isinstance(plan, Refused):
            return plan
        await self._engine.waking.wake_named([act.topic for act in acts])
        keys = unique_keys(acts)
        if keys:
            replaced = unique_keys(act for act in acts if isinstance(act, PublishWith) and act.options.is_replacing)
            execute = partial(self._execute, plan, is_synced=is_synced)
            return await self._publisher.unique.act(keys, replaced, execute)
        return await self._backpressure.admit(partial(self._execute, plan, is_synced=is_synced))

    def execute_now(self, acts: Sequence[Act]) -> Executed | Refused:
        """Do all acts, in one commit, or none, without a wait; the caller waits for room first.

        There must be no message with a unique key. Raises as `execute`.
        """
        if len(acts) == 1 and isinstance(act := acts[0], Publish):
            return self.publish(act)
        plan = _planned(acts)
        return plan if isinstance(plan, Refused) else self._execute(plan)

    def publish(self, act: Publish) -> Executed | Refused:
        """Do what `execute_now` does, for a transaction that is one act: a publish is atomic, too."""
        self._journal.admission.check_change()
        if len(act.payloads) > MAX_ITEMS:
            raise too_many_items(len(act.payloads))
        try:
            published = self._publisher.publish(*act)
        except MiniqueueError as exc:
            message = exc.fitting_count if isinstance(exc, TopicFullError) else message_at(act, exc)
            return Refused(0, message, exc.detached())
        self._journal.committer.request()
        return Executed(published.commit, [published], published.size_bytes)

    def _execute(self, plan: "_Plan", keys: KnownKeys | None = None, *, is_synced: bool = False) -> Executed | Refused:
        self._journal.admission.check_change()
        joins = plan.joins
        check = Check(self._engine, self._publisher, self._leases, keys, Work(plan.units))
        try:
            check.run(joins)
        except RefusalError as exc:
            return _refused(joins, exc)
        outcomes = self._do(joins, check, keys)
        # No act starts the commit early: it begins after this iteration.
        commit = self._journal.committer.open
        self._journal.committer.request()
        if is_synced or any(isinstance(join.act, Settle) and join.act.is_synced for join in joins):
            self._journal.sync()
        return Executed(commit, outcomes, check.size_bytes)

    def _do(self, joins: Sequence[Joined], check: Check, keys: KnownKeys | None) -> list[Outcome]:
        """Do all acts, which were checked; if one fails nevertheless, drop what is in memory."""
        try:
            with self._engine.memory.granted(), self._publisher.admitted():
                self._create(joins, check.new_topics, keys)
                for topic in check.full_topics:
                    self._journal.trim_soon(topic)
                return [outcome for join in joins for outcome in join.outcomes(self._done(join.act, keys))]
        except BaseException as exc:
            log.exception("an act of a transaction failed after all were checked")
            self._journal.distrust(InternalError(described(exc)))
            if isinstance(exc, Exception):
                raise InternalError("a bug in miniqueue ended the transaction; nothing of it was done") from exc
            raise

    def _create(self, joins: Sequence[Joined], names: Sequence[bytes], keys: KnownKeys | None) -> None:
        """Create topics, and note that none of their unique keys is taken."""
        new = {name: self._engine.topics.create(name) for name in names}
        if keys is not None:
            for name, key in unique_keys(join.act for join in joins):
                if name in new:
                    keys.note_unclaimed(new[name], key)

    def _done(self, act: Act, keys: KnownKeys | None) -> Outcome:
        """Do one act."""
        if isinstance(act, Publish):
            return self._publisher.publish(*act)
        if isinstance(act, PublishWith):
            if keys is not None and act.options.is_replacing:
                return keys.replace(*act)
            return self._publisher.publish_with(*act)
        if isinstance(act, PublishBatch):
            return self._publisher.publish_batch(*act)
        if not all(_SETTLES[act.way](self._leases, act)):
            raise InternalError("a message was not settled although it is leased")
        return None


def unique_keys(acts: Iterable[Act]) -> set[tuple[bytes, bytes]]:
    """Return the unique keys of all messages, each with its topic."""
    return {
        (act.topic, act.options.unique_key) for act in acts if isinstance(act, PublishWith) and act.options.unique_key
    }


def check_act_count(acts: Sequence[Act]) -> None:
    """Raise LimitReachedError if a transaction has too many acts."""
    if len(acts) > MAX_ACTS:
        raise LimitReachedError(
            f"too many acts in a transaction: {len(acts)}; at most {MAX_ACTS}; publish several messages at once"
        )


class _Plan(NamedTuple):
    """The acts of a transaction, as they are done together, and the units of their work."""

    joins: Sequence[Joined]
    units: float


def _planned(acts: Sequence[Act]) -> _Plan | Refused:
    """Plan a transaction, before anything is looked up for it; raises LimitReachedError if it has too many acts."""
    check_act_count(acts)
    joins = joined(acts)
    item_count = sum(item_count_of(join.act) for join in joins)
    if item_count > MAX_ITEMS:
        raise too_many_items(item_count)
    try:
        return _Plan(joins, work_of_all(joins).units)
    except RefusalError as exc:
        return _refused(joins, exc)


def too_many_items(item_count: int) -> LimitReachedError:
    """Return the error for a transaction with too many messages and receipts."""
    return LimitReachedError(f"too many messages and receipts in a transaction: {item_count}; at most {MAX_ITEMS}")


def _refused(joins: Sequence[Joined], exc: RefusalError) -> Refused:
    """Return which of the acts was refused."""
    refused = joins[exc.refused.act].refused(exc.refused)
    return refused._replace(error=refused.error.detached())
