"""The soak under a mixed load, for seconds instead of an hour; and that it finds what is planted."""

import sys
from pathlib import Path

import pytest

from tests.durability.load import leaky
from tests.durability.load.flatness import BOUNDS
from tests.durability.load.long_run import soak

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


def test_a_mixed_load_leaves_nothing_behind(tmp_path, trust):
    """Memory is still warming up in so short a time, which is why only `make soak` judges it.

    Files come and go: a write buffer that is full, once in such a time, is many tables until they are merged.
    """
    soaked = soak(tmp_path, trust, seconds=8, seed=1)
    print(soaked.line())
    assert [found for found in soaked.findings if not found.startswith(("rss_bytes", "files"))] == []
    files = [sample.files for sample in soaked.samples]
    assert min(files[-len(files) // 4 :]) <= max(files[: len(files) // 2]) + BOUNDS.files
    assert min(soaked.counts[kind] for kind in ("published", "acknowledged", "deleted", "rude")) > 0


@pytest.mark.planted
def test_planted_leaks_are_found(tmp_path, trust):
    soaked = soak(tmp_path, trust, seconds=4, seed=1, command=(sys.executable, str(Path(leaky.__file__))))
    print(soaked.line(), *soaked.findings, sep="\n")
    assert {found.split()[0] for found in soaked.findings} >= {"rss_bytes", "tasks", "descriptors", "files"}
