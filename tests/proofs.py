"""Proofs: tests that take minutes, and show the same as long as the files that they are about are the same.

Once is enough then:

    the files are those of the record   `make test` leaves the tests of a proof out, unless it is asked for nothing else
    the files have changed since        `make test` runs them like all others
    `python -m tests.proofs <mark>`     runs them, and writes the record if all pass; commit it

A record is a digest and not a commit: it can be compared wherever the files are, without a history.
"""

import argparse
import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
#: What counts in a folder.
KINDS = "*.py", "*.c"


class Proof(NamedTuple):
    """Tests with a mark, and what they are about.

    Attributes:
      mark: What pytest knows the tests by.
      sources: Files and folders of the project. What is in them, and the tests, decide what the tests show.
      distribution: How pytest-xdist distributes the tests.
    """

    mark: str
    sources: tuple[str, ...]
    distribution: str = "load"

    @property
    def record(self) -> str:
        """The file with the digest."""
        return f"tests/{self.mark}.sha256"

    def digest(self) -> str:
        """Return what changes with each change of a source."""
        folders = [ROOT / source for source in self.sources]
        files = {path for folder in folders for kind in KINDS for path in folder.rglob(kind)}
        made = hashlib.sha256()
        for path in sorted(files.union(filter(Path.is_file, folders))):
            content = path.read_bytes()
            made.update(b"%b %d\n" % (path.relative_to(ROOT).as_posix().encode(), len(content)) + content)
        return made.hexdigest()

    def is_due(self) -> bool:
        """Return whether the tests have not passed with these sources yet."""
        record = ROOT / self.record
        return not record.exists() or record.read_text().strip() != self.digest()


#: Bugs are planted, and must be found: where they are, and the checks that find them.
PLANTED = Proof(
    "planted",
    (
        *("miniqueue/core", "miniqueue/broker", "miniqueue/storage", "miniqueue/server/resp", "miniqueue/server/http"),
        *("tests/model", "tests/durability"),
    ),
)
#: Jobs of Spark, of which each starts processes. What always runs: the session, a submitted job, and the README.
SPARK_JOBS = Proof(
    "spark_jobs",
    ("miniqueue/spark", "miniqueue/tools/spark", "client/src", "benchmarks", "tests/spark", ".ci/locks/spark.lock"),
    "loadfile",
)
PROOFS = {proof.mark: proof for proof in (PLANTED, SPARK_JOBS)}


def leave_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Remove the tests of proofs that are not due from `items`, and return them; nothing, if there are no others."""
    marks = [proof.mark for proof in PROOFS.values() if not proof.is_due()]
    others = [item for item in items if not any(map(item.get_closest_marker, marks))]
    if not others or len(others) == len(items):
        return []
    left_out = [item for item in items if any(map(item.get_closest_marker, marks))]
    items[:] = others
    return left_out


def main() -> int:
    """Run the tests of a proof; if all pass, note with which sources."""
    parser = argparse.ArgumentParser(prog="proofs", description="Run tests that once is enough for.")
    parser.add_argument("mark", choices=PROOFS, help="of the tests")
    parser.add_argument(
        "--numprocesses", default="0", help="how many tests run at a time (%(default)s: in this process)"
    )
    options = parser.parse_args()
    proof = PROOFS[options.mark]
    before = proof.digest()
    at_a_time = [f"--numprocesses={options.numprocesses}", f"--dist={proof.distribution}", "--no-loadscope-reorder"]
    result = pytest.main([str(ROOT / "tests"), "-m", proof.mark, "-q", *at_a_time])
    if result == pytest.ExitCode.OK and proof.digest() == before:
        (ROOT / proof.record).write_text(f"{before}\n")
    return int(result)


if __name__ == "__main__":
    sys.exit(main())
