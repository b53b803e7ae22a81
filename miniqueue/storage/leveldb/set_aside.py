"""Checks the logs of a LevelDB directory before it is opened, and sets torn tails aside.

A torn or unfinished tail can be dropped if it was never acknowledged. These files state what must exist:

    the manifest               names the oldest log that is needed                                files.manifest
    the logs                   each log begins with the change after the end of the previous log  files.log_changes
    the tables                 all exist; the parts that a startup reads have right checksums     table_check
    miniqueue.acknowledged     the last acknowledged change is in a log or in a table             acknowledged

A torn tail may still be useful to the operator, so the whole log is copied to `lost/` before it is cut. The copy gets
its name when it is complete, and the log is cut after that, so a crash in between only causes a second copy. An
unfinished tail is the beginning of one batch; LevelDB drops it by itself, unless zeros follow it, and then it is cut
here.

The manifest, LevelDB's log of the list of tables, can also be torn, by a power failure while a table is added. Its tail
can be cut only while the log that the rest of the manifest needs exists: then the content of the table is in that log.
Otherwise the edit was durable, the log was removed after it, and the tail is damage.
"""

import os
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from miniqueue.errors import CorruptionError
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.acknowledged import Acknowledged
from miniqueue.storage.leveldb.directory_sync import log_number, sync_path
from miniqueue.storage.leveldb.files.log import Damage, find_manifest_damage, survey
from miniqueue.storage.leveldb.files.log_changes import Changes, changes_of, last_change_of
from miniqueue.storage.leveldb.files.manifest import parse_manifest
from miniqueue.storage.leveldb.own_files import read_file
from miniqueue.storage.leveldb.table_check import BYTES_BEYOND_A_START, check_tables, manifest_path


@dataclass(frozen=True, slots=True)
class SetAside:
    """A tail that was dropped.

    Attributes:
      file: the log.
      offset: start of the tail, in bytes.
      size_bytes: length of the tail.
      copy: copy of the log before it was cut; None if the tail was unfinished.
    """

    file: Path
    offset: int
    size_bytes: int
    copy: Path | None


class Checked(NamedTuple):
    """The result of `check_logs`.

    Attributes:
      set_aside: the tails that were dropped.
      last_change: LevelDB's number of the last remaining change; 0 if there is none.
    """

    set_aside: list[SetAside]
    last_change: int


@dataclass(frozen=True, slots=True)
class _Log:
    """The result of a survey of a log, without the bytes of the log."""

    path: Path
    end_offset: int
    tail_bytes: int
    damage: Damage | None
    is_only_begun: bool
    changes: Changes | None
    last_change: int


def check_logs(
    database: Path,
    lost: Path,
    *,
    verify_checksums: bool,
    acknowledged: Acknowledged | None = None,
    max_table_bytes: int = BYTES_BEYOND_A_START,
) -> Checked:
    """Set aside the torn tail of the newest log, if it has one, and the torn tail of the manifest.

    Args:
      database: LevelDB's directory.
      lost: directory for copies; created if necessary.
      verify_checksums: see `files.log.survey`; also whether to check the manifest for a torn tail.
      acknowledged: the last change that is known to have been acknowledged.
      max_table_bytes: amount of the tables to check beyond what a startup reads, see `check_tables`.

    Raises:
      CorruptionError: a log is missing, is damaged before whole batches, or ends before the last acknowledged change;
        or the manifest has other damage than a torn tail. The damaged file was not changed.
    """
    manifest = parse_manifest(read_file(manifest_path(database)))
    if manifest.needed_log is None:
        _refuse_damaged_manifest(database)
        raise CorruptionError(f"{manifest_path(database)}: cut short at offset {manifest.end_offset}")
    logs = [_surveyed(path, verify_checksums) for path in _needed_logs(database, manifest.needed_log)]
    _refuse_holes(logs, manifest.last_sequence)
    newest = logs[-1]
    if newest.damage is not None and newest.damage.next_batch_offset is not None:
        raise CorruptionError(_before_sound_data(newest, newest.damage.next_batch_offset))
    if acknowledged is not None and manifest.needed_log <= acknowledged.log:
        _refuse_loss(logs, acknowledged.change)
    check_tables(database, manifest, keys.state(), max_table_bytes)
    set_aside = _tail(newest, lost)
    if verify_checksums:
        set_aside += _check_manifest(database, lost)
    return Checked(set_aside, max(manifest.last_sequence or 0, *(log.last_change for log in logs)))


def _needed_logs(database: Path, needed: int) -> list[Path]:
    """Return the logs to replay, oldest first, without empty logs at the end, which were created but not used."""
    logs = sorted((path for path in database.glob("*.log") if log_number(path) >= needed), key=log_number)
    if needed and (not logs or log_number(logs[0]) != needed):
        _refuse_damaged_manifest(database)
        raise CorruptionError(f"{database / f'{needed:06d}.log'} is missing")
    if not logs:
        raise CorruptionError(f"{database}: there is no log file")
    while len(logs) > 1 and not logs[-1].stat().st_size:
        logs.pop()
    return logs


def _surveyed(path: Path, verify_checksums: bool) -> _Log:
    log = read_file(path)
    content = survey(log, verify_checksums=verify_checksums)
    return _Log(
        path,
        content.end_offset,
        content.tail_bytes,
        content.damage,
        content.is_only_begun,
        changes_of(log, content),
        last_change_of(log, content),
    )


def _refuse_holes(logs: list[_Log], last_sequence: int | None) -> None:
    """Refuse a log that does not continue after the previous log, or a first log not after the manifest."""
    for older in logs[:-1]:
        if older.tail_bytes:
            raise CorruptionError(_before_sound_data(older, older.end_offset + older.tail_bytes))
    used = [(log.path, log.changes) for log in logs if log.changes is not None]
    if used and last_sequence is not None and used[0][1].first > last_sequence + 1:
        raise _hole(*used[0], last_sequence + 1)  # less is normal, since the manifest was written later
    for (_, older_changes), (path, changes) in pairwise(used):
        if changes.first != older_changes.next:
            raise _hole(path, changes, older_changes.next)


def _hole(log: Path, changes: Changes, expected: int) -> CorruptionError:
    return CorruptionError(f"{log}: begins at offset 0 with change {changes.first}; change {expected} is missing")


def _before_sound_data(log: _Log, end: int) -> str:
    return f"{log.path}: damaged at offset {log.end_offset}, {end - log.end_offset} bytes, before sound data"


def _refuse_loss(logs: list[_Log], change: int) -> None:
    """Refuse logs without the acknowledged change; they can contain later changes."""
    last_change = max(log.last_change for log in logs)
    if last_change >= change:
        return
    newest = logs[-1]
    held = f"change {last_change} as the last" if last_change else "no change"
    raise CorruptionError(
        f"{newest.path}: ends or is damaged at offset {newest.end_offset} with {held}; change {change} was acknowledged"
    )


def _tail(newest: _Log, lost: Path) -> list[SetAside]:
    if newest.damage is not None and not newest.is_only_begun:
        return [_set_aside(newest.path, newest.damage.offset, lost)]
    if newest.damage is not None:
        _cut(newest.path, newest.end_offset)
    unfinished_bytes = newest.tail_bytes
    return [SetAside(newest.path, newest.end_offset, unfinished_bytes, None)] if unfinished_bytes else []


def _refuse_damaged_manifest(database: Path) -> None:
    """If the manifest is damaged, report this as the reason why a log is missing."""
    manifest = manifest_path(database)
    damage = find_manifest_damage(read_file(manifest))
    if damage is not None:
        raise CorruptionError(f"{manifest}: damaged at offset {damage.offset}")


def _check_manifest(database: Path, lost: Path) -> list[SetAside]:
    manifest = manifest_path(database)
    content = read_file(manifest)
    damage = find_manifest_damage(content)
    if damage is None:
        return []
    needed = parse_manifest(content[: damage.offset]).needed_log
    is_torn_tail = damage.next_batch_offset is None and needed is not None
    if not is_torn_tail or not (database / f"{needed:06d}.log").exists():
        raise CorruptionError(f"{manifest}: damaged at offset {damage.offset}")
    return [_set_aside(manifest, damage.offset, lost)]


def _set_aside(log: Path, offset: int, lost: Path) -> SetAside:
    size_bytes = log.stat().st_size - offset
    copy = _keep_copy(log, lost)
    _cut(log, offset)
    return SetAside(log, offset, size_bytes, copy)


def _cut(log: Path, offset: int) -> None:
    os.truncate(log, offset)
    sync_path(log)


def _keep_copy(log: Path, lost: Path) -> Path:
    lost.mkdir(mode=0o700, exist_ok=True)
    copy = _unused_name(lost, log.name)
    unfinished = copy.with_name(copy.name + ".unfinished")
    shutil.copyfile(log, unfinished)
    unfinished.chmod(0o600)
    sync_path(unfinished)
    unfinished.rename(copy)
    sync_path(lost)
    sync_path(lost.parent)
    return copy


def _unused_name(lost: Path, name: str) -> Path:
    number = 1
    while (candidate := lost / f"{name}.{number}").exists():
        number += 1
    return candidate
