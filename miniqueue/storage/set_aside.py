"""Check the logs of a LevelDB directory before it is opened, and move a torn tail out of the way.

What `log_tail` calls a torn tail was never acknowledged, but it may still be of use to somebody: the whole
log is copied into `lost/` before it is cut. The copy gets its name when it is complete, and the log is cut
after that, so a crash in between costs a second copy and nothing else.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import CorruptionError
from miniqueue.storage.directory_sync import sync_path
from miniqueue.storage.log_tail import Damage, find_damage


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
    """Set aside the torn tail of the newest log, if it has one.

    Args:
      database: LevelDB's directory.
      lost: where copies go; made when needed.
      verify_checksums: see `log_tail.find_damage`.

    Raises:
      CorruptionError: a log is damaged in front of whole batches, or there is none. No file was changed.
    """
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
