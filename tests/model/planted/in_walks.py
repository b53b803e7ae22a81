"""Bugs that the walks must find: each breaks one of the acts that clients may do, in one place."""

from collections.abc import Callable, Sequence

import pytest

from miniqueue.broker.acts import replacing
from miniqueue.broker.cleanup import retention
from miniqueue.broker.consume import dispatcher
from miniqueue.broker.consume.consumer import Consumer
from miniqueue.broker.dead_letters import dead_letters
from miniqueue.broker.delays.delays import DelayedMessages
from miniqueue.broker.delays.schedules import Scheduler
from miniqueue.broker.engine.schemas import Schemas
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.leases.settling import Settling
from miniqueue.broker.model import flow
from miniqueue.broker.publish.duplicates import Duplicates
from miniqueue.broker.topics.admin import TopicAdmin
from miniqueue.broker.transactions.acts import Settle
from miniqueue.broker.transactions.checks import Check
from miniqueue.broker.transactions.transactions import Transactions
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import settle_each
from miniqueue.core.cursor.lease_book import LeaseBook
from miniqueue.core.log.dedup_window import DedupWindow
from miniqueue.core.log.delayed import PartitionDelays
from miniqueue.core.log.unique_keys import UniqueKeys
from miniqueue.core.options.publish import DIGEST_MARK, PublishOptions

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def delay_too_short(patch: Patch) -> None:
    due_at_ms = PublishOptions.due_at_ms
    patch.setattr(PublishOptions, "due_at_ms", lambda self, now_ms: max(now_ms, due_at_ms(self, now_ms) - 400))


def due_messages_stay_delayed_too(patch: Patch) -> None:
    """What is appended is not deleted from where it waited, and comes again after a restart."""
    release = DelayedMessages._release

    async def without_removal(self, *args):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PartitionDelays, "remove", lambda self, place, message: None)
            await release(self, *args)

    patch.setattr(DelayedMessages, "_release", without_removal)


def cancelled_messages_come(patch: Patch) -> None:
    async def cancel(self, name, delayed_id):
        return None

    patch.setattr(DelayedMessages, "cancel", cancel)


def dedup_ids_are_not_remembered(patch: Patch) -> None:
    patch.setattr(DedupWindow, "find", lambda self, dedup_id, oldest_ms: None)


def digests_are_not_compared(patch: Patch) -> None:
    find = DedupWindow.find
    plain = lambda self, dedup_id, oldest_ms: find(self, dedup_id.partition(DIGEST_MARK)[0], oldest_ms)  # noqa: E731
    patch.setattr(DedupWindow, "find", plain)


def dedup_ids_are_forgotten_by_a_restart(patch: Patch) -> None:
    def restored(self, content):
        for topic in content.topics:
            topic.dedup = None

    patch.setattr(Duplicates, "restored", restored)


def unique_keys_are_never_free(patch: Patch) -> None:
    patch.setattr(UniqueKeys, "free", lambda self, partition, first_seq, attributes: None)


def replaced_messages_stay(patch: Patch) -> None:
    patch.setattr(replacing._InGroup, "remove", lambda self: None)


def leases_end_early(patch: Patch) -> None:
    expire = LeaseBook.expire
    patch.setattr(LeaseBook, "expire", lambda self, now, *limits: expire(self, now + 3, *limits))


def extending_does_nothing(patch: Patch) -> None:
    settle = Leases.settle

    def settle_or_nothing(self: Leases, name: bytes, receipts: Sequence[bytes], act: Settling) -> list[bool]:
        return [True] * len(receipts) if act.deadline else settle(self, name, receipts, act)

    patch.setattr(Leases, "settle", settle_or_nothing)


def rejected_messages_are_gone(patch: Patch) -> None:
    patch.setattr(dead_letters, "reject", lambda _engine, _topic, held, *_: settle_each(GroupCursor.ack, held))


def dead_letters_are_copied_back(patch: Patch) -> None:
    patch.setattr(Consumer, "move", lambda self, receipts: None)


def expired_messages_come(patch: Patch) -> None:
    patch.setattr(dispatcher, "sift", lambda engine, group, taken, take: [taken])


def order_of_keys_is_ignored(patch: Patch) -> None:
    patch.setattr(flow, "arrange_all", lambda cursors, late: None)


def kept_messages_are_deleted(patch: Patch) -> None:
    patch.setattr(retention, "_keep", retention._keep_no_more)
    patch.setattr(retention.RetentionKeeper, "changed", lambda self, topic: None)


def schedules_lose_their_place(patch: Patch) -> None:
    """Ticks are published again by the next start."""
    go_on_at = Scheduler._go_on_at

    def in_memory_only(self, name, next_at_ms):
        change, self._journal.change = self._journal.change, lambda batch: None
        try:
            go_on_at(self, name, next_at_ms)
        finally:
            self._journal.change = change

    patch.setattr(Scheduler, "_go_on_at", in_memory_only)


def pauses_are_ignored(patch: Patch) -> None:

    patch.setattr(TopicAdmin, "apply", lambda self, topics: None)


def transactions_are_two_commits(patch: Patch) -> None:
    """What a transaction settles is in the commit after the one that contains what it has published before."""
    done = Transactions._done

    def split(self, act, *args):
        if isinstance(act, Settle):
            self._journal.committer._begin_next()
        return done(self, act, *args)

    patch.setattr(Transactions, "_done", split)


def schemas_are_ignored(patch: Patch) -> None:
    patch.setattr(Schemas, "check", lambda self, schema, payloads, spent_work=0: spent_work)


def transactions_ignore_schemas(patch: Patch) -> None:
    patch.setattr(Check, "_check_schema", lambda self, name, topic, payloads: None)


PLANTS: dict[Plant, str] = {
    delay_too_short: "plain",
    due_messages_stay_delayed_too: "plain",
    cancelled_messages_come: "plain",
    dedup_ids_are_not_remembered: "plain",
    digests_are_not_compared: "plain",
    dedup_ids_are_forgotten_by_a_restart: "plain",
    unique_keys_are_never_free: "short",
    replaced_messages_stay: "debounced",
    leases_end_early: "plain",
    extending_does_nothing: "plain",
    rejected_messages_are_gone: "dying",
    dead_letters_are_copied_back: "dying",
    expired_messages_come: "short",
    order_of_keys_is_ignored: "keyed",
    kept_messages_are_deleted: "kept",
    schedules_lose_their_place: "ticking",
    pauses_are_ignored: "capped",
    transactions_are_two_commits: "keyed",
    schemas_are_ignored: "formed",
    transactions_ignore_schemas: "formed",
}
