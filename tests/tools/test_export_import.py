"""Messages leave a store as lines and come back with all that was known of them."""

import json
import secrets
import shutil
import subprocess
import sys

import pytest

from miniqueue import cli
from miniqueue.broker import Broker
from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.message.message import Counts
from miniqueue.storage.format import keys
from miniqueue.tools.importing import importer
from tests.fakes import START_MS, ManualClock
from tests.tools import stores
from tests.tools.test_check import FIRST_CHUNK, FRONT, flipped, plant

RETURNS = [
    ("front", "0-2", START_MS, {"returns": {"nacks": 1}, "serial": 2}),
    ("delayed", "0-6", START_MS + 2000, {"returns": {"dacks": 1}, "serial": 3, "due_at": START_MS + 3_604_000}),
    ("back", "0-0", START_MS, {"returns": {"backs": 1}, "serial": 1, "behind": 10}),
]
LETTERS = [
    {"topic": "letters", "id": f"0-{n}", "state": "waiting", "published_at": at, "text": f"letter {n}"}
    for n, at in ((1, START_MS), (8, START_MS + 3000), (9, START_MS + 3000))
] + [
    {"topic": "letters", "id": id_, "state": state, "published_at": at, **more, "text": f"letter {id_[2:]}"}
    for state, id_, at, more in RETURNS
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return stores.make(tmp_path_factory.mktemp("made"))


@pytest.fixture
def store(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "store")


def run(*words: object) -> int:
    return cli.main([*map(str, words)], {})


def exported(capfdbinary, *words: object) -> list[dict]:
    capfdbinary.readouterr()
    assert run("export", *words) == 0
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def lines_file(path, *lines: object):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_every_message_that_is_not_consumed_is_a_line_with_all_its_attributes(store, capfdbinary):
    assert exported(capfdbinary, "-db", store) == LETTERS


def test_topics_can_be_chosen(store, capfdbinary):
    assert exported(capfdbinary, "-db", store, "letters") == LETTERS
    assert exported(capfdbinary, "-db", store, "empty") == []
    assert run("export", "-db", store, "letters", "numbers", "caf\udce9") == 78
    assert capfdbinary.readouterr().err.decode().splitlines() == [
        "miniqueue: there is no topic caf\\xe9",
        "miniqueue: there is no topic numbers",
    ]


def test_a_name_may_look_like_a_flag(tmp_path, capfdbinary):
    run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", {"topic": "-db", "text": "x"}))
    assert [line["topic"] for line in exported(capfdbinary, "-db", tmp_path / "new", "--", "-db")] == ["-db"]


def test_lines_can_go_to_a_file_of_the_owner(store, tmp_path):
    target = tmp_path / "lines"
    assert run("export", "-o", target, "-db", store) == 0
    assert [json.loads(line) for line in target.read_text().splitlines()] == LETTERS
    assert target.stat().st_mode & 0o777 == 0o600
    assert run("export", "-o", tmp_path / "missing" / "lines", "-db", store) == 71


def test_what_others_have_made_in_the_directory_is_not_written_to(store, tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    theirs = tmp_path / ".lines.unfinished-guessed"
    theirs.write_text("old")
    assert run("export", "-o", tmp_path / "lines", "-db", store) == 71
    assert theirs.read_text() == "old"


@pytest.mark.parametrize("name", ["", "/", "."])
def test_a_file_has_a_name(store, name, capfdbinary):
    assert run("export", "-o", name, "-db", store) == 78
    assert b"must end with a file name" in capfdbinary.readouterr().err


def test_a_failed_export_leaves_the_file_as_it_was(store, tmp_path):
    target = lines_file(tmp_path / "lines", "old")
    assert run("export", "-o", target, "-db", store, "no-such-topic") == 78
    assert target.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines", "store"]


def test_what_cannot_be_read_is_left_out_and_told(store, capfdbinary):
    plant(store, FRONT, flipped)
    plant(store, FIRST_CHUNK, flipped)
    plant(store, b"\x7f", lambda _: b"")
    assert run("export", "-db", store) == 1
    out, err = capfdbinary.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["0-8", "0-9", "0-6", "0-0"]
    assert err.count(b"; it was skipped\n") == 3


def test_what_is_imported_is_exported_again_the_same(store, tmp_path, capfdbinary):
    run("export", "-db", store, "-o", tmp_path / "lines")
    assert run("import", "-db", tmp_path / "new", tmp_path / "lines") == 0
    assert capfdbinary.readouterr().out == f"{tmp_path}/new: 6 messages in 1 topic\n".encode()
    assert run("check", "-db", tmp_path / "new") == 0
    assert exported(capfdbinary, "-db", tmp_path / "new") == LETTERS


def test_a_broker_hands_out_what_was_imported_in_the_order_of_the_old_store(store, tmp_path):
    run("export", "-db", store, "-o", tmp_path / "lines")
    run("import", "-db", tmp_path / "new", tmp_path / "lines")
    handed_out = []

    async def drain(broker: Broker, clock: ManualClock) -> None:
        clock.advance(seconds=7200)
        broker.tick()
        consumers = [await stores.holding(broker, b"letters") for _ in LETTERS]
        handed_out.append([consumer.payloads[0] for consumer in consumers])

    for directory in (store, tmp_path / "new"):
        stores.run_on(directory, drain)
    assert handed_out[0] == handed_out[1]
    assert handed_out[0] == [b"letter %d" % number for number in (2, 6, 1, 8, 9, 0)]


def test_bytes_that_are_no_text_and_names_of_any_script_come_back(tmp_path, capfdbinary):
    payloads = [b"", b"\0", "ü😀\u2028".encode(), b"\xff\xfe", bytes(range(256))]

    async def publish(broker: Broker, _clock: ManualClock) -> None:
        await stores.publish(broker, "Brief-ä\u202e".encode(), *payloads)

    stores.run_on(tmp_path / "old", publish)
    before = exported(capfdbinary, "-db", tmp_path / "old")
    assert [("text" in line, "msg" in line) for line in before] == [(True, False)] * 3 + [(False, True)] * 2
    run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", *before))
    assert exported(capfdbinary, "-db", tmp_path / "new") == before


def test_attributes_come_back_whatever_is_in_them(tmp_path, capfdbinary):
    origin = Origin(b"orders", 0, 7, START_MS, START_MS + 5, Counts(nacks=3), b"max-deliveries")
    later_ms = START_MS + 3_600_000
    described = Attributes(
        ((b"trace", b"7f"), (b"raw", b"\xff")), b"ada", later_ms, b"17", origin, reply_to=b"9a1e-1"
    ).encode()

    async def publish(broker: Broker, _clock: ManualClock) -> None:
        await broker.publish(b"t", [b"a", b"b", b"c"], [described, b"", described]).commit.wait()
        held = await stores.holding(broker, b"t")
        held.consumer.nack()

    stores.run_on(tmp_path / "old", publish)
    before = exported(capfdbinary, "-db", tmp_path / "old")
    assert [line["text"] for line in before if "headers" in line] == ["c", "a"]
    assert before[1] | {"serial": None, "returns": None} == {
        **{"topic": "t", "id": "0-2", "state": "waiting", "published_at": START_MS, "text": "c"},
        **{"headers": [["trace", "7f"], ["raw", {"base64": "/w=="}]], "key": "ada", "expires_at": later_ms},
        **{"dedup": "17", "reply_to": "9a1e-1", "serial": None, "returns": None},
        "origin": {
            **{"topic": "orders", "id": "0-7", "published_at": START_MS, "died_at": START_MS + 5},
            **{"returns": {"nacks": 3}, "reason": "max-deliveries"},
        },
    }
    run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", *before))
    assert exported(capfdbinary, "-db", tmp_path / "new") == before
    assert run("check", "-db", tmp_path / "new") == 0


def test_a_line_by_hand_needs_only_topic_and_payload(tmp_path, capfdbinary):
    lines = lines_file(tmp_path / "lines", {"topic": "t", "text": "a"}, "", {"topic": "t", "msg": "/w=="})
    assert run("import", "-db", tmp_path / "new", lines) == 0
    assert [(line["id"], line["state"]) for line in exported(capfdbinary, "-db", tmp_path / "new")] == [
        ("0-0", "waiting"),
        ("0-1", "waiting"),
    ]


def test_lines_come_from_the_standard_input(store, tmp_path):
    export = subprocess.run(
        [sys.executable, "-m", "miniqueue", "export", "-db", store], capture_output=True, check=True
    )
    command = [sys.executable, "-m", "miniqueue", "import", "-db", tmp_path / "new"]
    subprocess.run(command, input=export.stdout, check=True)
    assert len(export.stdout.splitlines()) == len(LETTERS)
    assert cli.main(["check", "-db", str(tmp_path / "new")], {}) == 0


def test_a_reader_that_has_had_enough_is_no_error(store):
    command = f"{sys.executable} -m miniqueue export -db {store} | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"{", b"")


# --- many messages ----------------------------------------------------------------------------------------------


def waiting(seq: int, topic: str = "t", **more: object) -> dict:
    return {"topic": topic, "id": f"0-{seq}", "state": "waiting", "published_at": 5, "text": "x" * 100} | more


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(importer, "BATCH_BYTES", 1000)


@pytest.mark.usefixtures("small_batches")
def test_many_batches_of_topics_in_any_mixture_are_sound(tmp_path, capfdbinary):
    lines = [waiting(seq, f"t{seq % 3}") for seq in range(300) if seq % 7]
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", *lines)) == 0
    assert run("check", "-db", tmp_path / "new") == 0
    found = exported(capfdbinary, "-db", tmp_path / "new")
    assert found == sorted(lines, key=lambda line: ["t1", "t2", "t0"].index(line["topic"]))


@pytest.mark.usefixtures("small_batches")
def test_an_import_that_breaks_off_has_added_nothing_and_can_be_done_again(tmp_path, capfdbinary):
    good = [waiting(seq) for seq in range(100)]
    wrong = lines_file(tmp_path / "wrong", *good, "{")
    assert run("import", "-db", tmp_path / "new", wrong) == 65
    assert run("check", "-db", tmp_path / "new") == 0
    assert len(stores.contents(tmp_path / "new")) > 10  # it had written already
    assert exported(capfdbinary, "-db", tmp_path / "new") == []
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "right", *good)) == 0
    assert exported(capfdbinary, "-db", tmp_path / "new") == good


@pytest.mark.usefixtures("small_batches")
def test_a_start_removes_what_an_import_that_broke_off_has_left(tmp_path):
    run("import", "-db", tmp_path / "new", lines_file(tmp_path / "wrong", *map(waiting, range(100)), "{"))

    async def wait_for_the_purge(broker: Broker, _clock: ManualClock) -> None:
        while await broker._engine.journal.store.get(keys.purge(1)) is not None:
            await broker._engine.journal.committer.flush()

    stores.run_on(tmp_path / "new", wait_for_the_purge)
    assert stores.contents(tmp_path / "new").keys() == {keys.NEXT_TOPIC}


def test_importing_twice_is_refused_and_changes_nothing(store, tmp_path, capfdbinary):
    run("export", "-db", store, "-o", tmp_path / "lines")
    before = stores.contents(store)
    assert run("import", "-db", store, tmp_path / "lines") == 65
    assert b"line 1: topic letters exists already in the store; nothing was imported" in capfdbinary.readouterr().err
    assert stores.contents(store) == before


def test_new_topics_are_added_to_a_store_that_has_others(store, tmp_path, capfdbinary):
    assert run("import", "-db", store, lines_file(tmp_path / "lines", waiting(7, "new"))) == 0
    assert run("check", "-db", store) == 0
    assert exported(capfdbinary, "-db", store, "new") == [waiting(7, "new")]


# --- wrong lines ------------------------------------------------------------------------------------------------

RETURNED = {"topic": "t", "id": "0-9", "state": "front", "published_at": 5, "returns": {"nacks": 1}, "serial": 1}
WRONG = {
    "[": "the line is not JSON",
    "[]": "the line is not a JSON object",
    '{"topic":"t"}': "exactly one of 'text' and 'msg' is required",
    '{"topic":"t","text":"x","msg":""}': "exactly one of 'text' and 'msg' is required",
    '{"text":"x"}': "'topic' is missing",
    '{"topic":"a b","text":"x"}': "invalid 'topic'",
    '{"topic":1,"text":"x"}': "invalid 'topic'",
    '{"topic":"t","text":1}': "invalid 'text'",
    '{"topic":"t","msg":"!"}': "invalid 'msg'",
    '{"topic":"t","text":"x","color":"k"}': "unknown member 'color'",
    '{"topic":"t","text":"x","key":7}': "invalid 'key'",
    '{"topic":"t","text":"x","key":{"base32":"x"}}': "invalid 'key'",
    '{"topic":"t","text":"x","headers":{"a":"b"}}': "invalid 'headers'",
    '{"topic":"t","text":"x","headers":[["a b","c"]]}': "the name of a header is 1 to 255 printable ASCII characters",
    '{"topic":"t","text":"x","expires_at":-1}': "invalid 'expires_at'",
    '{"topic":"t","text":"x","origin":{"topic":"a"}}': "invalid 'origin'",
    '{"topic":"t","text":"x","id":"0.mid-0"}': "invalid 'id'",
    '{"topic":"t","text":"x","id":"0-9999999999999999999"}': "invalid 'id'",
    '{"topic":"t","text":"x","id":7}': "invalid 'id'",
    '{"topic":"t","text":"x","state":"lost"}': "invalid 'state'",
    '{"topic":"t","text":"x","published_at":-1}': "invalid 'published_at'",
    '{"topic":"t","text":"x","published_at":true}': "invalid 'published_at'",
    '{"topic":"t","text":"x","serial":1}': "'serial' is not allowed for a message in the state waiting",
    '{"topic":"t","text":"x","id":"0-4"}': "duplicate message 0-4",
    '{"topic":"t","text":"x","id":"0-3"}': "message 0-3 is out of order: it waits after 0-4",
    json.dumps(RETURNED): "exactly one of 'text' and 'msg' is required",
    json.dumps(RETURNED | {"text": "", "due_at": 1}): "'due_at' is not allowed",
    json.dumps(RETURNED | {"text": "", "state": "delayed"}): "'due_at' is missing",
    json.dumps(RETURNED | {"text": "", "state": "back"}): "'behind' is missing",
    json.dumps(RETURNED | {"text": "", "serial": 0}): "invalid 'serial': 0; must be at least 1",
    json.dumps(RETURNED | {"text": "", "returns": {"losses": 1}}): "invalid 'returns'",
    json.dumps(RETURNED | {"text": "", "returns": {"nacks": 1 << 32}}): "invalid 'returns'",
    json.dumps({key: value for key, value in RETURNED.items() if key != "id"} | {"text": ""}): "'id' is missing",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_told_by_number_and_nothing_is_imported(line, tmp_path, capfdbinary):
    lines = lines_file(tmp_path / "lines", waiting(4), "", line)
    assert run("import", "-db", tmp_path / "new", lines) == 65
    told = capfdbinary.readouterr().err.decode()
    assert told.startswith(f"miniqueue: line 3: {WRONG[line]}")
    assert told.endswith("; nothing was imported\n")
    assert exported(capfdbinary, "-db", tmp_path / "new") == []


def test_a_message_that_came_back_has_a_serial_of_its_own(tmp_path, capfdbinary):
    one, other = (RETURNED | {"text": "", "id": id_} for id_ in ("0-1", "0-2"))
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", one, other)) == 65
    assert b"line 2: another message has the serial 1" in capfdbinary.readouterr().err


def test_no_message_is_given_an_id_that_no_line_may_have(tmp_path, capfdbinary):
    last = waiting((1 << 63) - 1)
    lines = lines_file(tmp_path / "lines", last, {"topic": "t", "text": "behind it"})
    assert run("import", "-db", tmp_path / "new", lines) == 65
    assert b"line 2: no id remains for the message: 0-9223372036854775807 is the last" in capfdbinary.readouterr().err
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", last)) == 0
    capfdbinary.readouterr()
    assert [line["id"] for line in exported(capfdbinary, "-db", tmp_path / "new")] == [last["id"]]


def test_words_and_files_that_are_wrong(tmp_path, capfdbinary):
    assert run("import", "a", "b") == 78
    assert run("import", "-db", tmp_path / "new", tmp_path / "missing") == 78
    assert run("export", "-db", tmp_path / "missing") == 65
    for tool in ("export", "import"):
        assert run(tool, "-h") == 0
        assert b"Usage: miniqueue " + tool.encode() in capfdbinary.readouterr().out


SETTINGS = {"topic": "letters", "settings": {"max_deliveries": 5, "retry_delays": [1.0, 5.0], "paused_out_until_ms": 7}}


def test_settings_of_topics_leave_in_front_of_all_and_come_back(store, tmp_path, capfdbinary):
    stores.run_on(store, lambda broker, _: broker.admin.change(b"letters", SETTINGS["settings"]).wait())
    lines = exported(capfdbinary, "-db", store)
    assert lines == [SETTINGS, *LETTERS]
    assert exported(capfdbinary, "-db", store, "empty") == []
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", *lines)) == 0
    assert capfdbinary.readouterr().out.endswith(b": 6 messages in 1 topic\n")
    assert exported(capfdbinary, "-db", tmp_path / "new") == lines
    assert run("check", "-db", tmp_path / "new") == 0

    async def settings_are_in_force(broker, _):
        assert broker.admin.settings_of(b"letters").retry_delays == (1.0, 5.0)

    stores.run_on(tmp_path / "new", settings_are_in_force)


def test_a_topic_of_settings_alone_is_made_and_headers_of_that_name_are_none(tmp_path, capfdbinary):
    lines = [
        {"topic": "set", "settings": {"max_bytes": 5}},
        {"topic": "t", "text": '"settings"', "headers": [["settings", "x"]], "key": "settings"},
    ]
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", *lines)) == 0
    assert capfdbinary.readouterr().out.endswith(b": 1 message in 2 topics\n")
    made = exported(capfdbinary, "-db", tmp_path / "new")
    assert made[0] == lines[0]
    assert (made[1]["text"], made[1]["headers"]) == ('"settings"', [["settings", "x"]])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"topic":"t","settings":{"max_bytes":-1}}', "max_bytes must be a whole number"),
        ('{"topic":"t","settings":{"nothing":1}}', "nothing is no setting"),
        (
            '{"topic":"t","settings":5}',
            "invalid settings; must be only 'topic', a string, and 'settings', an object",
        ),
        ('{"topic":"t","settings":{},"text":"x"}', "invalid settings"),
        ('{"topic":"a/b","settings":{}}', "A topic name is"),
        ('{"topic":"t","settings":{}', "the line is not JSON"),
        ('{"topic":"t","settings":{}}\n{"topic":"t","settings":{}}', "duplicate settings of this topic"),
    ],
)
def test_wrong_settings_import_nothing(tmp_path, capfdbinary, line, problem):
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", line)) == 65
    assert problem in capfdbinary.readouterr().err.decode()
    assert exported(capfdbinary, "-db", tmp_path / "new") == []


def test_settings_that_cannot_be_read_are_left_out(store, capfdbinary):
    plant(store, keys.settings(stores.TOPIC_ID), lambda _: b"?")
    capfdbinary.readouterr()
    assert run("export", "-db", store) == 1
    told = capfdbinary.readouterr()
    assert [json.loads(line) for line in told.out.splitlines()] == LETTERS
    assert b"it was skipped" in told.err
