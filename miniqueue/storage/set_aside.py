"""Check the logs of a LevelDB directory before it is opened, and move torn tails out of the way.

What `log_tail` calls a torn tail was never acknowledged, but it may still be of use to somebody: the whole
log is copied into `lost/` before it is cut. The copy gets its name when it is complete, and the log is cut
after that, so a crash in between costs a second copy and nothing else.

The manifest, LevelDB's log of which tables there are, can be torn too, when the power is cut while a table is being
added. Its tail may be cut only while the log is there that the rest of it needs: then all that was in the table is
in that log. Otherwise the edit had been durable, the log was removed after it, and it is damage.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import CorruptionError
from miniqueue.storage.directory_sync import sync_path
from miniqueue.storage.log_tail import Damage, find_damage, find_manifest_damage
from miniqueue.storage.manifest import needed_log


@dataclass(frozen=True, slots=True)
class SetAside:
    """A torn tail that was cut off.

    Attributes:
      file: the log that was cut.
      offset: where, in bytes.
      size_bytes: how much was cut off.
      copy: the log as it was before.
    """

    file: Path
    offset: int
    size_bytes: int
    copy: Path


def check_logs(database: Path, lost: Path, *, verify_checksums: bool) -> list[SetAside]:
    """Set aside the torn tail of the newest log, if it has one, and that of the manifest.

    Args:
      database: LevelDB's directory.
      lost: where copies go; made when needed.
      verify_checksums: see `log_tail.find_damage`; the manifest is looked at only then.

    Raises:
      CorruptionError: a log is damaged in front of whole batches, or there is none; or the manifest is damaged
        otherwise than by a torn tail. What is damaged was not changed.
    """
    set_aside = _check_batches(database, lost, verify_checksums=verify_checksums)
    return set_aside + _check_manifest(database, lost) if verify_checksums else set_aside


def _check_batches(database: Path, lost: Path, *, verify_checksums: bool) -> list[SetAside]:
    logs = sorted(database.glob("*.log"), key=lambda path: (len(path.name), path.name))  # as numbers
    if not logs:
        raise CorruptionError(f"{database}: there is no log file")
    for log in logs:
        damage = find_damage(log.read_bytes(), verify_checksums=verify_checksums)
        if damage is not None:
            _refuse_corruption(log, damage, is_newest=log == logs[-1])
            return [_set_aside(log, damage.offset, lost)]
    return []


def _refuse_corruption(log: Path, damage: Damage, *, is_newest: bool) -> None:
    if is_newest and damage.next_batch_offset is None:
        return
    end = damage.next_batch_offset or log.stat().st_size
    damaged_bytes = end - damage.offset
    raise CorruptionError(f"{log}: damaged at offset {damage.offset}, {damaged_bytes} bytes, in front of sound data")


def _check_manifest(database: Path, lost: Path) -> list[SetAside]:
    manifest = database / os.fsdecode((database / "CURRENT").read_bytes().rstrip(b"\n"))
    if not manifest.is_file():
        return []  # LevelDB says so better
    content = manifest.read_bytes()
    damage = find_manifest_damage(content)
    if damage is None:
        return []
    log_number = needed_log(content[: damage.offset])
    is_torn_tail = damage.next_batch_offset is None and log_number is not None
    if not is_torn_tail or not (database / f"{log_number:06d}.log").exists():
        raise CorruptionError(f"{manifest}: damaged at offset {damage.offset}")
    return [_set_aside(manifest, damage.offset, lost)]


def _set_aside(log: Path, offset: int, lost: Path) -> SetAside:
    size_bytes = log.stat().st_size - offset
    copy = _keep_copy(log, lost)
    os.truncate(log, offset)
    sync_path(log)
    return SetAside(log, offset, size_bytes, copy)


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
