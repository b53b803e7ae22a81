"""The real broker with small write buffers, and with a bug when one is asked for.

    python -m tests.durability.crash.launcher [--plant BUG] flags of miniqueue…

64 KiB instead of the product's size make logs begin and tables be written and merged hundreds of times a minute.
Everything else is `miniqueue.cli.main`. Most planted bugs sit below the store's interface, where nothing but a crash
shows them; they are there to prove that the loops find such things.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from miniqueue import cli
from miniqueue.broker import broker
from miniqueue.broker.acts import task as act_task
from miniqueue.broker.acts import tasks as act_tasks
from miniqueue.broker.cleanup import disk_space
from miniqueue.broker.commit import journal
from miniqueue.broker.consume import membership
from miniqueue.broker.leases import request_reply
from miniqueue.broker.transactions import transactions
from miniqueue.broker.transactions.acts import Act, Settle
from miniqueue.core.message.message import Chunk
from miniqueue.server import run
from miniqueue.storage.format import keys, values
from miniqueue.storage.leveldb import database, opening, store
from miniqueue.storage.port import Batch

SMALL = database.DatabaseOptions(write_buffer_bytes=64 << 10)


class SmallStore(store.LevelDBStore):
    """The store, with small write buffers."""

    @classmethod
    async def open(cls, path: Path, **options: Any) -> store.LevelDBStore:
        return await super().open(path, **{**options, "options": SMALL})


class _Changed:
    """A database with another way to write."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class SkipsFsync(_Changed):
    """Hands batches over to the kernel, and says that they are on the disk."""

    def write_batch(self, *, transaction: bool, sync: bool) -> AbstractContextManager[Any]:
        return self._real.write_batch(transaction=transaction, sync=False)


class _ChangesWrites(_Changed):
    """Writes other changes than it should, but as many: the store counts them."""

    @contextmanager
    def write_batch(self, *, transaction: bool, sync: bool) -> Iterator[Any]:
        with self._real.write_batch(transaction=transaction, sync=sync) as changes:
            yield _Writes(self, changes)

    def changed(self, key: bytes, value: bytes) -> bytes | None:
        """Return what to write for a value; None: what is there stays."""
        return value

    def is_deleted(self, key: bytes) -> bool:
        """Return whether a deletion is carried out."""
        return True

    def keep(self, changes: Any, key: bytes) -> None:
        """Write once more what is there."""
        value = self._real.get(key)
        changes.delete(key) if value is None else changes.put(key, value)


class _Writes:
    def __init__(self, database: _ChangesWrites, changes: Any) -> None:
        self._database = database
        self._changes = changes

    def put(self, key: bytes, value: bytes) -> None:
        changed = self._database.changed(key, value)
        self._database.keep(self._changes, key) if changed is None else self._changes.put(key, changed)

    def delete(self, key: bytes) -> None:
        self._changes.delete(key) if self._database.is_deleted(key) else self._database.keep(self._changes, key)


class DropsBitmaps(_ChangesWrites):
    """Leaves out which messages of a chunk are settled."""

    def changed(self, key: bytes, value: bytes) -> bytes | None:
        return None if key[:1] == keys.bitmap(0, 0, 0, 0)[:1] else value


class ReversesChunks(_ChangesWrites):
    """Writes the messages of a commit in the wrong order."""

    def changed(self, key: bytes, value: bytes) -> bytes | None:
        if key[:1] != keys.chunk(0, 0, 0)[:1]:
            return value
        chunk = values.decode_chunk(0, value)
        return values.encode_chunk(Chunk(0, chunk.committed_at_ms, chunk.payloads[::-1]))


class DropsDedupIds(_ChangesWrites):
    """Leaves out what was published with which dedup id."""

    def changed(self, key: bytes, value: bytes) -> bytes | None:
        return None if key[0] == keys.Space.DEDUP else value


class DropsTicks(_ChangesWrites):
    """Leaves out which tick of a schedule is next."""

    def changed(self, key: bytes, value: bytes) -> bytes | None:
        return None if key[0] == keys.Space.TICK and self._is_known(key) else value

    def _is_known(self, key: bytes) -> bool:
        return self._real.get(key) is not None


class ForgetsDeletions(_ChangesWrites):
    """Leaves out that a topic is no more."""

    def changed(self, key: bytes, value: bytes) -> bytes | None:
        return None if key[:1] == keys.purge(0)[:1] else value

    def is_deleted(self, key: bytes) -> bool:
        return key[:1] != keys.topic(b"")[:1]


class RepliesEarly(SmallStore):
    """Says that a batch is on the disk when it has only been handed to the writer."""

    async def write(self, batch: Batch, *, is_synced: bool = False) -> None:
        self._last = asyncio.ensure_future(super().write(dict(batch), is_synced=is_synced))


class _NeverSynced(opening.DirectorySync):
    def sync_if_changed(self) -> None:
        """Do nothing."""


def _use_database(kind: type[_Changed]) -> None:
    real = opening.open_database
    opening.open_database = lambda *arguments: kind(real(*arguments))


def _use_no_directory_sync() -> None:
    opening.DirectorySync = _NeverSynced


def _forget_deletions() -> None:
    _use_database(ForgetsDeletions)
    disk_space.DiskReclaimer.purge = lambda *_: None


def _reply_early() -> None:
    run.LevelDBStore = RepliesEarly


def _share_partitions() -> None:
    """A member reads a partition while another still has messages of it."""
    membership.Membership._is_free = lambda *_: True


def _mix_answers_up() -> None:
    """The answer goes to whoever asked last."""

    def pass_on(requests: request_reply.Requests, reply_to: bytes, payload: bytes) -> None:
        if requests._waiting:
            requests._waiting[list(requests._waiting)[-1]].answer(payload)

    request_reply.Requests._pass_on = pass_on


def _answer_syncs_early() -> None:
    """A settle with SYNC is answered before its commit."""

    def done(_broker: broker.Broker) -> journal.Commit:
        commit = journal.Commit()
        commit.finish()
        return commit

    broker.Broker.sync = done


def _split_transactions() -> None:
    """What a transaction settles is in the commit after that of its publishes."""
    done = transactions.Transactions._done

    def split(self: transactions.Transactions, act: Act, *others: Any) -> object:
        if isinstance(act, Settle):
            self._journal.committer._begin_next()
        return done(self, act, *others)

    transactions.Transactions._done = split


def _store_tasks_late() -> None:
    """How far a task has come is in a later commit than what it did."""
    save = act_tasks.ActTasks._save

    def later(self: act_tasks.ActTasks, task: act_task.Task) -> None:
        if task.count:
            asyncio.get_running_loop().call_later(0.05, save, self, task)
        else:
            save(self, task)

    act_tasks.ActTasks._save = later


PLANTS: dict[str, Callable[[], None]] = {
    "skip-fsync": lambda: _use_database(SkipsFsync),
    "drop-bitmaps": lambda: _use_database(DropsBitmaps),
    "drop-dedup-ids": lambda: _use_database(DropsDedupIds),
    "drop-ticks": lambda: _use_database(DropsTicks),
    "reverse-chunks": lambda: _use_database(ReversesChunks),
    "forget-deletions": _forget_deletions,
    "reply-early": _reply_early,
    "share-partitions": _share_partitions,
    "mix-answers-up": _mix_answers_up,
    "answer-syncs-early": _answer_syncs_early,
    "skip-directory-sync": _use_no_directory_sync,
    "split-transactions": _split_transactions,
    "store-tasks-late": _store_tasks_late,
}


def main(arguments: list[str]) -> int:
    run.LevelDBStore = SmallStore
    if arguments[:1] == ["--plant"]:
        PLANTS[arguments[1]]()
        arguments = arguments[2:]
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
