"""The rides are the same each time, and have what real input has; what was done to them is compared in the end."""

import json
from pathlib import Path

import pytest

from benchmarks.rides.failing import Fate, fate_of

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
making = pytest.importorskip("benchmarks.rides.making")


@pytest.fixture(scope="module")
def rides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("rides")
    making.make_rides(directory, 3000, seed=7)
    return directory


def table(directory):
    return parquet.read_table(directory, partitioning=None)


def test_a_seed_makes_the_same_rides_again_and_another_one_makes_others(rides, tmp_path):
    making.make_rides(tmp_path / "same", 3000, seed=7)
    making.make_rides(tmp_path / "other", 3000, seed=8)
    assert table(tmp_path / "same").equals(table(rides))
    assert not table(tmp_path / "other").equals(table(rides))


def test_rides_have_nulls_nested_values_and_text_of_many_scripts(rides):
    rows = table(rides).to_pylist()
    assert any(row["passenger_count"] is None for row in rows)
    assert any(row["pickup"] is None for row in rows)
    assert any(row["surcharges"] is None for row in rows)
    assert {len(row["surcharges"]) for row in rows if row["surcharges"] is not None} == {0, 1, 2}
    assert any(row["note"] and not row["note"].isascii() for row in rows)


def test_one_zone_has_a_seventh_of_the_pickups_and_most_have_few(rides):
    zones = table(rides)["PULocationID"].value_counts().to_pylist()
    counts = sorted((zone["counts"] for zone in zones), reverse=True)
    assert 0.1 < counts[0] / 3000 < 0.25
    assert counts[len(counts) // 2] < 10


def test_totals_are_those_of_the_rows(rides):
    rows = table(rides).to_pylist()
    assert json.loads((rides / making.TOTALS).read_text()) == {
        "rides": 3000,
        "total_cents": sum(round(row["total_amount"] * 100) for row in rows),
        "unknown_passengers": sum(row["passenger_count"] is None for row in rows),
        "surcharge_cents": sum(one["cents"] for row in rows for one in row["surcharges"] or ()),
        "note_chars": sum(len(row["note"] or "") for row in rows),
    }


def test_few_rides_fail_and_each_in_its_own_way():
    fates = [fate_of(ride_id) for ride_id in range(50_000)]
    assert [fates.count(fate) for fate in (Fate.REJECTED, Fate.POISONOUS)] == [6, 5]
    assert fates.count(Fate.DONE_LATER) == 101
