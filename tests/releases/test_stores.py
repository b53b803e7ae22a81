"""What a release has stored, the present code reads, keeps, and delivers; a store of a later format is refused."""

import base64
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from miniqueue import __version__, cli
from miniqueue.storage.leveldb.marker import FORMAT_VERSION, MARKER_FILE_NAME
from tests.meta.modules import ROOT
from tests.releases import make
from tests.storage.leveldb.directories import fingerprint
from tests.tools.stores import holding, run_on

VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in make.FOLDER.glob("*.tar.gz"))
RELEASED = re.findall(r"^## \[(\d[\w.]*)\] – \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.fixture(params=VERSIONS)
def version(request) -> str:
    return request.param


@pytest.fixture
def store(version, tmp_path) -> Path:
    return make.unpack(make.FOLDER / f"{version}.tar.gz", tmp_path / "data")


def recorded(version: str) -> list[dict[str, Any]]:
    """Return what the release exported."""
    return [json.loads(line) for line in (make.FOLDER / f"{version}.jsonl").read_text().splitlines()]


def test_every_released_version_has_a_store():
    assert set(RELEASED) | {__version__} <= set(VERSIONS)


def test_a_store_has_tables_and_a_log_with_messages(store):
    names = [path.suffix for path in (store / "db").iterdir()]
    assert names.count(".ldb") >= 2
    assert names.count(".log") == 1


def test_a_store_is_sound_and_a_check_changes_nothing(store, capsys):
    before = fingerprint(store)
    assert cli.main(["check", "-db", str(store)], {}) == 0
    assert capsys.readouterr().out.endswith(": no problems\n")
    assert fingerprint(store) == before


def test_all_that_the_release_exported_is_there_in_its_order(version, store):
    """A later version may add members to a line; none may be missing or different."""
    lines = [json.loads(line) for line in make.exported(store).splitlines()]
    expected = recorded(version)
    assert len(expected) > 60
    assert [{name: line.get(name) for name in old} for line, old in zip(lines, expected, strict=True)] == expected


def is_ready(line: dict[str, Any]) -> bool:
    """Whether a line is a message that waits for the group `default`."""
    return line.get("state") in ("waiting", "front", "back") and "default" in line.get("for", ["default"])


def payload(line: dict[str, Any]) -> bytes:
    return line["text"].encode() if "text" in line else base64.b64decode(line["msg"])


def test_a_broker_delivers_what_waits_once(version, store):
    """A topic that is paused delivers nothing; of groups, the default one is asked."""
    waiting: dict[str, Counter[bytes]] = {}
    for line in filter(is_ready, recorded(version)):
        waiting.setdefault(line["topic"], Counter()).update([payload(line)])
    del waiting["paused"]

    async def act(broker, _clock):
        for topic, payloads in waiting.items():
            delivered: Counter[bytes] = Counter()
            for _ in range(payloads.total()):
                consumer = await holding(broker, topic.encode())
                delivered.update(consumer.payloads)
                consumer.consumer.ack()
                consumer.consumer.close()
            assert delivered == payloads, topic

    run_on(store, act)
    remaining = filter(is_ready, map(json.loads, make.exported(store).splitlines()))
    assert [line for line in remaining if line["topic"] in waiting] == []
    assert cli.main(["check", "-db", str(store)], {}) == 0


def test_a_broker_goes_on_where_the_release_ended(version, store):
    ids = [line["id"] for line in recorded(version) if line.get("topic") == "once" and "state" in line]

    async def act(broker, _clock):
        published = broker.publish(b"once", [b"new"])
        await published.commit.wait()
        assert f"0-{published.first_seq - 1}" == max(ids, key=lambda name: int(name.partition("-")[2]))

    run_on(store, act)
    assert make.exported(store).count('"text":"new"') == 1
    assert cli.main(["check", "-db", str(store)], {}) == 0


def test_a_store_of_a_later_format_is_refused_and_unchanged(store, capsys):
    (store / MARKER_FILE_NAME).write_text(f"miniqueue store, format {FORMAT_VERSION + 1}\n")
    before = fingerprint(store)
    for words in (["check"], ["export"], ["import"]):
        assert cli.main([*words, "-db", str(store)], {}) == 65
        error = f"format version {FORMAT_VERSION + 1} found, this miniqueue reads up to {FORMAT_VERSION}"
        assert f"{error}; a later miniqueue wrote it: start that one" in capsys.readouterr().err
    assert fingerprint(store) == before


def test_the_files_of_a_version_depend_on_nothing_but_its_code():
    assert make.made() == make.made()
