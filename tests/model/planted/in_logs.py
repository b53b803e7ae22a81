"""Bugs that the walks must find in logs, groups, members, requests and traces."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from miniqueue.broker.cleanup import retention
from miniqueue.broker.consume import membership
from miniqueue.broker.consume.membership import Membership
from miniqueue.broker.groups import start_positions
from miniqueue.broker.leases.request_reply import Requests
from miniqueue.broker.model import topic as topics
from miniqueue.broker.model.recording import CursorTrace
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.holding import CursorLease, settle_each
from miniqueue.core.group.growth import OldFirst
from miniqueue.core.log.retention import RetentionLimit

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


def logs_are_given_back_too_early(patch: Patch) -> None:
    limit_of = retention.limit_of
    patch.setattr(
        retention,
        "limit_of",
        lambda settings, log_bytes, end_seq, now_ms: limit_of(settings, log_bytes, end_seq, now_ms + 2000),
    )


def too_many_bytes_are_given_back(patch: Patch) -> None:
    limit_of = retention.limit_of

    def half(settings: object, log_bytes: int, end_seq: int, now_ms: int) -> RetentionLimit:
        limit = limit_of(settings, log_bytes, end_seq, now_ms)
        return limit._replace(log_bytes=None if limit.log_bytes is None else (limit.log_bytes + log_bytes) // 2)

    patch.setattr(retention, "limit_of", half)


def nobody_is_told_what_was_missed(patch: Patch) -> None:
    drop = retention.drop_unread

    async def in_silence(engine, topic, cursor, stop_seq):
        before = cursor.missed_count
        count = await drop(engine, topic, cursor, stop_seq)
        cursor.missed_count = before
        return count

    patch.setattr(retention, "drop_unread", in_silence)


def groups_go_one_too_far(patch: Patch) -> None:
    seq_of = start_positions._position
    patch.setattr(
        start_positions, "_position", lambda journal, topic, partition, seq: seq_of(journal, topic, partition, seq + 1)
    )


def keys_are_elsewhere_where_there_are_four(patch: Patch) -> None:
    partition_for = topics.partition_for
    patch.setattr(topics, "partition_for", lambda key, count: partition_for(key, count if count < 4 else 3))


def keys_overtake_where_partitions_are_added(patch: Patch) -> None:
    patch.setattr(OldFirst, "hold", lambda self: None)


def two_members_read_a_partition(patch: Patch) -> None:
    """The last one still works on it."""
    patch.setattr(Membership, "_is_free", lambda self, number, is_late: True)


def the_first_member_reads_all(patch: Patch) -> None:
    def assign(members: Sequence[Any], numbers: Iterable[int], *_: Any) -> dict[int, Any]:
        return dict.fromkeys(numbers if members else (), *members[:1])

    patch.setattr(membership, "assign", assign)


def what_the_dead_had_comes_last(patch: Patch) -> None:
    nack_all = returning.nack_all

    def to_the_back(held: Sequence[CursorLease], cause: str = "nacks", *words: Any, **options: Any) -> int:
        return settle_each(returning.back, held) if cause == "disconnects" else nack_all(held, cause, *words, **options)

    patch.setattr(returning, "nack_all", to_the_back)


def answers_go_to_who_asked_last(patch: Patch) -> None:
    def pass_on(self: Requests, reply_to: bytes, payload: bytes) -> None:
        if self._waiting:
            self._waiting[max(self._waiting)].answer(payload)

    patch.setattr(Requests, "_pass_on", pass_on)


def answers_get_lost(patch: Patch) -> None:
    patch.setattr(Requests, "_pass_on", lambda self, reply_to, payload: None)


def ends_are_not_noted(patch: Patch) -> None:
    note = CursorTrace.note

    def but_ends(self, cursor, kind, lease, reason=b""):
        if kind.name != "ACKNOWLEDGED":
            note(self, cursor, kind, lease, reason)

    patch.setattr(CursorTrace, "note", but_ends)


IN_LOGS: dict[Plant, str] = {
    logs_are_given_back_too_early: "aging",
    too_many_bytes_are_given_back: "sized",
    nobody_is_told_what_was_missed: "aging",
    groups_go_one_too_far: "shared",
    keys_are_elsewhere_where_there_are_four: "team",
    keys_overtake_where_partitions_are_added: "split",
    two_members_read_a_partition: "team",
    the_first_member_reads_all: "team",
    what_the_dead_had_comes_last: "team",
    answers_go_to_who_asked_last: "asking",
    answers_get_lost: "asking",
    ends_are_not_noted: "resting",
}
