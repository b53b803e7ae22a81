"""The harness itself: bugs are planted in the way a store is opened, and it must find each."""

from pathlib import Path

import pytest

from miniqueue.storage.format import values
from miniqueue.storage.leveldb import database, opening, set_aside
from miniqueue.storage.leveldb.acknowledged import Reading
from tests.durability.clients.messages import payload_of
from tests.durability.damage.damages import bit_flips, files, truncations
from tests.durability.damage.outcome import Outcome, open_store, try_all
from tests.durability.damage.samples import make_fresh, make_idle, make_unacknowledged


@pytest.fixture
def fresh(tmp_path):
    return make_fresh(tmp_path)


def holes(sample, cases, scratch, open_directory=open_store):
    """Return what the harness finds."""
    (scratch := scratch / "scratch").mkdir()
    return try_all(sample, cases, scratch, open_directory).holes


def cuts(sample):
    return truncations(sample.directory, Path("db") / sample.newest_log, step=97)


def test_start_that_does_not_ask_what_was_acknowledged_is_found(fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "read_acknowledged", lambda _: Reading(None))
    found = holes(fresh, cuts(fresh), tmp_path)
    assert len(found) > 15
    assert all("was acknowledged" in hole for hole in found)


def test_tail_that_is_dropped_without_a_report_is_found(fresh, tmp_path):
    async def open_silently(directory):
        store = await open_store(directory)
        store.set_aside = ()
        return store

    found = holes(make_unacknowledged(fresh, tmp_path, 4), cuts(fresh), tmp_path, open_silently)
    assert found
    assert all("without a word" in hole for hole in found)


def test_reading_without_any_checksum_is_found(fresh, tmp_path, monkeypatch):
    """Blocks, values and the tables of a start: with all three checks off, other bytes are handed out as messages."""
    idle = make_idle(fresh, tmp_path)
    (table,) = files(idle.directory, "*.ldb")
    payload_at = (idle.directory / table).read_bytes().index(payload_of(2)[:20])
    cases = list(bit_flips(idle.directory, table, range(8 * payload_at, 8 * (payload_at + 10), 9)))
    for check in ("with", "without"):
        (tmp_path / check).mkdir()
    assert holes(idle, cases, tmp_path / "with") == []
    monkeypatch.setattr(set_aside, "check_tables", lambda *_: None)
    for module in (values, values):
        monkeypatch.setattr(module, "unseal", lambda value, *_: value[1:-4])
    monkeypatch.setattr(database, "pairs_between", unverified)
    found = holes(idle, cases, tmp_path / "without")
    assert len(found) == len(cases)
    assert all("is the state after no commit" in hole for hole in found)


def unverified(opened, start, stop):
    with opened.iterator(start=start, stop=stop, verify_checksums=False) as found:
        yield from found


def test_scan_that_ends_at_damage_is_found(fresh, tmp_path, monkeypatch):
    """End as plyvel's iterator does if nothing follows the damage."""
    idle = make_idle(fresh, tmp_path)
    (table,) = files(idle.directory, "*.ldb")
    monkeypatch.setattr(set_aside, "check_tables", lambda *_: None)
    monkeypatch.setattr(database, "pairs_between", with_the_iterator)
    found = holes(idle, bit_flips(idle.directory, table, range(800, 8 * 600, 801)), tmp_path)
    assert any("commits 1 to" in hole for hole in found)


def with_the_iterator(opened, start, stop):
    with opened.iterator(start=start, stop=stop, verify_checksums=True) as found:
        yield from found


def test_refusal_that_loses_something_is_found(fresh, tmp_path):
    async def open_roughly(directory):
        log = max((directory / "db").glob("*.log"))
        log.write_bytes(log.read_bytes()[:1000])
        (directory / "db" / "CURRENT").write_bytes(b"")
        return await open_store(directory)

    found = holes(fresh, bit_flips(fresh.directory, Path("miniqueue.format"), [0]), tmp_path, open_roughly)
    assert len(found) == 1
    assert "not all is there any more" in found[0]


def test_outcomes_are_what_the_docstring_says():
    assert [outcome.name for outcome in Outcome] == ["COMPLETE", "PREFIX", "REFUSED", "LATE", "FAULT", "HOLE"]
