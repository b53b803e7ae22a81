"""What must be equal in the end: the files, the archive, what the workers have done, and the dead letters."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final
from zlib import crc32

import numpy as np
import orjson
import pyarrow.parquet as pq

from benchmarks.rides.failing import MISSING, Fate, fate_of
from benchmarks.rides.making import TOTALS
from benchmarks.rides.working import NOTED, noted
from miniqueue_client import Client, Message

_REASONS: Final[Mapping[Fate, str]] = MappingProxyType({Fate.REJECTED: MISSING, Fate.POISONOUS: "max_deliveries"})


def check(client: Client, topic: str, rides: Path, archive: Path, notes: Sequence[Path]) -> list[str]:
    """Return what was compared, in lines; raises SystemExit when something is not as it must be."""
    totals = json.loads((rides / TOTALS).read_text())
    count = totals["rides"]
    archived, archived_totals = _archived(archive, count)
    done = [noted(file, count) for file in notes]
    times = sum(note["times"].astype(np.int64) for note in done)
    dead = Counter(orjson.loads(message.payload)["ride_id"] for message in _dead_letters(client, f"{topic}.dlq"))
    must_be_dead = {ride_id for ride_id in range(count) if fate_of(ride_id).is_dead}
    not_dead = np.ones(count, bool)
    not_dead[list(must_be_dead)] = False
    wrong = sum(int(((note["times"] > 0) & (note["checksum"] != archived["checksum"])).sum()) for note in done)
    claims = {
        "totals of the archive are those of the files": archived_totals == totals,
        "every ride is in the archive once": bool((archived["times"] == 1).all()),
        "every ride that could be done was done": bool((times[not_dead] > 0).all()),
        "no other was": not times[~not_dead].any(),
        "the checksums of workers and archive are equal": wrong == 0,
        "the dead letters are the rides that must be dead, once": dead == Counter(must_be_dead),
    }
    if failed := [claim for claim, is_true in claims.items() if not is_true]:
        raise SystemExit(f"NOT SO: {'; '.join(failed)}: files {totals}, archive {archived_totals}, {len(dead)} dead")
    again = int((times[not_dead] - 1).sum())
    lines = [f"{name}: {value:,}" for name, value in totals.items()]
    return [
        *lines,
        f"dead letters: {len(must_be_dead):,}",
        f"done again after a kill or a lease that was over: {again:,}",
        *claims,
    ]


def check_stats(directory: Path, count: int) -> list[str]:
    """Return what the stats say, in lines; raises SystemExit when they have not counted what there is."""
    counts: Counter[str] = Counter()
    for row in pq.read_table(directory, columns=["event", "reason", "messages"]).to_pylist():
        counts[row["reason"] if row["event"] == "dead" else row["event"]] += row["messages"]
    dead = Counter(_REASONS[fate] for fate in map(fate_of, range(count)) if fate.is_dead)
    if counts != dead + Counter(published=count):
        raise SystemExit(f"NOT SO: the stats count what there is: {dict(counts)}")
    return [f"in the stats: {number:,} {event}" for event, number in counts.items()]


def _archived(archive: Path, count: int) -> tuple[np.ndarray, dict[str, int]]:
    """Return what the archive has of each ride, as workers note it, and the totals of all."""
    notes = np.zeros(count, NOTED)
    totals = dict.fromkeys(("rides", "total_cents", "unknown_passengers", "surcharge_cents", "note_chars"), 0)
    for value in _values(archive):
        ride = orjson.loads(value)
        note = notes[ride["ride_id"]]
        note["times"] += 1
        note["checksum"] = crc32(value)
        totals["rides"] += 1
        totals["total_cents"] += round(ride["total_amount"] * 100)
        totals["unknown_passengers"] += ride["passenger_count"] is None
        totals["surcharge_cents"] += sum(surcharge["cents"] for surcharge in ride["surcharges"] or ())
        totals["note_chars"] += len(ride["note"] or "")
    return notes, totals


def _values(archive: Path) -> Iterator[bytes]:
    for file in sorted(archive.glob("date=*/*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(columns=["value"]):
            yield from batch.column("value").to_pylist()


def _dead_letters(client: Client, topic: str) -> Iterator[Message]:
    return client.consume(topic, count=1000, autoack=True, idle_seconds=1)
