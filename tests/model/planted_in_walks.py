"""Bugs that the walks must find: each breaks one of the acts that clients may do, in one place."""

from collections.abc import Callable

import pytest

from miniqueue.broker import flow
from miniqueue.broker.consumer import Consumer
from miniqueue.broker.dead_letters import DeadLetters
from miniqueue.broker.delaying import Delayer
from miniqueue.broker.duplicates import Duplicates
from miniqueue.broker.expiring import Expirer
from miniqueue.broker.leasing import Leasing
from miniqueue.broker.pausing import Pauser
from miniqueue.broker.retaining import Retainer
from miniqueue.broker.scheduling import Scheduler
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.dedup_window import DIGEST_MARK, DedupWindow
from miniqueue.core.delayed import Delays
from miniqueue.core.holding import settle_each
from miniqueue.core.lease_book import LeaseBook
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.unique_keys import UniqueKeys

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def delay_too_short(patch: Patch) -> None:
    due_at_ms = PublishOptions.due_at_ms
    patch.setattr(PublishOptions, "due_at_ms", lambda self, now_ms: max(now_ms, due_at_ms(self, now_ms) - 400))


def due_messages_stay_delayed_too(patch: Patch) -> None:
    """What is appended is not deleted from where it waited, and comes again after a restart."""
    release = Delayer._release

    async def without_removal(self, topic, partition):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Delays, "remove", lambda self, place, message: None)
            await release(self, topic, partition)

    patch.setattr(Delayer, "_release", without_removal)


def cancelled_messages_come(patch: Patch) -> None:
    async def cancel(self, name, delayed_id):
        return None

    patch.setattr(Delayer, "cancel", cancel)


def dedup_ids_are_not_remembered(patch: Patch) -> None:
    patch.setattr(DedupWindow, "find", lambda self, dedup_id, oldest_ms: None)


def digests_are_not_compared(patch: Patch) -> None:
    find = DedupWindow.find
    plain = lambda self, dedup_id, oldest_ms: find(self, dedup_id.partition(DIGEST_MARK)[0], oldest_ms)  # noqa: E731
    patch.setattr(DedupWindow, "find", plain)


def dedup_ids_are_forgotten_by_a_restart(patch: Patch) -> None:
    def install(self, topics):
        for topic in topics:
            topic.dedup = None

    patch.setattr(Duplicates, "install", install)


def unique_keys_are_never_free(patch: Patch) -> None:
    patch.setattr(UniqueKeys, "free", lambda self, gone: None)


def leases_end_early(patch: Patch) -> None:
    expire = LeaseBook.expire
    patch.setattr(LeaseBook, "expire", lambda self, now, max_count: expire(self, now + 3, max_count))


def extending_does_nothing(patch: Patch) -> None:
    patch.setattr(Leasing, "extend", lambda self, name, receipts, seconds: [True] * len(receipts))


def rejected_messages_are_gone(patch: Patch) -> None:
    patch.setattr(DeadLetters, "reject", lambda self, topic, held, reason: settle_each(GroupCursor.ack, held))


def dead_letters_are_copied_back(patch: Patch) -> None:
    patch.setattr(Consumer, "move", lambda self, receipts: None)


def expired_messages_come(patch: Patch) -> None:
    patch.setattr(Expirer, "sift", lambda self, group, taken, take: [taken])


def order_of_keys_is_ignored(patch: Patch) -> None:
    patch.setattr(flow, "arrange", lambda cursor, rules: None)


def kept_messages_are_deleted(patch: Patch) -> None:
    patch.setattr(Retainer, "_keep", Retainer._keep_no_more)
    patch.setattr(Retainer, "apply_settings", lambda self, topic: None)


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

    patch.setattr(Pauser, "apply", lambda self, topics: None)


PLANTS: dict[Plant, str] = {
    delay_too_short: "plain",
    due_messages_stay_delayed_too: "plain",
    cancelled_messages_come: "plain",
    dedup_ids_are_not_remembered: "plain",
    digests_are_not_compared: "plain",
    dedup_ids_are_forgotten_by_a_restart: "plain",
    unique_keys_are_never_free: "short",
    leases_end_early: "plain",
    extending_does_nothing: "plain",
    rejected_messages_are_gone: "dying",
    dead_letters_are_copied_back: "dying",
    expired_messages_come: "short",
    order_of_keys_is_ignored: "keyed",
    kept_messages_are_deleted: "kept",
    schedules_lose_their_place: "ticking",
    pauses_are_ignored: "capped",
}
