"""The short form of the soak: thirty crashes of each kind; and the proof that the loops find what they must.

Each planted bug is run until it is found. The limits are far above what that takes: a test that finds nothing has
lost its eyes.
"""

from pathlib import Path
from random import Random

import pytest

from tests.acceptance.tools import needs
from tests.durability.crash_loop import CrashLoop, Cutting, Result
from tests.durability.powercut import build_library
from tests.durability.sweep import record_run, sweep
from tests.durability.unsynced import Mode

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, pytest.mark.timeout(600), needs("gcc")]

CRASHES = 30
SEED = 20_260
LOAD_SECONDS = 0.12
CRASHES_BETWEEN_CHECKS = 6
SWEEP_CUTS = 120
#: A planted bug is found within this many crashes; most are with the first few.
CRASHES_TO_FIND = 150


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("powercut"))


def report_of(result: Result) -> str:
    return f"{result.line()}\n{result.faults()}"


def test_nothing_is_lost_by_kill_9(tmp_path, trust):
    loop = CrashLoop(
        tmp_path / "loop",
        trust,
        seed=SEED,
        syncs=("always", "interval", "never"),
        load_seconds=LOAD_SECONDS,
        crashes_between_checks=CRASHES_BETWEEN_CHECKS,
    )
    result = loop.run("kill", CRASHES)
    assert result.is_clean, report_of(result)
    assert result.report.counts["confirmed"] > 10 * CRASHES, "the clients were hardly at work"


@pytest.mark.parametrize("mode", list(Mode))
def test_nothing_is_lost_by_power_cuts(tmp_path, trust, library, mode):
    loop = CrashLoop(
        tmp_path / "loop",
        trust,
        seed=SEED,
        cutting=Cutting(library, mode),
        load_seconds=LOAD_SECONDS,
        crashes_between_checks=CRASHES_BETWEEN_CHECKS,
    )
    result = loop.run(mode, CRASHES)
    assert result.is_clean, report_of(result)
    assert result.report.counts["confirmed"] > 10 * CRASHES, "the clients were hardly at work"


def test_the_store_can_be_opened_after_a_cut_behind_any_call_and_has_what_was_acknowledged(tmp_path, library):
    entries = record_run(library, tmp_path, batches=200)
    result = sweep(entries, tmp_path, SWEEP_CUTS, Random(SEED))
    assert result.is_clean, "\n".join([result.line(SEED), *result.findings[:20]])
    assert result.cuts == SWEEP_CUTS


# --- the loops find what they must --------------------------------------------------------------------------


def fault_of(tmp_path, trust, cutting: Cutting | None, plant: str | None = None, sync: str = "always") -> Result:
    loop = CrashLoop(
        tmp_path / "loop",
        trust,
        seed=SEED,
        cutting=cutting,
        plant=plant,
        syncs=(sync,),
        load_seconds=LOAD_SECONDS,
        crashes_between_checks=CRASHES_TO_FIND + 1,
    )
    return loop.run(plant or sync, CRASHES_TO_FIND, stops_at_fault=True)


def test_a_broker_that_never_syncs_is_found_to_lose_messages(tmp_path, trust, library):
    assert fault_of(tmp_path, trust, Cutting(library, Mode.DROP), sync="never").report.counts["lost"]


def test_the_sweep_finds_what_a_store_loses_that_never_syncs(tmp_path, library):
    entries = record_run(library, tmp_path, batches=50, sync="never")
    assert sweep(entries, tmp_path, SWEEP_CUTS, Random(SEED)).counts["lost"]


def test_a_skipped_fsync_is_found(tmp_path, trust, library):
    assert fault_of(tmp_path, trust, Cutting(library, Mode.DROP), "skip-fsync").report.counts["lost"]


def test_a_skipped_sync_of_the_directory_is_found(tmp_path, trust, library):
    assert fault_of(tmp_path, trust, Cutting(library, Mode.STRICT), "skip-directory-sync").report.counts["lost"]


def test_a_reply_before_the_commit_is_found(tmp_path, trust):
    """It loses messages, or forgets settles, or a topic has a hole and cannot be read."""
    assert not fault_of(tmp_path, trust, None, "reply-early").is_clean


def test_a_bitmap_that_is_not_written_is_found(tmp_path, trust):
    assert fault_of(tmp_path, trust, None, "drop-bitmaps").report.counts["duplicated"]
