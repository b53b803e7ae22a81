"""The short form of the soak: a dozen crashes of each kind; and the proof that the loops find what they must.

Each planted bug is run until it is found. The limits are far above what that takes: a test that finds nothing has
lost its eyes.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from tests.acceptance.process import Trust
from tests.acceptance.tools import needs
from tests.durability.crash.loop import CrashLoop, Cutting, find
from tests.durability.crash.powercut import build_library
from tests.durability.crash.result import Result
from tests.durability.crash.sweep import record_run, sweep
from tests.durability.crash.unsynced import Mode

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, pytest.mark.timeout(600), needs("gcc")]

CRASHES = 8
SEED = 20_260
LOAD_SECONDS = 0.24
CRASHES_BETWEEN_CHECKS = 4
CRASHES_PER_LIFE = 5
#: What has been done beside the crashes at the least: published, by players, topics deleted, questions answered,
#: settled with SYNC.
WORK = {
    "confirmed": 15 * CRASHES,
    "acts": 6 * CRASHES,
    "deleted": CRASHES // 3,
    "answered": CRASHES // 3,
    "synced": CRASHES // 3,
}
SWEEP_CUTS = 120
#: A planted bug is found within this many crashes; most are with the first few.
CRASHES_TO_FIND = 150


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("powercut"))


def report_of(result: Result) -> str:
    return f"{result.line()}\n{result.faults()}"


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory, trust: Trust, library: Path
) -> Iterator[dict[str, Future[Result]]]:
    """What comes of each loop; two run at a time, because a crash is mostly waiting for a start."""

    def run(name: str, cutting: Cutting | None, syncs: tuple[str, ...], shards: int = 1) -> Result:
        loop = CrashLoop(
            tmp_path_factory.mktemp(name) / "loop",
            trust,
            seed=SEED,
            cutting=cutting,
            syncs=syncs,
            load_seconds=LOAD_SECONDS,
            crashes_between_checks=CRASHES_BETWEEN_CHECKS,
            crashes_per_life=CRASHES_PER_LIFE,
            shards=shards,
        )
        return loop.run(name, CRASHES, work=WORK)

    pool = ThreadPoolExecutor(2)
    started = {"kill": pool.submit(run, "kill", None, ("always", "interval", "never"))}
    started |= {"shards": pool.submit(run, "shards", None, ("always",), 3)}
    started |= {mode: pool.submit(run, mode, Cutting(library, mode), ("always",)) for mode in Mode}
    yield started
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("loop", ["kill", "shards", *Mode])
def test_nothing_is_lost_by_kills_and_power_cuts(results, loop):
    result = results[loop].result()
    assert result.is_clean, report_of(result)
    counts = {kind: result.report.counts[kind] for kind in WORK}
    assert all(counts[kind] >= count for kind, count in WORK.items()), f"the clients were hardly at work: {counts}"


def test_the_store_can_be_opened_after_a_cut_behind_any_call_and_has_what_was_acknowledged(tmp_path, library):
    entries = record_run(library, tmp_path, batches=200)
    result = sweep(entries, tmp_path, SWEEP_CUTS, Random(SEED))
    assert result.is_clean, "\n".join([result.line(SEED), *result.findings[:20]])
    assert result.cuts == SWEEP_CUTS


def test_with_sync_interval_a_cut_takes_only_the_last_batches_since_the_last_sync(tmp_path, library):
    entries = record_run(library, tmp_path, batches=200, sync="interval")
    result = sweep(entries, tmp_path, SWEEP_CUTS, Random(SEED), "interval")
    assert result.is_clean, "\n".join([result.line(SEED), *result.findings[:20]])
    assert result.behind > SWEEP_CUTS // 24, "no cut has taken anything"
    assert result.counts["refused"] < SWEEP_CUTS // 2


# --- the loops find what they must --------------------------------------------------------------------------


def test_the_sweep_finds_what_a_store_loses_that_never_syncs(tmp_path, library):
    entries = record_run(library, tmp_path, batches=50, sync="never")
    assert sweep(entries, tmp_path, SWEEP_CUTS, Random(SEED)).counts["lost"]


def test_the_sweep_finds_what_a_store_loses_that_says_it_has_synced(tmp_path, library):
    """What `interval` leaves on the disk is not enough where every batch is to be there."""
    entries = record_run(library, tmp_path, batches=50, sync="interval")
    assert sweep(entries, tmp_path, SWEEP_CUTS, Random(SEED), "always").counts["lost"]


@pytest.fixture
def find_fault(tmp_path, trust):
    """Crash a broker with a planted bug until a fault of that kind is found; return the result."""

    def find_kind(kind: str, cutting: Cutting | None, plant: str | None = None, sync: str = "always") -> Result:
        def loop(attempt: int) -> CrashLoop:
            return CrashLoop(
                tmp_path / f"loop-{attempt}",
                trust,
                seed=SEED + attempt,
                cutting=cutting,
                plant=plant,
                syncs=(sync,),
                load_seconds=LOAD_SECONDS,
                crashes_between_checks=CRASHES_TO_FIND + 1,
            )

        return find(kind, loop, plant or sync, CRASHES_TO_FIND)

    return find_kind


def test_a_broker_that_never_syncs_is_found_to_lose_messages(find_fault, library):
    result = find_fault("lost", Cutting(library, Mode.DROP), sync="never")
    assert result.report.counts["lost"], report_of(result)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("plant", "mode", "kind"),
    [
        ("skip-fsync", Mode.DROP, "lost"),
        ("skip-directory-sync", Mode.STRICT, "lost"),
        ("reply-early", None, "lost"),
        ("drop-bitmaps", None, "duplicated"),
        ("reverse-chunks", None, "out_of_order"),
        ("forget-deletions", None, "phantom"),
        ("drop-dedup-ids", None, "broken"),
        ("drop-ticks", None, "broken"),
        ("share-partitions", None, "out_of_order"),
        ("mix-answers-up", None, "broken"),
        ("answer-syncs-early", None, "duplicated"),
    ],
)
def test_a_planted_bug_is_found(find_fault, library, plant, mode, kind):
    result = find_fault(kind, mode and Cutting(library, mode), plant)
    assert result.report.counts[kind], report_of(result)
