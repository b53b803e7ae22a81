"""`miniqueue reshard`: a store with another number of shards has the same content; the old one is not changed."""

import errno
import itertools

import pytest

from miniqueue import cli
from miniqueue.broker.acts.orders import MessageAct, Order
from miniqueue.broker.acts.task import Task
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.inspect.scan import Selection
from miniqueue.core.cursor.state import CursorState
from miniqueue.core.log.transfer import Received
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.filter import Filter
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.schedule import Schedule
from miniqueue.core.settings.settings import DEFAULT_SETTINGS
from miniqueue.errors import ConfigError, CorruptionError, StorageError
from miniqueue.storage.format import keys, schedules, tasks, transfers, values
from miniqueue.storage.format.keys import Space
from miniqueue.storage.leveldb import copy
from miniqueue.storage.leveldb.copy import write_store
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.shards import SHARDS_FILE_NAME, prepare_shards, store_of_shard, stores_in
from miniqueue.tools.reshard import shown
from miniqueue.tools.resharding.plan import plan_of
from tests.fakes import START_MS
from tests.serving import eventually
from tests.storage.leveldb.test_view import every_byte
from tests.tools import stores
from tests.tools.resharding.pairs import PairsInMemory, content_of, problems_of, resharded

#: Topics in each of three shards, and so in both of two.
TOPICS = [next(name for n in itertools.count() if Placing(0, 3).shard_of(name := b"t%d" % n) == m) for m in range(3)]
BEAT = Schedule(TOPICS[2], b"x", every_ms=1500)


def run(*words: object) -> int:
    return cli.main([*map(str, words)], {})


async def live(broker, clock):
    """Store everything that a store can contain, in several shards."""
    await stores.fill(broker, clock)
    for number, topic in enumerate(TOPICS):
        await broker.admin.create(topic, {"trace": True, "retention": "forever"}).wait()
        await broker.groups.create(topic, b"readers")
        options = PublishOptions(unique_key=b"eu", dedup_id=b"id", key=b"k")
        await (await broker.publish_unique(topic, b"x" * 1_000_000 * (number == 1), options)).commit.wait()
        later = PublishOptions(unique_key=b"later", delay_seconds=60.0)
        await (await broker.publish_unique(topic, b"later", later)).commit.wait()
        consumer = await stores.holding(broker, topic)
        consumer.consumer.ack()
        await stores.publish(broker, topic, b"failed")
        await broker._engine.journal.committer.flush()
        receipt = await received(broker, topic)
        assert broker.leases.reject(topic, [receipt], b"bad") == [True]
        await broker.admin.change(topic, {"partitions": 1 + number}).wait()
        await broker.tasks.begin(task_on(topic))
    await stores.publish(broker, b"deleted", b"x")
    await broker.admin.delete(b"deleted")
    await broker.scheduler.set(b"beat", BEAT)[0].wait()
    await broker._engine.journal.committer.flush()


async def received(broker, topic: bytes) -> bytes:
    """Return the receipt of the next message."""
    answers: list = []
    broker.leases.receive(topic, ReceiveOptions(1), answers.append, answers.append)
    await eventually(lambda: bool(answers))
    return b"%b%d" % (answers[0].prefix, answers[0].leases[0][1].receipt)


def task_on(topic: bytes, target: bytes | None = None) -> Task:
    act = MessageAct.DELETE if target is None else MessageAct.REDRIVE
    return Task(topic, Order(act, None, target), Selection(State.DELAYED, Filter(), START_MS, START_MS))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made")
    stores.run_on(directory, live)
    return directory


def content_in(db):
    return content_of([stores.contents(directory) for directory in stores_in(db)])


def test_content_is_the_same_with_any_number_of_shards(store, tmp_path, capsys):
    old, before = store, content_in(store)
    others = {Space.COMMIT, Space.PURGE, Space.GROUP_PURGE, Space.OUTBOX, Space.SENT, Space.RECEIVED}
    assert {key[0] for key in stores.contents(store)} >= {*Space} - others
    for count in (3, 2, 1):
        new, was = tmp_path / f"of-{count}", every_byte(old)
        assert run("reshard", "-shards", count, old, new) == 0
        assert every_byte(old) == was
        assert content_in(new) == before
        printed = capsys.readouterr()
        assert printed.err == ""
        assert run("check", "-db", new) == 0
        assert capsys.readouterr().out == printed.out
        old = new
    prepare_shards(tmp_path / "of-3", 3)
    prepare_shards(tmp_path / "of-2", 2)


def pairs_of(*topics: bytes, first_id: int = 1, settings: dict[str, object] | None = None) -> dict[bytes, bytes]:
    """Return a store with empty topics; the first has `settings`."""
    pairs = {keys.NEXT_TOPIC: values.encode_number(first_id + len(topics))}
    pairs |= {keys.topic(name): values.encode_topic(first_id + n, START_MS) for n, name in enumerate(topics)}
    for topic_id in range(first_id, first_id + len(topics)):
        pairs[keys.head(topic_id, 0)] = values.encode_head(0, 0)
        pairs[keys.cursor(topic_id, 0, 0)] = values.encode_cursor(CursorState())
    if settings:
        pairs[keys.settings(first_id)] = values.encode_settings(DEFAULT_SETTINGS.with_changes(settings, topics[0]))
    return pairs


def reasons_of(*parts: dict[bytes, bytes], count: int = 3) -> list[str]:
    """Return why stores cannot be resharded."""
    with pytest.raises(ConfigError) as refused:
        plan_of([PairsInMemory(pairs) for pairs in parts], count)
    return refused.value.problems


def test_topic_id_of_more_than_32_bits_and_equal_ids_of_two_shards():
    parts = [pairs_of(TOPICS[0], first_id=1 << 60), pairs_of(TOPICS[1], TOPICS[2]), pairs_of(b"x")]
    assert content_of(resharded(parts, 1)) == content_of(parts)


def test_keys_of_a_deleted_topic_are_not_copied():
    pairs = pairs_of(TOPICS[0]) | {keys.purge(7): b"", keys.head(7, 0): values.encode_head(3, 0)}
    assert resharded([pairs], 1) == [pairs_of(TOPICS[0]) | {keys.NEXT_TOPIC: values.encode_number(3)}]


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (keys.head(7, 0), "there is no such topic, nor is one being deleted"),
        (schedules.tick(b"a"), "there is no such schedule"),
        (b"\x0ax", "no key of this format"),
        (b"\x31", "no key of this format"),
    ],
)
def test_a_key_without_a_place_is_damage(key, problem):
    with pytest.raises(CorruptionError, match=problem):
        resharded([pairs_of(TOPICS[0]) | {key: values.encode_number(1)}], 3)


def test_a_topic_in_two_shards_is_damage():
    with pytest.raises(CorruptionError, match="topic t0 is in shard 0 and in shard 1"):
        plan_of([PairsInMemory(pairs_of(b"t0")), PairsInMemory(pairs_of(b"t0"))], 3)


def test_messages_on_their_way_to_another_shard_are_named():
    with pytest.raises(ConfigError, match="1 messages are on their way from shard 1 to topics of others"):
        resharded([{}, {transfers.outbox(17): b""}], 3)


def test_what_has_arrived_is_not_copied():
    store = {transfers.SENT: values.encode_number(17), transfers.received(0): transfers.encode_received(Received(3))}
    assert [len(shard) for shard in resharded([store, {}], 2)] == [1, 1]  # the next topic ids


def test_many_reasons_are_counted():
    part = pairs_of() | {schedules.schedule(b"%d" % n): schedules.encode_schedule(BEAT) for n in range(200)}
    assert reasons_of(part, part)[20:] == ["flag -shards: 3: and 180 more"]


def test_a_spread_topic_is_in_every_shard_once():
    """Its settings are in every shard, its parts are topics of their own."""
    parts = [pairs_of(TOPICS[n], b"big", first_id=5 * n + 1) for n in range(2)]
    spread = values.encode_settings(DEFAULT_SETTINGS._replace(spread=4))
    for number, pairs in enumerate(parts):
        pairs[keys.settings(5 * number + 2)] = spread
    shards = resharded(parts, 3)
    for pairs in shards:
        assert keys.topic(b"big") in pairs
        assert list(pairs.values()).count(spread) == 1
    assert [sum(keys.topic(topic) in pairs for pairs in shards) for topic in TOPICS[:2]] == [1, 1]
    again = resharded(shards, 2)
    assert [keys.topic(b"big") in pairs for pairs in again] == [True, True]
    assert reasons_of(*again, count=1) == ["flag -shards: 1: topic big is spread, which requires shards"]


def test_equal_schedules_of_two_shards_are_named_if_they_would_be_in_one():
    parts = [pairs_of() | {schedules.schedule(b"beat"): schedules.encode_schedule(BEAT)} for _ in range(2)]
    (reason,) = reasons_of(*parts)
    assert "schedule beat is in two shards, which would be one" in reason


def test_tasks_have_numbers_that_their_shards_give_in_the_same_order():
    pairs = pairs_of(*TOPICS)
    for number in range(30, 50):
        pairs[tasks.task(number)] = tasks.encode_task(task_on(TOPICS[number % 2]).members())
    parts = resharded([pairs], 3)
    for number in range(3):
        assert problems_of(sorted(parts[number].items()), Placing(number, 3)) == []
    assert content_of(parts) == content_of([pairs])
    assert content_of(resharded(parts, 1)) == content_of([pairs])


def test_a_task_of_a_topic_that_was_deleted_names_no_other_topic():
    task = task_on(TOPICS[0])
    task.topic_id = 9
    (pairs,) = resharded([pairs_of(*TOPICS) | {tasks.task(5): tasks.encode_task(task.members())}], 1)
    assert tasks.decode_task(pairs[tasks.task(5)])["topic_id"] == 4
    assert values.decode_number(pairs[keys.NEXT_TOPIC]) == 5


def test_an_old_store_in_use_is_refused(store, tmp_path, capsys):
    assert run("reshard", "-shards", 2, store, tmp_path / "two") == 0
    for source, locked in ((store, store), (tmp_path / "two", store_of_shard(tmp_path / "two", 1))):
        (locked / "miniqueue.lock").touch()
        lock = StoreLock(locked)
        assert run("reshard", "-shards", 3, source, tmp_path / "new") == 73
        lock.release()
        assert "is in use" in capsys.readouterr().err
        assert not (tmp_path / "new").exists()


def test_an_old_store_without_one_of_its_shards_is_refused(store, tmp_path, capsys):
    two = tmp_path / "two"
    assert run("reshard", "-shards", 2, store, two) == 0
    (two / "shard-1").rename(tmp_path / "away")
    assert run("reshard", "-shards", 1, two, tmp_path / "new") == 65
    assert "the directory of shard 1 is not there" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["reshard", "OLD"], 78, "reshard requires two directories"),
        (["reshard", "OLD", "NEW"], 78, "flag -shards: missing"),
        (["reshard", "-shards", "0", "OLD", "NEW"], 78, "flag -shards"),
        (["reshard", "-shards", "65", "OLD", "NEW"], 78, "flag -shards"),
        (["reshard", "-shards", "2", "OLD", "OLD"], 73, "is not an empty directory"),
        (["reshard", "-shards", "2", "OLD", "OLD/new"], 78, "is in the old store"),
        (["reshard", "-shards", "2", "NEW/old", "NEW"], 65, "there is no such directory"),
    ],
)
def test_wrong_arguments_are_refused(words, code, problem, store, tmp_path, capsys):
    before = every_byte(store)
    assert run(*(word.replace("OLD", str(store)).replace("NEW", str(tmp_path / "new")) for word in words)) == code
    assert problem in capsys.readouterr().err
    assert every_byte(store) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(errno.ENOSPC, "No space left on device"), 71), (KeyboardInterrupt(), 130)],
    ids=["disk full", "Ctrl-C"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_copy_that_does_not_end_leaves_nothing(count, error, code, store, tmp_path, monkeypatch):
    def record_last_change(*_):
        raise error

    before = every_byte(store)
    monkeypatch.setattr(copy, "_record_last_change", record_last_change)
    assert run("reshard", "-shards", count, store, tmp_path / "new") == code
    assert every_byte(store) == before
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_is_killed_is_no_store(store, tmp_path, monkeypatch):
    """Until all shards are complete, the unfinished directory has no file that makes it a store."""
    seen = []

    def mark_shards(db, count):
        assert not list(db.rglob("miniqueue.shard*"))
        seen.append((db, count))
        raise StorageError("killed")

    monkeypatch.setattr(copy, "mark_shards", mark_shards)
    assert run("reshard", "-shards", 3, store, tmp_path / "new") == 71
    [(unfinished, count)] = seen
    assert (unfinished.parent, count) == (tmp_path, 3)
    assert unfinished.name.startswith(".new.unfinished-")
    assert not (tmp_path / "new" / SHARDS_FILE_NAME).exists()


def test_damage_of_the_old_store_is_refused(tmp_path, capsys):
    pairs = pairs_of(TOPICS[0]) | {keys.cursor(1, 0, 0): b"damaged"}
    write_store(tmp_path / "old", sorted(pairs.items()))
    assert run("reshard", "-shards", 3, tmp_path / "old", tmp_path / "new") == 65
    assert "checksum does not match; there is no new store; miniqueue check" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_progress_is_shown_every_ten_seconds():
    seconds = iter([0.0, 4.0, 9.0, 11.0, 20.0, 21.0, 22.0])
    progress: list[tuple[int, int]] = []
    pairs = [(0, (b"key", b"value"))] * 6
    shown_pairs = shown(
        iter(pairs), lambda count, size_bytes: progress.append((count, size_bytes)), lambda: next(seconds)
    )
    assert list(shown_pairs) == pairs
    assert progress == [(3, 24), (5, 40)]
