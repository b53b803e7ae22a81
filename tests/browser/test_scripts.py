"""The pure scripts of the page: formats, URLs, JSON as text, traces. Node.js runs their tests."""

import gzip
import shutil
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.meta.modules import PACKAGE, ROOT

SCRIPTS = Path(__file__).parent / "scripts"
NODE = shutil.which("node")
ASSETS = PACKAGE / "server" / "dashboard" / "assets"
MAX_COLUMNS = 120
MAX_FILES = 20
MAX_COMPRESSED_BYTES = 300_000


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_pure_scripts_do_what_their_tests_say():
    assert NODE is not None
    files = sorted(str(path) for path in SCRIPTS.glob("*.test.js"))
    result = subprocess.run(
        [NODE, "--experimental-default-type=module", "--test", *files],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_lines_are_short_enough_to_be_read_beside_each_other():
    files = [*ASSETS.rglob("*.js"), *ASSETS.rglob("*.css"), *SCRIPTS.glob("*.js")]
    own = [path for path in files if "vendor" not in path.parts]
    assert len(own) > 50
    long_ = [
        f"{path.name}:{number}"
        for path in own
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MAX_COLUMNS
    ]
    assert long_ == []


def test_folders_are_small_and_all_files_together_too():
    files = [path for path in ASSETS.rglob("*") if path.is_file()]
    numbers = Counter(path.parent.name for path in files if path.suffix == ".js")
    assert max(numbers.values()) <= MAX_FILES
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < MAX_COMPRESSED_BYTES


def test_the_package_contains_all_files():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["miniqueue"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert {path for path in ASSETS.rglob("*") if path.is_file()} <= packed
    assert list((ASSETS / "vendor").glob("*.LICENSE.txt"))


def test_nothing_turns_text_into_markup_or_code():
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")
    own = [path for path in ASSETS.rglob("*.js") if "vendor" not in path.parts]
    assert [(path.name, word) for path in own for word in forbidden if word in path.read_text()] == []
