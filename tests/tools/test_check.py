"""Every kind of problem is planted in a store that the real broker has made, and found; a sound store has none."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from miniqueue import cli
from miniqueue.core.cursor.cursor import FRONT_START
from miniqueue.core.cursor.lease import Range
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.message.message import Chunk, Counts, Record
from miniqueue.storage.format import keys, values
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.tools.audit.problems import MAX_KEPT
from tests.storage.leveldb.test_view import every_byte
from tests.tools import stores

ID = 1  # the topic `letters`, see `stores.fill`
SOUND_REPORT = """\
topic empty: 0 chunks, 0 messages, 0 waiting, 0 delayed, 0 returned, 0 settled but kept
topic letters: 2 chunks, 6 messages, 3 waiting, 1 delayed, 2 returned, 3 settled but kept
2 topics, 14 keys: no problems
"""
NACKED = Counts(nacks=1)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.make(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "store"))


def check(store: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli.main(["check", "-db", str(store)], {})
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, captured.out


def problems_of(report: str) -> list[str]:
    return [line.removeprefix("problem: ") for line in report.splitlines() if line.startswith("problem: ")]


def test_a_sound_store_is_reported_and_left_as_it_is(store, capsys):
    before = every_byte(store)
    assert check(store, capsys) == (0, SOUND_REPORT)
    assert every_byte(store) == before


def test_a_store_of_format_1_is_sound(store, capsys):
    (store / "miniqueue.format").write_text("miniqueue store, format 1\n")
    plant(store, b"\x01", put(values.encode_number(6)))  # it counted commits
    assert check(store, capsys) == (0, SOUND_REPORT.replace("14 keys", "15 keys"))
    assert (store / "miniqueue.format").read_text() == "miniqueue store, format 1\n"


def test_an_empty_store_is_sound(tmp_path, capsys):
    stores.run_on(tmp_path, lambda *_: asyncio.sleep(0))
    assert check(tmp_path, capsys) == (0, "0 topics, 0 keys: no problems\n")


def sealed(body: bytes, version: int = 1) -> bytes:
    """A value with the right checksum, whatever is in it."""
    value = bytes([version]) + body
    return value + crc32(value).to_bytes(4, "little")


def flipped(value: bytes) -> bytes:
    return value[:3] + bytes([value[3] ^ 1]) + value[4:]


def cursor_with(**changes: int) -> Callable[[bytes], bytes]:
    return lambda value: values.encode_cursor(values.decode_cursor(value)._replace(**changes))


def record_with(**changes: object) -> Callable[[bytes], bytes]:
    return lambda value: values.encode_record(values.decode_record(value)._replace(**changes))


def put(value: bytes) -> Callable[[bytes | None], bytes]:
    return lambda _value: value


def deleted(_value: bytes) -> None:
    return None


CURSOR, HEAD, BITMAP = keys.cursor(ID, 0, 0), keys.head(ID, 0), keys.bitmap(ID, 0, 0, 0)
GAP, FIRST_CHUNK, LAST_CHUNK = keys.gap(ID, 0, 0, 4), keys.chunk(ID, 0, 0), keys.chunk(ID, 0, 8)
FRONT = keys.record(ID, 0, 0, Range.FRONT, FRONT_START - 2)
DELAYED = keys.record(ID, 0, 0, Range.DELAYED, 1_700_003_604_000 << 64 | 3)
BACK = keys.record(ID, 0, 0, Range.BACK, 10 << 64 | 1)
NOBODYS = [keys.chunk(9, 0, 0), keys.head(9, 0), keys.cursor(9, 0, 0), keys.bitmap(9, 0, 0, 0), keys.gap(9, 0, 0, 0)]

FAULTS = {
    "unknown space": (b"\x7fabc", put(b""), "no key of this format"),
    "key cut short": (CURSOR[:-1], put(b""), "no key of this format"),
    "key too long": (keys.NEXT_TOPIC + b"x", put(b""), "no key of this format"),
    "key without a byte": (b"", put(b""), "no key of this format"),
    "next topic too low": (keys.NEXT_TOPIC, put(values.encode_number(2)), "is 2, but topic 2 exists"),
    "no next topic": (keys.NEXT_TOPIC, deleted, "is None, but topic 2 exists"),
    "topic id used twice": (keys.topic(b"twin"), put(values.encode_topic(2, 0)), "under another name too"),
    "topic name": (keys.topic(b"a b"), put(values.encode_topic(2, 0)), "no topic can have this name"),
    "topic entry": (keys.topic(b"letters"), flipped, "topic entry: checksum does not match"),
    "purge with a value": (keys.purge(0), put(b"x"), "has a value"),
    "purge of a topic that is there": (keys.purge(2), put(b""), "the topic is registered"),
    "purge beyond the next topic": (keys.purge(7), put(b""), "is 3, but topic 7 exists"),
    "head": (HEAD, flipped, "head: checksum does not match"),
    "head too low": (
        HEAD,
        put(values.encode_head(9, 80)),
        "ends with message 9, but the next message is 9",
    ),
    "head too high": (HEAD, put(values.encode_head(12, 80)), "messages 10 to 11 are missing"),
    "bytes too many": (HEAD, put(values.encode_head(10, 81)), "counts 49 bytes, but 48 remain"),
    "bytes gone": (CURSOR, cursor_with(gone_bytes=80), "counts 0 bytes, but 48 remain"),
    "no cursor": (CURSOR, deleted, "there is no cursor"),
    "cursor": (CURSOR, flipped, "cursor: checksum does not match"),
    "cursor too short": (CURSOR, put(values.encode_number(0)), "the content makes no sense"),
    "cursor of a newer version": (CURSOR, put(sealed(bytes(32), version=6)), "format version 6 found"),
    "dropped too many": (CURSOR, cursor_with(dropped_count=1), "counts 5 acknowledged messages of 10, but 6 remain"),
    "acked too many": (CURSOR, cursor_with(acked_count=5), "counts 5 acknowledged messages of 10, but 6 remain"),
    "delayed too many": (CURSOR, cursor_with(delayed_count=2), "counts 2 delayed messages, but there are 1"),
    "serial too low": (CURSOR, cursor_with(serial=2), "the order does not fit the range"),
    "cursor inside the log": (CURSOR, cursor_with(head_seq=8), "all messages before message 8 are settled"),
    "bitmap": (BITMAP, flipped, "bitmap: checksum does not match"),
    "bitmap beyond its chunk": (BITMAP, put(values.encode_bitmap(0b11101)), "bits beyond the 4 messages"),
    "bitmap with a byte too many": (BITMAP, put(sealed(b"\x0d\x00")), "is longer than its bits"),
    "bitmap without a bit": (keys.bitmap(ID, 0, 0, 8), put(values.encode_bitmap(0)), "has no bit set"),
    "bitmap without a chunk": (keys.bitmap(ID, 0, 0, 6), put(values.encode_bitmap(1)), "no chunk begins there"),
    "another reserved byte": (FIRST_CHUNK[:13] + b"\2" + FIRST_CHUNK[14:], put(b""), "the reserved byte is wrong"),
    "another reserved byte of bitmaps": (
        BITMAP[:17] + b"\2" + BITMAP[18:],
        put(values.encode_number(1)),
        "the reserved byte is wrong",
    ),
    "settings": (keys.settings(ID), put(sealed(b'{"color":1}')), "topic settings: the checksum is right, but"),
    "settings of a newer version": (keys.settings(ID), put(sealed(b"{}", version=2)), "format version 2 found"),
    "gap": (GAP, flipped, "counter: checksum does not match"),
    "no gap": (GAP, deleted, "messages 4 to 7 are missing"),
    "gap too short": (GAP, put(values.encode_number(7)), "messages 7 to 7 are missing"),
    "gap too long": (GAP, put(values.encode_number(9)), "begins before message 9"),
    "gap where no chunk ends": (keys.gap(ID, 0, 0, 9), put(values.encode_number(10)), "no chunk ends there"),
    "chunk": (FIRST_CHUNK, flipped, "chunk: checksum does not match"),
    "chunk without messages": (LAST_CHUNK, put(values.encode_chunk(Chunk(8, 0, []))), "has no messages"),
    "another partition": (keys.head(ID, 3 << 16), put(values.encode_head(0, 0)), "no such partition"),
    "another group": (
        keys.cursor(ID, 0, 1),
        put(values.encode_cursor(CursorState())),
        "group 1 has keys, but no entry",
    ),
    "record": (FRONT, flipped, "record: checksum does not match"),
    "record cut short": (FRONT, put(values.encode_number(0)), "the content makes no sense"),
    "record of an unknown range": (
        keys.record(ID, 0, 0, Range.LOG, 1),
        put(values.encode_record(Record(2, 0, NACKED, b""))),
        "there is no such range",
    ),
    "record with an order of another range": (
        keys.record(ID, 0, 0, Range.FRONT, 10 << 64 | 1),
        put(values.encode_record(Record(4, 0, NACKED, b""))),
        "the order does not fit the range",
    ),
    "record behind the end of the log": (
        keys.record(ID, 0, 0, Range.BACK, 11 << 64 | 1),
        put(values.encode_record(Record(4, 0, Counts(backs=1), b""))),
        "the order does not fit the range",
    ),
    "delayed without a return": (DELAYED, record_with(counts=Counts(backs=1)), "was never returned to this range"),
    "back without a return": (BACK, record_with(counts=NACKED), "was never returned to this range"),
    "record of a message to come": (FRONT, record_with(seq=10), "message 10 has not been published"),
    "record of a waiting message": (FRONT, record_with(seq=8), "message 8 is waiting in the log too"),
    "attributes of a record": (FRONT, record_with(attributes=b"\x02"), "the attributes of a message make no sense"),
    "attributes of a newer version": (
        LAST_CHUNK,
        put(values.encode_chunk(Chunk(8, 1_700_000_003_000, [b"12345678", b"1"], 80, [b"", b"\x0b\2\0\0\0xx"]))),
        "attributes: format version 11 found, this miniqueue reads up to 10",
    ),
    "two records of a message": (FRONT, record_with(seq=6), "message 6 has another record"),
} | {f"key {key[0]:02x} of no topic": (key, put(b""), "there is no such topic") for key in NOBODYS}

#: Those that throw off something else too: the counts, or what lies behind.
NOT_ALONE = {
    "attributes of a record",
    "another group",
    "head too low",
    "head too high",
    "cursor inside the log",
    "topic id used twice",
    "topic name",
    "chunk without messages",
    "record with an order of another range",
    "record behind the end of the log",
}


def plant(store: Path, key: bytes, change: Callable[[bytes | None], bytes | None]) -> None:
    with stores.opened(store) as database:
        value = change(database.get(key))
        if value is None:
            database.delete(key)
        else:
            database.put(key, value)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault, store, capsys):
    key, change, cause = FAULTS[fault]
    plant(store, key, change)
    code, report = check(store, capsys)
    problems = problems_of(report)
    assert code == 1
    assert [problem for problem in problems if cause in problem]
    assert fault in NOT_ALONE or len(problems) == 1, problems
    assert f": {len(problems)} problem" in report.splitlines()[-1]


def test_a_problem_names_its_key_in_hex_and_in_words(store, capsys):
    plant(store, DELAYED, flipped)
    _, report = check(store, capsys)
    assert problems_of(report) == [
        f"key {DELAYED.hex()} (record of topic 1, partition 0, due at 1700003604000 ms, return 3): "
        "record: checksum does not match"
    ]


def test_what_a_deleted_topic_has_left_is_no_problem(store, capsys):
    plant(store, keys.topic(b"letters"), deleted)
    plant(store, keys.purge(ID), put(b""))
    code, report = check(store, capsys)
    assert code == 0
    assert report.splitlines()[-1] == "1 topic, 14 keys: no problems"


def test_an_overlap_is_found(store, capsys):
    plant(store, keys.chunk(ID, 0, 2), put(values.encode_chunk(Chunk(2, 0, [b"x"]))))
    code, report = check(store, capsys)
    assert code == 1
    assert "begins before message 8" in report


def test_a_chunk_that_is_settled_but_kept_is_found(store, capsys):
    plant(store, BITMAP, put(values.encode_bitmap(0b1111)))
    code, report = check(store, capsys)
    assert code == 1
    assert "every message is settled, but the chunk was not deleted" in report


def test_of_very_many_problems_the_first_are_listed_and_all_are_counted(store, capsys):
    with stores.opened(store) as database, database.write_batch() as batch:
        for number in range(MAX_KEPT + 5):
            batch.put(b"\x7f%05d" % number, b"")
    _, report = check(store, capsys)
    assert len(problems_of(report)) == MAX_KEPT + 1
    assert "problem: and 5 more\n" in report
    assert report.endswith(f": {MAX_KEPT + 5} problems\n")


# --- files ------------------------------------------------------------------------------------------------------


def test_a_torn_tail_is_a_note(store, capsys):
    log = max((store / "db").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[-12] ^= 1
    log.write_bytes(content)
    before = every_byte(store)
    code, report = check(store, capsys)
    assert code == 0
    assert f"note: {log}: the last " in report
    assert every_byte(store) == before


def test_a_damaged_file_is_a_problem_that_names_it(store, capsys):
    log = max((store / "db").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[20] ^= 1
    log.write_bytes(content)
    code, report = check(store, capsys)
    assert code == 1
    assert f"problem: {log}: damaged at offset 0" in report


@pytest.mark.parametrize("name", ["miniqueue.format", "db/CURRENT"])
def test_a_damaged_file_of_the_directory_is_a_problem(name, store, capsys):
    (store / name).write_bytes(b"x")
    code, report = check(store, capsys)
    assert code == 1
    assert str(store) in report


def test_a_file_that_may_not_be_read_is_an_error_of_the_system(store, capsys, monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied", str(store))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    assert cli.main(["check", "-db", str(store)], {}) == 71
    assert "Permission denied" in capsys.readouterr().err


def test_what_cannot_be_checked_has_an_exit_code_of_its_own(store, tmp_path, capsys):
    assert cli.main(["check", "-db", str(tmp_path / "missing")], {}) == 65
    assert cli.main(["check", "-db", str(tmp_path)], {}) == 65
    lock = StoreLock(store)
    assert cli.main(["check", "-db", str(store)], {}) == 73
    lock.release()
    (store / "miniqueue.format").write_bytes(b"miniqueue store, format 9\n")
    assert cli.main(["check"], {"MINIQUEUE_DB": str(store)}) == 65
    lines = capsys.readouterr().err.splitlines()
    assert [
        words
        for line, words in zip(lines, ["no such", "not a", "in use", "format version 9"], strict=True)
        if words not in line or not line.startswith("miniqueue: flag -db: ")
    ] == []


def test_wrong_words_are_refused_with_every_reason(capsys):
    assert cli.main(["check", "-port", "1", "-db", "", "-config"], {}) == 78
    assert capsys.readouterr().err.splitlines() == [
        "miniqueue: flag '-port': this command has no such flag; see -h",
        "miniqueue: flag -config: no value",
        "miniqueue: flag -db: '': invalid path; must not be empty or contain a NUL character",
    ]
    assert cli.main(["check", "./data"], {}) == 78


def test_help_is_printed(capsys):
    assert cli.main(["check", "-db", "x", "-h"], {}) == 0
    assert "Usage: miniqueue check" in capsys.readouterr().out
    assert cli.main(["-h"], {}) == 0
    assert "\n  check       verify" in capsys.readouterr().out


def test_the_module_runs_it_too(store):
    done = subprocess.run(
        [sys.executable, "-m", "miniqueue", "check", "--db", store], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, SOUND_REPORT)
