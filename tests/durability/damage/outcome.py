"""Open a damaged store as the broker does, and judge what comes of it.

copy ─▶ damage ─▶ start
    refused       the files are as they were, and the text names one of them                       REFUSED
                  LevelDB had opened it and met the damage later; with that undone, all is there   LATE
    drained       everything is there                                                              COMPLETE
                  all but the last commits, none of them acknowledged, and that was reported,
                  unless the log ends with a whole batch: it looks as if there never had been more PREFIX
                  a topic ends with an error and stands in `faults`, what came before is right,
                  other topics are complete; or nothing more can be written                        FAULT
    anything else                                                                                  HOLE
"""

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from structlog.testing import capture_logs

from miniqueue.broker import Broker
from miniqueue.errors import MiniqueueError, StorageError
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import Store
from tests.durability.damage.samples import SMALL_BUFFER, Content, Sample, drained, make_broker
from tests.storage.leveldb.directories import fingerprint
from tests.storage.leveldb.files.leveldb_log import log_of
from tests.storage.leveldb.files.log_batches import batches_of

_FILE = re.compile(r"CURRENT|MANIFEST-\d+|\d+\.(log|ldb)|miniqueue\.format")

OpenStore = Callable[[Path], Awaitable[LevelDBStore]]


class Outcome(StrEnum):
    COMPLETE = "complete"
    PREFIX = "prefix reported"
    REFUSED = "refused"
    LATE = "refused late"
    FAULT = "refused at reading"
    HOLE = "silent holes"


class Verdict(NamedTuple):
    outcome: Outcome
    why: str = ""


class Damage(NamedTuple):
    """One way to damage a store.

    Attributes:
      name: says it again.
      inflict: does it to a copy.
    """

    name: str
    inflict: Callable[[Path], None]


@dataclass
class Opening:
    """What came of a start: a refusal, or content and reports."""

    refusal: str | None = None
    content: Content = field(default_factory=Content)
    reports: tuple[object, ...] = ()
    faults: frozenset[bytes] = frozenset()
    goes_on: bool = True


@dataclass
class Tally:
    """How many cases had which outcome, and those that must not be."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    holes: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.counts += other.counts
        self.holes += other.holes

    def __str__(self) -> str:
        found = ", ".join(f"{outcome}={self.counts[outcome]}" for outcome in Outcome)
        return f"n={self.counts.total()}, {found}"


async def open_store(directory: Path) -> LevelDBStore:
    """Open it the way the broker does."""
    return await LevelDBStore.open(directory, options=SMALL_BUFFER)


async def _open(directory: Path, open_directory: OpenStore) -> Opening:
    opening = Opening()

    async def opened() -> Store:
        store = await open_directory(directory)
        opening.reports = (*store.set_aside, *store.doubts)
        return store

    broker = make_broker(opened)
    try:
        await broker.start()
    except StorageError as refusal:
        opening.refusal = str(refusal)
        return opening
    try:
        opening.content = await drained(broker)
        opening.faults = frozenset(broker.faults())
        await broker.publish(b"another", [b"one more"]).commit.wait()
    except MiniqueueError:
        opening.goes_on = False
    finally:
        await _stop(broker)
    return opening


async def _stop(broker: Broker) -> None:
    try:
        await broker.stop()
    except MiniqueueError:
        return  # the store has failed since


def judge(sample: Sample, directory: Path, open_directory: OpenStore = open_store) -> Verdict:
    """Open the damaged copy of a sample in `directory`, and say what came of it."""
    before, newest_log = fingerprint(directory), _newest_log(sample, directory)
    with capture_logs():  # thousands of lines, of which every one is wanted
        opening = asyncio.run(_open(directory, open_directory))
    if opening.refusal is not None:
        return _judge_refusal(opening.refusal, sample, directory, before)
    if opening.content.errors:
        return _judge_faults(sample.states[-1], opening)
    return _judge_content(sample, opening, newest_log)


def _judge_refusal(text: str, sample: Sample, directory: Path, before: dict[str, str]) -> Verdict:
    if str(directory) not in text or _FILE.search(text) is None:
        return Verdict(Outcome.HOLE, f"refused without naming a file: {text}")
    after = fingerprint(directory)
    if after == before:
        return Verdict(Outcome.REFUSED, text)
    changed = sorted({name for name, _ in after.items() ^ before.items()})
    _undo(sample, directory, before)
    if asyncio.run(_open(directory, open_store)).content != sample.states[-1]:
        return Verdict(Outcome.HOLE, f"refused, but changed {changed}, and not all is there any more: {text}")
    return Verdict(Outcome.LATE, text)


def _undo(sample: Sample, directory: Path, before: dict[str, str]) -> None:
    """Give the files back that were damaged, and nothing else."""
    for name, content in fingerprint(sample.directory).items():
        if before.get(name) != content:
            shutil.copyfile(sample.directory / name, directory / name)


def _judge_faults(wanted: Content, opening: Opening) -> Verdict:
    found = opening.content
    said = "; ".join(f"{topic.decode()}: {error}" for topic, error in found.errors.items())
    if not _are_counts_right(wanted, found):
        return Verdict(Outcome.HOLE, f"topics {found.settled}, should be {wanted.settled} ({said})")
    for topic, messages in wanted.messages.items():
        came = found.messages[topic]
        if came != messages[: len(came)] or (topic not in found.errors and came != messages):
            return Verdict(Outcome.HOLE, f"{topic.decode()}: {len(came)} came, not the first ones ({said})")
    if opening.faults != set(found.errors):
        return Verdict(Outcome.HOLE, f"faults tell of {sorted(opening.faults)} ({said})")
    return Verdict(Outcome.FAULT, said if opening.goes_on else f"{said}; nothing can be written")


def _are_counts_right(wanted: Content, found: Content) -> bool:
    """Compare what was published and acknowledged; numbers of a topic with a damaged end go on further behind."""
    if found.settled.keys() != wanted.settled.keys():
        return False
    for topic, (published, acknowledged) in wanted.settled.items():
        is_numbered_anew = topic in found.errors and found.settled[topic][0] > published
        if found.settled[topic] != (found.settled[topic][0] if is_numbered_anew else published, acknowledged):
            return False
    return True


def _judge_content(sample: Sample, opening: Opening, newest_log: bytes) -> Verdict:
    if opening.content == sample.states[-1]:
        return Verdict(Outcome.COMPLETE) if opening.goes_on else Verdict(Outcome.FAULT, "nothing can be written")
    number = _commit_of(opening.content, sample.states)
    if number is None:
        return Verdict(Outcome.HOLE, "what came is the state after no commit")
    lost = f"commits {number + 1} to {len(sample.states) - 1} are missing"
    if number < sample.acknowledged:
        return Verdict(Outcome.HOLE, f"{lost}, {sample.acknowledged} was acknowledged; reports: {opening.reports}")
    if not opening.reports and not _is_cut_behind_a_batch(sample, newest_log):
        return Verdict(Outcome.HOLE, f"{lost} without a word")
    return Verdict(Outcome.PREFIX, lost)


def _newest_log(sample: Sample, directory: Path) -> bytes:
    log = directory / "db" / sample.newest_log
    return log.read_bytes() if log.is_file() else b""


def _is_cut_behind_a_batch(sample: Sample, newest_log: bytes) -> bool:
    batches = batches_of(_newest_log(sample, sample.directory))
    return any(log_of(*batches[:count])[0] == newest_log for count in range(len(batches)))


def _commit_of(content: Content, states: list[Content]) -> int | None:
    return next((number for number in reversed(range(len(states))) if states[number] == content), None)


def try_all(sample: Sample, damages: Iterable[Damage], scratch: Path, open_directory: OpenStore = open_store) -> Tally:
    """Inflict each damage on a copy of its own."""
    tally = Tally()
    for damage, verdict in verdicts(sample, damages, scratch, open_directory):
        tally.counts[verdict.outcome] += 1
        if verdict.outcome is Outcome.HOLE:
            tally.holes.append(f"{sample.name}: {damage.name}: {verdict.why}")
    return tally


def verdicts(
    sample: Sample, damages: Iterable[Damage], scratch: Path, open_directory: OpenStore = open_store
) -> Iterator[tuple[Damage, Verdict]]:
    """Yield each damage with what came of it."""
    for damage in damages:
        copy = scratch / "copy"
        shutil.copytree(sample.directory, copy)
        damage.inflict(copy)
        yield damage, judge(sample, copy, open_directory)
        shutil.rmtree(copy)
