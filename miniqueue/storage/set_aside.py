"""Check the logs of a LevelDB directory before it is opened, and move torn tails out of the way.

A tail that is torn or unfinished may be dropped when it was never acknowledged. What must be there is known from

    the manifest        names the oldest log that is needed                                       manifest
    the logs            every log goes on with the change where the one before it ended           log_changes
    the tables          all are there; where a start reads them, checksums are right              table_check
    the mark            the last change that was acknowledged is in a log, or in a table          acknowledged

A torn tail may still be of use to somebody: the whole log is copied into `lost/` before it is cut. The copy gets its
name when it is complete, and the log is cut after that, so a crash in between costs a second copy and nothing else.
An unfinished tail is the beginning of one batch; LevelDB drops it by itself, unless zeroes are behind it: then it is
cut here.

The manifest, LevelDB's log of which tables there are, can be torn too, when the power is cut while a table is being
added. Its tail may be cut only while the log is there that the rest of it needs: then all that was in the table is
in that log. Otherwise the edit had been durable, the log was removed after it, and it is damage.
"""

import os
import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from miniqueue.errors import CorruptionError
from miniqueue.storage import keys
from miniqueue.storage.acknowledged import Acknowledged
from miniqueue.storage.directory_sync import log_number, sync_path
from miniqueue.storage.log_changes import Changes, changes_of, last_change_of
from miniqueue.storage.log_tail import Damage, find_manifest_damage, survey
from miniqueue.storage.manifest import parse_manifest
from miniqueue.storage.own_files import read_file
from miniqueue.storage.table_check import BYTES_BEYOND_A_START, check_tables, manifest_path


@dataclass(frozen=True, slots=True)
class SetAside:
    """A tail that does not count.

    Attributes:
      file: the log that has it.
      offset: where it begins, in bytes.
      size_bytes: how long it is.
      copy: the log as it was before it was cut; None when the tail was unfinished.
    """

    file: Path
    offset: int
    size_bytes: int
    copy: Path | None


class Checked(NamedTuple):
    """What `check_logs` found.

    Attributes:
      set_aside: the tails that do not count.
      last_change: the number that LevelDB gave to the last change that counts; 0 when there is none.
    """

    set_aside: list[SetAside]
    last_change: int


@dataclass(frozen=True, slots=True)
class _Log:
    """What was found in a log, without its content."""

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
    """Set aside the torn tail of the newest log, if it has one, and that of the manifest.

    Args:
      database: LevelDB's directory.
      lost: where copies go; made when needed.
      verify_checksums: see `log_tail.survey`; the manifest is looked at only then.
      acknowledged: the last change that is known to have been acknowledged.
      max_table_bytes: into how much of the tables to look beyond what a start reads, see `check_tables`.

    Raises:
      CorruptionError: a log is missing, damaged in front of whole batches, or ends in front of what was acknowledged;
        or the manifest is damaged otherwise than by a torn tail. What is damaged was not changed.
    """
    manifest = parse_manifest(read_file(manifest_path(database)))
    if manifest.needed_log is None:
        _refuse_damaged_manifest(database)
        raise CorruptionError(f"{manifest_path(database)}: cut short at offset {manifest.end_offset}")
    logs = [_surveyed(path, verify_checksums) for path in _needed_logs(database, manifest.needed_log)]
    _refuse_holes(logs, manifest.last_sequence)
    newest = logs[-1]
    if newest.damage is not None and newest.damage.next_batch_offset is not None:
        raise CorruptionError(_in_front_of_sound_data(newest, newest.damage.next_batch_offset))
    if acknowledged is not None and manifest.needed_log <= acknowledged.log:
        _refuse_loss(logs, acknowledged.change)
    check_tables(database, manifest, keys.state(), max_table_bytes)
    set_aside = _tail(newest, lost)
    if verify_checksums:
        set_aside += _check_manifest(database, lost)
    return Checked(set_aside, max(manifest.last_sequence or 0, *(log.last_change for log in logs)))


def _needed_logs(database: Path, needed: int) -> list[Path]:
    """Return the logs to replay, oldest first; empty ones at the end have been made and not used yet."""
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
    found = survey(log, verify_checksums=verify_checksums)
    return _Log(
        path,
        found.end_offset,
        found.tail_bytes,
        found.damage,
        found.is_only_begun,
        changes_of(log, found),
        last_change_of(log, found),
    )


def _refuse_holes(logs: list[_Log], last_sequence: int | None) -> None:
    """Refuse logs of which one does not go on where the one before it ended, or the first where the manifest did."""
    for older in logs[:-1]:
        if older.tail_bytes:
            raise CorruptionError(_in_front_of_sound_data(older, older.end_offset + older.tail_bytes))
    used = [(log.path, log.changes) for log in logs if log.changes is not None]
    if used and last_sequence is not None and used[0][1].first > last_sequence + 1:
        raise _hole(*used[0], last_sequence + 1)  # less is usual: the manifest was written to later
    for (_, older_changes), (path, changes) in pairwise(used):
        if changes.first != older_changes.next:
            raise _hole(path, changes, older_changes.next)


def _hole(log: Path, changes: Changes, expected: int) -> CorruptionError:
    return CorruptionError(f"{log}: begins at offset 0 with change {changes.first}; change {expected} is missing")


def _in_front_of_sound_data(log: _Log, end: int) -> str:
    return f"{log.path}: damaged at offset {log.end_offset}, {end - log.end_offset} bytes, in front of sound data"


def _refuse_loss(logs: list[_Log], change: int) -> None:
    """Refuse logs without a change that was acknowledged; more than that may be there."""
    found = max(log.last_change for log in logs)
    if found >= change:
        return
    newest = logs[-1]
    held = f"change {found} as the last" if found else "no change"
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
    """Name damage of the manifest as the reason why a log is not there."""
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
