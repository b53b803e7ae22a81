"""The bill of materials lists what the lock files contain, always in the same bytes."""

import json
import subprocess
import sys
import uuid

import pytest

from miniqueue import __version__
from tests.meta.modules import ROOT
from tests.meta.test_locks import locked

LOCKS = (".ci/locks/broker.lock", ".ci/locks/granian.lock")


def make_bill(*locks: str, seed: str = "0") -> bytes:
    return subprocess.run(
        [sys.executable, ".ci/sbom.py", *locks],
        cwd=ROOT,
        env={"PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    ).stdout


@pytest.fixture(scope="module")
def bill():
    return json.loads(make_bill(*LOCKS))


def test_it_lists_each_locked_package_once_with_its_hashes(bill):
    hashes = {
        part["name"]: (part["version"], frozenset(h["content"] for h in part["externalReferences"][0]["hashes"]))
        for part in bill["components"]
        if part["name"] != "miniqueue-client"
    }
    assert hashes == locked("broker") | locked("granian")
    assert len(bill["components"]) == len(hashes) + 1


def test_it_is_about_this_version(bill):
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/miniqueue@{__version__}"
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")


def test_it_says_what_requires_what(bill):
    required = {
        entry["ref"].partition("@")[0].removeprefix("pkg:pypi/"): entry["dependsOn"] for entry in bill["dependencies"]
    }
    names = {
        name: [purl.partition("@")[0].removeprefix("pkg:pypi/") for purl in purls] for name, purls in required.items()
    }
    assert names["h2"] == ["hpack", "hyperframe"]
    assert {"granian", "miniqueue-client", "plyvel", "uvloop"} <= set(names["miniqueue"])
    assert names["miniqueue-client"] == ["async-timeout", "redis"]
    reached, new = set(), {"miniqueue"}
    while new:
        reached |= new
        new = {needed for name in new for needed in names[name]} - reached
    assert reached == set(names)


def test_the_same_locks_give_the_same_bytes_and_others_another_serial_number(bill):
    assert make_bill(*LOCKS, seed="1") == make_bill(*reversed(LOCKS), seed="2")
    assert json.loads(make_bill(LOCKS[0]))["serialNumber"] != bill["serialNumber"]
    assert uuid.UUID(bill["serialNumber"]).version == 5


def test_locks_that_differ_are_refused(tmp_path):
    other = tmp_path / "other.lock"
    other.write_text(f"h2==1.0 \\\n    --hash=sha256:{'0' * 64}\n    # via miniqueue (pyproject.toml)\n")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        make_bill(LOCKS[0], str(other))
    assert b"ValueError: h2: 4.4.1 and 1.0 are locked" in caught.value.stderr
