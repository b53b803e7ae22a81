"""A spread topic leaves a store, and enters another, as one topic: with its messages, their keys, and their order."""

import asyncio
import json
from collections import defaultdict

import pytest

from miniqueue import cli
from miniqueue.commands.stored.reading import stored_messages
from miniqueue.storage.format import keys, values
from miniqueue.storage.leveldb.shards import store_of_shard
from miniqueue.storage.leveldb.store import LevelDBStore
from tests.fakes import START_MS

PARTS, PARTITIONS, SHARDS = 4, 2, 2
KEYS = [f"key-{number}" for number in range(PARTS * PARTITIONS)]


def place(number: int) -> int:
    """Return the partition of the messages of a key in these lines."""
    return (number % PARTS) << 10 | number // PARTS


MESSAGES = [
    {
        "topic": "orders",
        "id": f"{place(number)}-{seq}",
        "state": "waiting",
        "published_at": START_MS + seq,
        "text": f"{key}:{seq}",
        "headers": [["trace", key]],
        "key": key,
    }
    for number, key in enumerate(KEYS)
    for seq in range(1, 5)
]
RETURNED = {
    **{"topic": "orders", "id": "3072-0", "state": "front", "published_at": START_MS, "returns": {"nacks": 1}},
    **{"serial": 1, "text": "key-3:0", "key": "key-3", "for": ["audit"]},
}
LATER = [
    {
        "topic": "orders",
        "id": f"{part << 10}-{START_MS + 1000}-1",
        "state": "unpublished",
        "published_at": START_MS,
        "due_at": START_MS + 1000,
        "text": f"later {part}",
    }
    for part in (0, 2)
]
SETTINGS = {"topic": "orders", "settings": {"max_messages": 1000, "partitions": PARTITIONS, "spread": PARTS}}
GROUPS = [{"topic": "orders", "part": part, "groups": ["default", "audit"]} for part in range(PARTS)]
OF_GROUPS = {"topic": "orders", "part": 1, "settings": {"idle_groups": [["audit", 60.0]]}}
LETTERS_SETTINGS = {"topic": "orders.dlq", "settings": {"spread": PARTS}}
LETTERS = [
    {
        "topic": "orders.dlq",
        "id": f"{part << 10}-0",
        "state": "waiting",
        "published_at": START_MS,
        "text": str(part),
    }
    for part in (1, 3)
]
LINES = [SETTINGS, OF_GROUPS, LETTERS_SETTINGS, *GROUPS, *MESSAGES, RETURNED, *LATER, *LETTERS]


def run(*words: object) -> int:
    return cli.main([*map(str, words)], {})


def lines_file(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def store(tmp_path, capfdbinary):
    """A store with shards that has the lines."""
    assert run("import", "-db", tmp_path / "store", "-shards", SHARDS, lines_file(tmp_path / "lines", LINES)) == 0
    assert capfdbinary.readouterr().out.endswith(b": 37 messages in 2 topics\n")
    return tmp_path / "store"


@pytest.fixture
def exported(capfdbinary):
    def export(*words: object) -> list[dict]:
        capfdbinary.readouterr()
        assert run("export", *words) == 0, capfdbinary.readouterr().err
        return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]

    return export


def texts(lines) -> list[str]:
    return sorted(line["text"] for line in lines if "text" in line)


def by_key(lines) -> dict[str, list[str]]:
    keyed = defaultdict(list)
    for line in lines:
        if "key" in line and line["state"] == "waiting":
            keyed[line["key"]].append(line["text"])
    return keyed


def shown(lines) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for line in lines)


def test_an_export_has_one_topic_and_is_imported_as_it_was(store, tmp_path, exported):
    lines = exported("-db", store)
    assert shown(lines) == shown(LINES)
    assert lines.index(SETTINGS) < min(lines.index(line) for line in (*GROUPS, OF_GROUPS, *MESSAGES))
    other = tmp_path / "other"
    assert run("import", "-db", other, "-shards", 3, lines_file(tmp_path / "again", lines)) == 0
    assert shown(exported("-db", other)) == shown(LINES)


def test_check_reports_one_line_for_each_topic_of_a_shard(store, capfdbinary):
    capfdbinary.readouterr()
    assert run("check", "-db", store) == 0
    report = capfdbinary.readouterr().out.decode()
    of_shards = report.split("shard ")[1:]
    assert len(of_shards) == SHARDS
    for of_shard in of_shards:
        assert of_shard.count("topic orders:") <= 1
        assert of_shard.count("topic orders.dlq:") <= 1
    waiting = [int(line.split(", ")[2].split()[0]) for line in report.splitlines() if line.startswith("topic orders:")]
    assert sum(waiting) == len(MESSAGES)
    assert "\x1f" not in report
    assert "x1f" not in report


def test_a_topic_of_one_process_gets_the_partitions_of_all_parts(store, tmp_path, exported):
    plain = tmp_path / "plain"
    assert run("import", "-db", plain, lines_file(tmp_path / "again", exported("-db", store))) == 0
    assert run("check", "-db", plain) == 0
    lines = exported("-db", plain)
    [settings] = [line["settings"] for line in lines if "settings" in line and line["topic"] == "orders"]
    assert settings == {"max_messages": 1000, "partitions": PARTS * PARTITIONS}
    assert texts(lines) == texts(LINES)
    assert by_key(lines) == by_key(MESSAGES)
    partitions = {
        line["key"]: line["id"].partition("-")[0] for line in lines if line.get("state") == "waiting" and "key" in line
    }
    assert sorted(partitions.values()) == [str(number) for number in range(PARTS * PARTITIONS)]
    assert len({line["id"] for line in lines if line.get("state") == "unpublished"}) == len(LATER)


def test_a_plain_topic_becomes_the_first_part_of_a_spread_one(tmp_path, exported):
    lines = [
        {"topic": "orders", "settings": {"spread": PARTS}},
        *(
            {"topic": "orders", "id": f"0-{seq}", "published_at": START_MS, "text": str(seq), "key": "k"}
            for seq in range(9)
        ),
    ]
    assert run("import", "-db", tmp_path / "s", "-shards", SHARDS, lines_file(tmp_path / "lines", lines)) == 0
    again = exported("-db", tmp_path / "s")
    assert by_key(again) == {"k": [str(seq) for seq in range(9)]}
    assert [line["settings"] for line in again if "settings" in line] == [{"spread": PARTS}]


def test_topics_can_be_named(store, exported, capfdbinary):
    assert shown(exported("-db", store, "orders")) == shown(line for line in LINES if line["topic"] == "orders")
    assert shown(exported("-db", store, "orders.dlq")) == shown([LETTERS_SETTINGS, *LETTERS])
    assert run("export", "-db", store, "orders", "none", "none.dlq") == 78
    assert capfdbinary.readouterr().err.decode().splitlines()[0].startswith("miniqueue: there is no topic none")


def test_the_log_of_a_backup_has_all_parts(store):
    assert sorted(message.payload.decode() for message in stored_messages(store, "orders")) == texts(MESSAGES)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([GROUPS[1]], "a part of a topic that is not spread"),
        ([MESSAGES[5]], "partition limit exceeded"),
        ([LATER[1]], "a message of a part of a spread topic"),
        ([SETTINGS | {"settings": {"spread": 2}}, GROUPS[2]], "part 2 of a topic that is spread over 2"),
        ([SETTINGS, GROUPS[1], OF_GROUPS], "misplaced settings"),
        ([SETTINGS | {"part": 64}], "invalid 'part'"),
    ],
)
def test_lines_without_their_topic_are_refused(tmp_path, capfdbinary, lines, reason):
    capfdbinary.readouterr()
    assert run("import", "-db", tmp_path / "new", "-shards", SHARDS, lines_file(tmp_path / "lines", lines)) == 65
    assert reason in capfdbinary.readouterr().err.decode()


def test_lines_of_parts_that_do_not_fit_one_process_are_refused(tmp_path, capfdbinary):
    for settings, line, reason in (
        ({"spread": 64, "partitions": 64}, MESSAGES[0], "4096 partitions in all parts; at most 1024"),
        ({"spread": PARTS}, MESSAGES[-1], "partition 1 of a part; each has 1"),
    ):
        lines = [{"topic": "orders", "settings": settings}, line]
        assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", lines)) == 65
        assert reason in capfdbinary.readouterr().err.decode()
    other = [SETTINGS, GROUPS[0], GROUPS[1] | {"groups": ["default"]}]
    assert run("import", "-db", tmp_path / "new", lines_file(tmp_path / "lines", other)) == 65


def test_a_deletion_that_is_not_complete_is_sound_and_is_completed_before_a_reshard(store, tmp_path, capfdbinary):
    async def delete() -> None:
        home = await LevelDBStore.open(store_of_shard(store, 0))
        topic_id = values.decode_number(await home.get(keys.NEXT_TOPIC))
        erasure = {keys.purge(topic_id): values.encode_erasure(b"gone")}
        await home.write({keys.NEXT_TOPIC: values.encode_number(topic_id + 1), **erasure})
        await home.close()

    asyncio.run(delete())
    assert run("check", "-db", store) == 0
    capfdbinary.readouterr()
    assert run("reshard", "-shards", 3, store, tmp_path / "three") == 78
    assert b"topic gone is being deleted; start the broker once" in capfdbinary.readouterr().err
