"""Damage to every kind of file of every kind of store: nothing is ever missing without a word."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.damage.damages import files, truncations
from tests.durability.damage.outcome import Damage, Outcome, Tally, try_all
from tests.durability.damage.plan import KINDS, damages, make_samples, other_damages
from tests.durability.damage.samples import KEPT_ZEROES_BYTES, Sample, make_unacknowledged

SAMPLES = ("fresh", "two-logs", "idle", "aged")


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> dict[str, Sample]:
    return {sample.name: sample for sample in make_samples(tmp_path_factory.mktemp("samples"))}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory where there is such a place: thousands of stores are opened, and each opening syncs."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)


def assert_no_hole(tally: Tally) -> None:
    assert tally.holes == [], str(tally)


@pytest.mark.parametrize("name", SAMPLES)
def test_undamaged_store_is_complete(samples, name, scratch):
    tally = try_all(samples[name], [Damage("none", lambda _: None)], scratch)
    assert tally.counts == {Outcome.COMPLETE: 1}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.pattern.removeprefix('../')} {kind.name}")
@pytest.mark.parametrize("name", SAMPLES)
def test_damage_is_refused_or_reported(samples, name, kind, scratch):
    assert_no_hole(try_all(samples[name], damages(samples[name], kind), scratch))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_more_at_the_end_is_no_loss_and_a_missing_file_is_refused(samples, name, scratch):
    tally = try_all(samples[name], other_damages(samples[name]), scratch)
    assert_no_hole(tally)
    assert tally.counts.keys() <= {Outcome.COMPLETE, Outcome.REFUSED}


@pytest.mark.slow
def test_newest_log_cut_at_every_byte_is_refused_if_a_commit_is_missing(samples, scratch):
    fresh = samples["fresh"]
    log = Path("db") / fresh.newest_log
    tally = try_all(fresh, truncations(fresh.directory, log), scratch)
    assert_no_hole(tally)
    assert tally.counts[Outcome.REFUSED] > 2000
    without_cuts_of_zeroes = tally.counts[Outcome.COMPLETE] - KEPT_ZEROES_BYTES
    assert 0 <= without_cuts_of_zeroes < 30  # a batch without a commit: the sync of the stop


@pytest.mark.slow
@pytest.mark.parametrize("unknown_count", [2, 4])
def test_log_whose_last_commits_nobody_was_told_of_is_cut_back_to_the_acknowledged_one(
    samples, unknown_count, scratch, tmp_path
):
    sample = make_unacknowledged(samples["fresh"], tmp_path, unknown_count)
    log = Path("db") / sample.newest_log
    tally = try_all(sample, truncations(sample.directory, log, step=3), scratch)
    assert_no_hole(tally)
    assert tally.counts[Outcome.PREFIX] > 30 * unknown_count
    assert tally.counts[Outcome.REFUSED] > 300


def test_every_kind_of_file_is_damaged(samples):
    damaged = {file.name for name in SAMPLES for kind in KINDS for file in files(samples[name].directory, kind.pattern)}
    names = {path.name for path in samples["aged"].directory.rglob("*") if path.is_file()}
    assert names - damaged == {"LOCK", "LOG", "LOG.old", "miniqueue.lock"}
