"""Backup and restore of a store that no broker has open.

Those of a running broker: tests/acceptance/lifecycle/test_backup.py.
"""

import shutil

import pytest

from miniqueue import cli
from miniqueue.errors import StorageError
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.lock import StoreLock
from miniqueue.storage.leveldb.shards import prepare_shards, store_of_shard, stores_in
from miniqueue.storage.leveldb.view import StoreView
from miniqueue.tools import restore
from tests.storage.leveldb.test_view import every_byte
from tests.tools import stores


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return stores.make(tmp_path_factory.mktemp("made"))


def run(*words: object) -> int:
    return cli.main([*map(str, words)], {})


def test_a_backup_and_a_store_restored_from_it_hold_the_same(store, tmp_path, capsys):
    before = every_byte(store)
    assert run("backup", "-db", store, tmp_path / "copy") == 0
    assert run("restore", "-db", tmp_path / "restored", tmp_path / "copy") == 0
    assert every_byte(store) == before
    assert stores.contents(tmp_path / "restored") == stores.contents(store)
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/copy: 14 keys",
        "topic empty: 0 chunks, 0 messages, 0 waiting, 0 delayed, 0 returned, 0 settled but kept",
        "topic letters: 2 chunks, 6 messages, 3 waiting, 1 delayed, 2 returned, 3 settled but kept",
        "2 topics, 14 keys: no problems",
    ]


@pytest.fixture(scope="module")
def sharded(store, tmp_path_factory):
    """A store with three shards that has the content of `store`."""
    directory = tmp_path_factory.mktemp("sharded") / "of-3"
    assert run("reshard", "-shards", 3, store, directory) == 0
    return directory


def contents(db):
    return [stores.contents(directory) for directory in stores_in(db)]


def test_a_backup_of_a_store_with_shards_has_all_of_them_and_is_restored(sharded, tmp_path, capsys):
    before = every_byte(sharded)
    assert run("backup", "-db", sharded, tmp_path / "copy") == 0
    assert every_byte(sharded) == before
    assert capsys.readouterr().out == f"{tmp_path}/copy: {sum(map(len, contents(sharded)))} keys in 3 shards\n"
    assert run("restore", "-db", tmp_path / "restored", tmp_path / "copy") == 0
    printed = capsys.readouterr().out
    assert run("check", "-db", tmp_path / "restored") == 0
    assert capsys.readouterr().out == printed
    assert contents(tmp_path / "restored") == contents(tmp_path / "copy") == contents(sharded)
    prepare_shards(tmp_path / "restored", 3)


@pytest.mark.parametrize("words", [["backup", "-db", "STORE", "TARGET"], ["restore", "-db", "TARGET", "STORE"]])
def test_a_store_without_one_of_its_shards_is_refused(words, sharded, tmp_path):
    shutil.copytree(sharded, tmp_path / "part")
    shutil.rmtree(tmp_path / "part/shard-1")
    assert run(*({"STORE": tmp_path / "part", "TARGET": tmp_path / "new"}.get(word, word) for word in words)) == 65
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


def test_a_backup_with_damage_in_a_shard_is_not_restored(sharded, tmp_path, capsys):
    shutil.copytree(sharded, tmp_path / "damaged")
    with stores.opened(store_of_shard(tmp_path / "damaged", 1)) as database:
        database.put(keys.head(99, 0), b"")
    assert run("restore", "-db", tmp_path / "new", tmp_path / "damaged") == 65
    printed = capsys.readouterr()
    assert printed.err == "miniqueue: the backup has problems; nothing was restored\n"
    assert [line for line in printed.out.splitlines() if line.startswith("shard")] == ["shard 0:", "shard 1:"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("topics", [(), ("letters",), ("letters", "empty")])
def test_an_export_of_all_shards_is_that_of_one_process(topics, store, sharded, tmp_path, capsysbinary):
    assert run("export", "-db", store, *topics) == 0
    of_one = capsysbinary.readouterr().out
    assert run("export", "-db", sharded, *topics) == 0
    assert sorted(capsysbinary.readouterr().out.splitlines()) == sorted(of_one.splitlines())
    assert run("export", "-db", sharded, "letters", "missing") == 78
    assert capsysbinary.readouterr().err == b"miniqueue: there is no topic missing\n"


def test_an_import_into_shards_puts_each_topic_into_its_shard(store, tmp_path, capsys):
    lines, new = tmp_path / "lines", tmp_path / "new"
    assert run("export", "-db", store, "-o", lines) == 0
    with lines.open("ab") as file:
        file.write(b'{"topic":"orders","settings":{"max_deliveries":5}}\n')
    assert run("import", "-shards", 3, "-db", new, lines) == 0
    assert capsys.readouterr().out == f"{new}: 6 messages in 2 topics\n"
    assert run("check", "-db", new) == 0
    assert capsys.readouterr().out.count("topic ") == 2
    assert run("export", "-db", new, "-o", tmp_path / "again") == 0
    assert sorted((tmp_path / "again").read_bytes().splitlines()) == sorted(lines.read_bytes().splitlines())
    assert run("import", "-db", new, lines) == 65  # again
    assert "exists already in the store; nothing was imported" in capsys.readouterr().err
    for wrong in (1, 2):
        assert run("import", "-shards", wrong, "-db", new, lines) == 78
        assert "has 3 shards; use -shards 3" in capsys.readouterr().err


def test_an_invalid_line_for_one_shard_leaves_no_topic_in_any(tmp_path, capsys):
    lines, new = tmp_path / "lines", tmp_path / "new"
    lines.write_bytes(
        b'{"topic":"letters","text":"x"}\n{"topic":"empty","text":"x"}\n'
        b'{"topic":"empty","settings":{"dead_letter_topic":"letters"}}\n{"topic":"empty"}\n'
    )
    assert run("import", "-shards", 3, "-db", new, lines) == 65
    assert capsys.readouterr().err.startswith("miniqueue: line 4: ")
    assert run("check", "-db", new) == 0
    assert "topic " not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "flag"),
    [(["backup", "-db", "STORE", "TARGET"], ""), (["restore", "-db", "TARGET", "STORE"], "flag -db: ")],
)
def test_a_directory_with_something_in_it_is_refused(words, flag, store, tmp_path, capsys):
    (tmp_path / "letter").touch()
    assert run(*({"STORE": store, "TARGET": tmp_path}.get(word, word) for word in words)) == 73
    assert capsys.readouterr().err == f"miniqueue: {flag}{tmp_path} is not an empty directory\n"
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


@pytest.mark.parametrize("words", [["backup", "-db", "STORE", "TARGET"], ["restore", "-db", "TARGET", "STORE"]])
def test_a_source_that_is_in_use_is_refused(words, store, tmp_path):
    lock = StoreLock(store)
    assert run(*({"STORE": store, "TARGET": tmp_path / "new"}.get(word, word) for word in words)) == 73
    lock.release()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [["backup", "TARGET"], ["export"], ["import", "LINES"]])
def test_an_error_about_the_directory_of_db_names_the_flag(words, store, tmp_path, capsys):
    (tmp_path / "lines").touch()
    lock = StoreLock(store)
    paths = {"TARGET": tmp_path / "new", "LINES": tmp_path / "lines"}
    assert run(words[0], "-db", store, *(paths[word] for word in words[1:])) == 73
    lock.release()
    assert capsys.readouterr().err.startswith(f"miniqueue: flag -db: {store} is in use by process")


def test_an_error_about_the_backup_does_not_name_the_flag_of_the_store(store, tmp_path, capsys):
    assert run("restore", "-db", tmp_path / "new", tmp_path / "missing") == 65
    assert capsys.readouterr().err == f"miniqueue: {tmp_path}/missing: there is no such directory\n"


def test_an_unreadable_backup_is_reported_without_the_flag_of_the_store(store, tmp_path, monkeypatch):
    def pairs(_view):
        yield b"\x02", b""
        raise StorageError("backup: Input/output error")

    monkeypatch.setattr(StoreView, "pairs", pairs)
    with pytest.raises(StorageError, match=r"^backup: Input/output error"):
        restore.run(["-db", str(tmp_path / "new"), str(store)], {})
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written_is_reported_with_the_flag(store, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run("restore", "-db", tmp_path / "file" / "new", store) == 71
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"miniqueue: flag -db: {tmp_path}/file/new: ")


def test_an_unsound_backup_is_reported_and_not_restored(store, tmp_path, capsys):
    copy = shutil.copytree(store, tmp_path / "copy")
    with stores.opened(copy) as database:
        database.delete(keys.NEXT_TOPIC)
    assert run("restore", "-db", tmp_path / "restored", copy) == 65
    captured = capsys.readouterr()
    assert "problem: key 02 (next topic id)" in captured.out
    assert captured.err == "miniqueue: the backup has problems; nothing was restored\n"
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_restore_says_what_it_cannot_know_of_a_backup(store, tmp_path, capsys):
    """A copy made by hand can lack the mark of the last acknowledged commit; `check` accepts it, too."""
    copy = shutil.copytree(store, tmp_path / "copy")
    (copy / "miniqueue.acknowledged").unlink()
    assert run("restore", "-db", tmp_path / "restored", copy) == 0
    assert f"note: {copy}/miniqueue.acknowledged is missing: " in capsys.readouterr().out


def test_what_is_no_store_is_not_backed_up(tmp_path):
    assert run("backup", "-db", tmp_path, tmp_path / "copy") == 65
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["backup"], ["restore"], ["backup", "a", "b"], ["restore", "-monitor-port", "1", "a"]]
)
def test_wrong_words_are_refused(words):
    assert run(*words) == 78


@pytest.mark.parametrize("tool", ["backup", "restore"])
def test_help_is_printed(tool, capsys):
    assert run(tool, "--help") == 0
    assert f"miniqueue {tool} " in capsys.readouterr().out
