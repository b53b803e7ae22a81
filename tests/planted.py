"""When bugs are planted to prove that the checks find them: the tests that are marked `planted`.

What such a test shows depends on the checks and on what they check. While both are the same, once is enough:

    the sources are those of the record      `make test` leaves these tests out, unless it is asked for nothing else
    the sources have changed since           `make test` runs them like all others
    `make planted`, also a part of the soak  runs them, and writes the record if each bug was found; commit it

The record is a digest and not a commit: it can be compared wherever the files are, without a history.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Where the bugs are planted, and the checks that must find them. tests/meta/test_planted.py holds it to that.
SOURCES = (
    *("miniqueue/core", "miniqueue/broker", "miniqueue/storage", "miniqueue/server/resp", "miniqueue/server/http"),
    *("tests/model", "tests/durability"),
)
RECORD = "tests/planted.sha256"


def digest(root: Path | None = None) -> str:
    """Return what changes with each change of a source."""
    root = root or ROOT
    files = {path for source in SOURCES for pattern in ("*.py", "*.c") for path in (root / source).rglob(pattern)}
    made = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        made.update(b"%b %d\n" % (path.relative_to(root).as_posix().encode(), len(content)) + content)
    return made.hexdigest()


def are_due(root: Path | None = None) -> bool:
    """Return whether the bugs have not been found in these sources yet."""
    record = (root or ROOT) / RECORD
    return not record.exists() or record.read_text().strip() != digest(root)


def leave_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Remove the tests that plant bugs from `items`, and return them; nothing, if there are no others."""
    planting = [item for item in items if item.get_closest_marker("planted")]
    if len(planting) == len(items):
        return []
    items[:] = [item for item in items if not item.get_closest_marker("planted")]
    return planting


def main() -> int:
    """Plant all bugs; if each is found, note in which sources."""
    parser = argparse.ArgumentParser(prog="planted", description="Plant bugs that the tests must find.")
    parser.add_argument(
        "--numprocesses", default="0", help="how many tests run at a time (%(default)s: in this process)"
    )
    options = parser.parse_args()
    before = digest()
    result = pytest.main([str(ROOT / "tests"), "-m", "planted", "-q", f"--numprocesses={options.numprocesses}"])
    if result == pytest.ExitCode.OK and digest() == before:
        (ROOT / RECORD).write_text(f"{before}\n")
    return int(result)


if __name__ == "__main__":
    sys.exit(main())
