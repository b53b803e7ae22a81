"""Rides like those that New York's taxi commission (TLC) publishes of its yellow cabs, as Parquet, from a seed.

    ride_id … cbd_congestion_fee   the columns of the commission's files, with the nulls they have; ride_id is new
    pickup                         struct<borough, zone, position: struct<lat, lon>>, null for unknown zones
    surcharges                     list<struct<name, cents>>, null where there is no bill, and often empty
    note                           text of many scripts, mostly null

Pickups are skewed: the zone that is asked for most has a seventh of all rides, most zones have few. The same seed and
count make the same rides, file by file.

Source: the commission's "Data Dictionary - Yellow Taxi Trip Records" of 2025.
"""

import json
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILE_ROWS: Final = 250_000
TOTALS: Final = "_totals.json"
_ZONES: Final = 265
_UNKNOWN_ZONE: Final = 264
_FIRST_PICKUP: Final = np.datetime64("2025-01-01T00:00:00", "us")
_DAYS: Final = 28
_BOROUGHS: Final = ("Manhattan", "Queens", "Brooklyn", "Bronx", "Staten Island", "EWR")
_PLACES: Final = ("Upper East Side", "JFK Airport", "Midtown", "Williamsburg", "Señor Pozo", "Højbro Plads", "Łazienki")
_NOTES: Final = (
    'two suitcases, "fragile"',
    "très pressé, déjà en retard",
    "Flughafen, Gleis\\Tor 7, bitte groß",
    "空港まで、荷物二つ",
    "Поедем через мост",
    "إلى المطار من فضلك",
    "कृपया धीरे चलें",
    "🚕➡️🎭 👨‍👩‍👧 e\u0301",
    "line one\nline two\ttab",
)
_SURCHARGES: Final = ("improvement", "mta_tax", "rush hour", "cbd")


def make_rides(directory: Path, count: int, seed: int) -> list[Path]:
    """Write rides into files of a directory, and the totals of all of them beside; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files, totals = (
        [],
        dict.fromkeys(("rides", "total_cents", "unknown_passengers", "surcharge_cents", "note_chars"), 0),
    )
    for number, start in enumerate(range(0, count, FILE_ROWS)):
        table = _table(np.random.default_rng([seed, number]), start, min(FILE_ROWS, count - start))
        files.append(directory / f"yellow_{number:03}.parquet")
        pq.write_table(table, files[-1], row_group_size=FILE_ROWS // 5)
        for name, value in _totals(table).items():
            totals[name] += value
    (directory / TOTALS).write_text(json.dumps(totals))
    return files


def _totals(table: pa.Table) -> dict[str, int]:
    surcharges = table["surcharges"].combine_chunks().flatten()
    return {
        "rides": table.num_rows,
        "total_cents": int(np.rint(table["total_amount"].to_numpy() * 100).sum()),
        "unknown_passengers": table["passenger_count"].null_count,
        "surcharge_cents": int(surcharges.field("cents").to_numpy().sum()),
        "note_chars": sum(len(note) for note in table["note"].to_pylist() if note),
    }


def _table(random: np.random.Generator, start: int, count: int) -> pa.Table:
    pickup_zone = _skewed_zones(random, count)
    pickup = _FIRST_PICKUP + random.integers(0, _DAYS * 86_400, count).astype("timedelta64[s]")
    miles = np.round(random.lognormal(0.6, 0.9, count), 2)
    lacks_meter = random.random(count) < 0.05  # such rides lack the same columns, in the commission's files too
    return pa.table(
        {
            "ride_id": np.arange(start, start + count),
            "VendorID": random.choice(np.array([1, 2, 6, 7], np.int32), count, p=[0.24, 0.74, 0.01, 0.01]),
            "tpep_pickup_datetime": pickup,
            "tpep_dropoff_datetime": pickup + (miles * 300 + 120).astype("timedelta64[s]"),
            "passenger_count": pa.array(random.integers(0, 7, count), mask=lacks_meter),
            "trip_distance": miles,
            "RatecodeID": pa.array(random.choice([1, 2, 3, 4, 5, 99], count), mask=lacks_meter),
            "store_and_fwd_flag": pa.array(np.where(random.random(count) < 0.01, "Y", "N"), mask=lacks_meter),
            "PULocationID": pickup_zone,
            "DOLocationID": random.integers(1, _ZONES + 1, count, np.int32),
            "payment_type": np.where(lacks_meter, 0, random.integers(1, 5, count)),
            **_amounts(random, miles, lacks_meter),
            "pickup": _places(random, pickup_zone),
            "surcharges": _surcharges(random, lacks_meter),
            "note": _chosen(_NOTES, random.integers(0, len(_NOTES), count), random.random(count) < 0.85),
        }
    )


def _skewed_zones(random: np.random.Generator, count: int) -> np.ndarray:
    weights = 1 / np.arange(1, _ZONES + 1)
    return random.choice(np.arange(1, _ZONES + 1, dtype=np.int32), count, p=weights / weights.sum())


def _amounts(random: np.random.Generator, miles: np.ndarray, lacks_meter: np.ndarray) -> dict[str, pa.Array]:
    fare = np.round(3 + 3.5 * miles, 2)
    tip = np.round(fare * random.choice([0, 0.1, 0.2, 0.25], len(miles)), 2)
    tolls = np.where(random.random(len(miles)) < 0.06, 6.94, 0.0)
    extra = random.choice([0.0, 1.0, 2.5], len(miles))
    return {
        "fare_amount": fare,
        "extra": extra,
        "mta_tax": np.full(len(miles), 0.5),
        "tip_amount": tip,
        "tolls_amount": tolls,
        "improvement_surcharge": np.full(len(miles), 1.0),
        "total_amount": np.round(fare + tip + tolls + extra + 1.5, 2),
        "congestion_surcharge": pa.array(random.choice([0.0, 2.5], len(miles)), mask=lacks_meter),
        "Airport_fee": pa.array(random.choice([0.0, 1.75], len(miles)), mask=lacks_meter),
        "cbd_congestion_fee": random.choice([0.0, 0.75], len(miles)),
    }


def _places(random: np.random.Generator, zones: np.ndarray) -> pa.StructArray:
    position = pa.StructArray.from_arrays(
        [
            np.round(40.7 + random.normal(0, 0.05, len(zones)), 5),
            np.round(-73.9 + random.normal(0, 0.05, len(zones)), 5),
        ],
        ["lat", "lon"],
    )
    parts = [_chosen(_BOROUGHS, zones % len(_BOROUGHS)), _chosen(_PLACES, zones % len(_PLACES)), position]
    return pa.StructArray.from_arrays(parts, ["borough", "zone", "position"], mask=pa.array(zones >= _UNKNOWN_ZONE))


def _surcharges(random: np.random.Generator, is_missing: np.ndarray) -> pa.ListArray:
    counts = np.where(is_missing, 0, random.choice(3, len(is_missing), p=[0.5, 0.3, 0.2]))
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    total = int(counts.sum())
    names = _chosen(_SURCHARGES, random.integers(0, len(_SURCHARGES), total))
    values = pa.StructArray.from_arrays([names, pa.array(random.integers(25, 300, total))], ["name", "cents"])
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(is_missing))


def _chosen(words: tuple[str, ...], numbers: np.ndarray, is_null: np.ndarray | None = None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers, mask=is_null), list(words)).cast(pa.string())
