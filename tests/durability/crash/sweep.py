"""Cut the power behind every call of one run, one after the other, and open the store that is left.

    writer ──journal──► replay call by call ──at each chosen call──► cut into a scratch directory ──► open, compare

Where the crash loops have whole brokers and few cuts, this has the store alone and as many cuts as there are calls.
What must be there is known exactly: all batches that were acknowledged by then, perhaps the one after, nothing else.
With `-sync interval` those behind the last sync may be missing, the last ones first. Where bytes are torn, a start may
then also be refused: whole batches behind torn ones cannot be told from damage.
"""

import asyncio
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from miniqueue.errors import StorageError
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.acceptance.process import environment
from tests.durability.crash.loop import ROOT
from tests.durability.crash.powercut import Disk, Entry, read_journal, variables
from tests.durability.crash.unsynced import Directory, Mode
from tests.durability.crash.writer import ACKNOWLEDGED, OPTIONS, SYNCED, content
from tests.storage.contract import everything

KINDS = ("lost", "phantom", "refused")


@dataclass
class Sweep:
    """What came of the cuts; `behind` counts those that took batches which may be missing."""

    sync: str = "always"
    cuts: int = 0
    behind: int = 0
    torn_tails: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.findings

    def line(self, seed: int) -> str:
        counts = " ".join(f"{kind}={self.counts[kind]}" for kind in KINDS)
        more = f"behind={self.behind} torn_tails={self.torn_tails}"
        return f"sweep -sync {self.sync} n={self.cuts} {counts} {more} seed={seed}"

    def add(self, kind: str, text: str, *, is_allowed: bool = False) -> None:
        self.counts[kind] += 1
        if not is_allowed:
            self.findings.append(f"{kind}: {text}")


def record_run(library: Path, directory: Path, batches: int, sync: str = "always") -> list[Entry]:
    """Fill a store with the writer, and return what it did to the disk."""
    root, journal = directory / "disk", directory / "journal"
    root.mkdir()
    env = environment(PYTHONPATH=str(ROOT)) | variables(library, root, journal, cut_at=0)
    command = [sys.executable, "-m", "tests.durability.crash.writer", root / "data", root / "acks", str(batches), sync]
    subprocess.run(command, env=env, cwd=directory, check=True)
    return list(read_journal(journal.read_bytes()))


def sweep(entries: list[Entry], directory: Path, cuts: int, random: Random, sync: str = "always") -> Sweep:
    """Cut at `cuts` calls, or at all if there are fewer; each in one of the modes.

    Args:
      entries: from `record_run` in the same directory.
      directory: the scratch directory is made in it.
      cuts: how many.
      random: chooses calls, modes and what is left.
      sync: what the run promises; normally that of `record_run`.
    """
    result = Sweep(sync)
    scratch = directory / "scratch"
    scratch.mkdir()
    chosen = set(random.sample(range(len(entries)), min(cuts, len(entries))))
    disk = Disk(directory / "disk", Directory())
    acknowledged = durable = 0
    for number, entry in enumerate(entries):
        disk.do(number, entry)
        acknowledged += entry.op == "w" and entry.content == ACKNOWLEDGED
        if sync == "always" or (entry.op == "w" and entry.content == SYNCED):
            durable = acknowledged
        if number in chosen:
            mode = random.choice(list(Mode))
            disk.cut(mode, random, into=scratch)
            found = _found(result, scratch / "data", mode, place := f"cut behind call {number} ({entry.op}), {mode}")
            if found is not None:
                _judge(result, found, durable, acknowledged, place)
    return result


def _found(result: Sweep, store: Path, mode: Mode, place: str) -> dict[bytes, bytes] | None:
    """Return what the store has; None when it cannot be opened."""
    result.cuts += 1
    try:
        return asyncio.run(_read(result, store))
    except StorageError as refusal:
        is_torn = result.sync != "always" and mode in (Mode.TEAR, Mode.ZERO)
        result.add("refused", f"{place}: {refusal}", is_allowed=is_torn and " offset " in str(refusal))
        return None


def _judge(result: Sweep, found: dict[bytes, bytes], durable: int, acknowledged: int, place: str) -> None:
    count = next((count for count in range(durable, acknowledged + 2) if found == content(count)), None)
    if count is not None:
        result.behind += count < acknowledged
        return
    kind = "lost" if content(durable).keys() - found.keys() else "phantom"
    result.add(kind, f"{place}: {durable} durable, {acknowledged} acknowledged, found {sorted(found)}")


async def _read(result: Sweep, path: Path) -> dict[bytes, bytes]:
    store = await LevelDBStore.open(path, options=OPTIONS)
    result.torn_tails += len(store.set_aside)
    try:
        return dict(await everything(store))
    finally:
        await store.close()
