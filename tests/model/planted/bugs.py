"""Bugs that the machine must find: each breaks the broker in one place while its block runs."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest

from miniqueue.broker.cleanup.disk_space import DiskReclaimer
from miniqueue.broker.commit.journal import Commit, Ending, Journal
from miniqueue.broker.consume.dispatcher import Dispatcher
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.stored import encode_commit, opening
from miniqueue.broker.stored import load as reading
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease, settle_each
from miniqueue.core.cursor.lease import ChunkProgress, Lease, Range
from miniqueue.core.cursor.window import Window
from miniqueue.core.log.partition import DEFAULT_GROUP, Partition
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.server.http import subscribe as http_subscribe
from miniqueue.server.resp import connection, replies
from miniqueue.server.resp.commands import publish, subscribe
from miniqueue.storage.format import keys, values

Patch = pytest.MonkeyPatch


def reply_before_commit(patch: Patch) -> None:
    begin = Journal._begin

    def reply_first(self: Journal, commit: Commit) -> Ending:
        end = begin(self, commit)
        commit.finish()
        return end

    patch.setattr(Journal, "_begin", reply_first)


def bitmap_not_written(patch: Patch) -> None:
    add_topic = encode_commit.add_topic

    def without_bitmaps(batch, topic, now_ms):
        for cursor in topic.cursors:
            cursor.changes.touched.clear()
        return add_topic(batch, topic, now_ms)

    patch.setattr(encode_commit, "add_topic", without_bitmaps)


def settles_left_out_beside_a_commit(patch: Patch) -> None:
    """A commit that begins beside another one confirms publishes, but not what was settled before them."""
    begin = Journal._begin

    def without_cursors(self: Journal, commit: Commit) -> Ending:
        with pytest.MonkeyPatch.context() as inner:
            if not self.committer.begun[0].is_done:
                inner.setattr(encode_commit, "_add_cursor", lambda *_: None)
            return begin(self, commit)

    patch.setattr(Journal, "_begin", without_cursors)


def settles_forgotten_by_a_reopening(patch: Patch) -> None:
    """Settled messages of a chunk that is not settled as a whole return when the store is read again."""
    reopen = Journal._reopen

    async def without_bitmaps(self: Journal) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(values, "decode_bitmap", lambda value: 0)
            await reopen(self)

    patch.setattr(Journal, "_reopen", without_bitmaps)


def bitmap_not_read(patch: Patch) -> None:
    patch.setattr(values, "decode_bitmap", lambda value: 0)


def record_not_written(patch: Patch) -> None:
    add_topic = encode_commit.add_topic

    def without_records(batch, topic, now_ms):
        for cursor in topic.cursors:
            cursor.changes.records.clear()
        return add_topic(batch, topic, now_ms)

    patch.setattr(encode_commit, "add_topic", without_records)


def next_number_not_written(patch: Patch) -> None:
    """A restart would give numbers twice."""
    add_topic = encode_commit.add_topic

    def with_old_head(batch, topic, now_ms):
        appended = add_topic(batch, topic, now_ms)
        if topic.partitions[0].next_seq > 5:
            batch.pop(keys.head(topic.id, 0), None)
        return appended

    patch.setattr(encode_commit, "add_topic", with_old_head)


def nack_to_the_back(patch: Patch) -> None:
    put = GroupCursor.put

    def to_back(self, place, start, record):
        if place is Range.FRONT:
            place, start = Range.BACK, self.tail_seq << 64
        put(self, place, start, record)

    patch.setattr(GroupCursor, "put", to_back)


def back_too_early(patch: Patch) -> None:
    patch.setattr(returning, "back", returning.nack)


def delayed_too_early(patch: Patch) -> None:
    take = GroupCursor.take
    patch.setattr(GroupCursor, "take", lambda self, count, horizon_ms: take(self, count, horizon_ms + 500))


def delay_forgotten_by_a_restart(patch: Patch) -> None:
    order_of = keys.record_order
    patch.setattr(keys, "record_order", lambda key: order_of(key) & (1 << 64) - 1)


def equally_due_in_the_wrong_order(patch: Patch) -> None:
    put = GroupCursor.put

    def newest_first(self, place, start, record):
        put(self, place, start, record)
        if place is Range.DELAYED:
            start += (1 << 64) - 1 - self.serial
            order = next(reversed(self.changes.records))
            self.changes.records[place, start] = self.changes.records.pop(order)
            self.returned[place].forget([order[1]])
            self.returned[place].add(start, record)

    patch.setattr(GroupCursor, "put", newest_first)


def disconnect_loses_the_lease(patch: Patch) -> None:
    _change_disconnect(patch, lambda self, lease: None)


def disconnect_acknowledges(patch: Patch) -> None:
    _change_disconnect(patch, GroupCursor.ack)


def _change_disconnect(patch: Patch, act: Callable[[GroupCursor, Lease], None]) -> None:
    nack_all = returning.nack_all

    def change(held: Sequence[CursorLease], cause: str = "nacks") -> int:
        return settle_each(act, held) if cause == "disconnects" else nack_all(held, cause)

    patch.setattr(returning, "nack_all", change)


def delete_leaves_messages(patch: Patch) -> None:
    patch.setattr(DiskReclaimer, "purge", lambda self, topic_id: None)


def delete_keeps_the_topic_in_memory(patch: Patch) -> None:
    clear, begin = Topic.clear, Topic.begin
    kept: dict[Topic, dict[int, Partition]] = {}

    def keep_partitions(self: Topic) -> None:
        kept[self] = self.partitions
        clear(self)

    def go_on(self: Topic, topic_id: int, *arguments: Any) -> None:
        begin(self, topic_id, *arguments)
        if kept.get(self):
            self.fill(topic_id, kept[self], {DEFAULT_GROUP_NAME: DEFAULT_GROUP})

    patch.setattr(Topic, "clear", keep_partitions)
    patch.setattr(Topic, "begin", go_on)


def delete_keeps_leases(patch: Patch) -> None:
    patch.setattr(GroupCursor, "revoke_all", lambda self: None)


def receipts_begin_anew(patch: Patch) -> None:
    replace = Group.replace

    def from_one(self: Group, cursors: Iterable[GroupCursor]) -> None:
        replace(self, cursors)
        for cursor in self.cursors:
            cursor.next_receipt = 1

    patch.setattr(Group, "replace", from_one)


def last_come_first_served(patch: Patch) -> None:
    serve = Dispatcher.serve

    def push_in(self, consumer):
        serve(self, consumer)
        if consumer in consumer.group.waiters:
            consumer.group.waiters.move_to_end(consumer, last=False)

    patch.setattr(Dispatcher, "serve", push_in)


def nobody_is_woken_by_a_load(patch: Patch) -> None:
    load = reading.load

    async def load_twice(*arguments):
        await load(*arguments)
        arguments[2].log.evict()

    patch.setattr(reading, "load", load_twice)


def failed_commit_is_acknowledged(patch: Patch) -> None:
    finish = Commit.finish
    patch.setattr(Commit, "finish", lambda self, error=None: finish(self))


def memory_is_trusted_after_a_fault(patch: Patch) -> None:
    patch.setattr(Journal, "_forget", lambda self: None)
    installed = opening._installed
    patch.setattr(opening, "_installed", lambda stored, known: known.get(stored.name) or installed(stored, known))


def stop_forgets_the_last_settles(patch: Patch) -> None:
    async def no_commit(self: Journal) -> None:
        """Leave what is open."""

    patch.setattr(Journal, "drain", no_commit)


def readable_before_it_is_committed(patch: Patch) -> None:
    cut = Partition.cut

    def read_at_once(self, now_ms):
        chunks = cut(self, now_ms)
        self.commit(chunks)
        return chunks

    patch.setattr(Partition, "cut", read_at_once)
    patch.setattr(encode_commit, "add_topic", _without_commit(encode_commit.add_topic))


def _without_commit(add_topic: Callable[..., list]) -> Callable[..., list]:
    def add(batch, topic, now_ms):
        return [(topic, partition, []) for topic, partition, _ in add_topic(batch, topic, now_ms)]

    return add


def cache_forgets_what_came_back(patch: Patch) -> None:
    def drop(self: Window) -> None:
        self._items.clear()
        self.size_bytes = 0

    patch.setattr(Window, "evict", drop)


def chunk_deleted_too_early(patch: Patch) -> None:
    settle = ChunkProgress.settle

    def too_many(self, start, count):
        settle(self, start, count)
        self.unsettled_count = 0

    patch.setattr(ChunkProgress, "settle", too_many)


IN_THE_CORE = (
    reply_before_commit,
    bitmap_not_written,
    settles_left_out_beside_a_commit,
    settles_forgotten_by_a_reopening,
    bitmap_not_read,
    record_not_written,
    next_number_not_written,
    nack_to_the_back,
    back_too_early,
    delayed_too_early,
    delay_forgotten_by_a_restart,
    equally_due_in_the_wrong_order,
    disconnect_loses_the_lease,
    disconnect_acknowledges,
    delete_leaves_messages,
    delete_keeps_the_topic_in_memory,
    delete_keeps_leases,
    receipts_begin_anew,
    last_come_first_served,
    nobody_is_woken_by_a_load,
    failed_commit_is_acknowledged,
    memory_is_trusted_after_a_fault,
    stop_forgets_the_last_settles,
    readable_before_it_is_committed,
    cache_forgets_what_came_back,
    chunk_deleted_too_early,
)


# --- where what failed waits ----------------------------------------------------------------------------------


def what_failed_together_turns_around(patch: Patch) -> None:
    """Return messages in reverse order, which would be right for the front range."""

    def last_first(held: Sequence[CursorLease], cause: str = "nacks") -> int:
        return settle_each(partial(returning.nack, cause=cause), reversed(held))

    patch.setattr(returning, "nack_all", last_first)


def a_second_failure_waits_no_longer(patch: Patch) -> None:
    retry_seconds = TopicSettings.retry_seconds
    patch.setattr(TopicSettings, "retry_seconds", lambda self, count, chance: retry_seconds(self, 1, chance))


IN_WAITING = (what_failed_together_turns_around, a_second_failure_waits_no_longer)


# --- in the protocols -----------------------------------------------------------------------------------------


def resp_answers_before_the_commit(patch: Patch) -> None:
    def at_once(self, commit, reply, times=1, size_bytes=0):
        for _ in range(times):
            self.add(reply)

    patch.setattr(replies.ReplyQueue, "wait_for", at_once)


def resp_ids_are_one_off(patch: Patch) -> None:
    patch.setattr(publish, "format_message_id", lambda partition, seq: format_message_id(partition, seq + 1))


def resp_connection_lost_without_a_word(patch: Patch) -> None:
    patch.setattr(connection.RespConnection, "leave", lambda self: None)


def resp_nack_is_back(patch: Patch) -> None:
    settles = subscribe._SETTLES
    patch.setitem(settles, b"NACK", settles[b"BACK"])


def http_nack_is_ack(patch: Patch) -> None:
    settle = http_subscribe._settle

    def instead(consumer, name, *arguments):
        settle(consumer, "ACK" if name == "NACK" else name, *arguments)

    patch.setattr(http_subscribe, "_settle", instead)


IN_THE_PROTOCOLS = (
    resp_answers_before_the_commit,
    resp_ids_are_one_off,
    resp_connection_lost_without_a_word,
    resp_nack_is_back,
    http_nack_is_ack,
)
