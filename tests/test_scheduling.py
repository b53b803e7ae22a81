"""What takes long begins first, and what is slow to start is started in one process only."""

import ast

from tests.meta.modules import ROOT
from tests.scheduling import LONGEST, rank_of, unit_of


def test_each_start_of_an_id_is_that_of_tests():
    assert [start for start in LONGEST if not (ROOT / start).exists()] == []


def test_what_takes_longest_begins_first():
    ids = [
        "tests/wire/test_a.py::b",
        "tests/spark/cluster/test_a.py::b",
        "tests/durability/crash/test_loops.py::a[x::y]",
        "tests/spark/jobs/test_a.py::b",
    ]
    assert sorted(ids, key=rank_of) == ids[::-1]
    assert unit_of(ids[-1]) == "tests/spark/"


def test_a_unit_is_a_file():
    assert unit_of("tests/wire/test_a.py::test_b[c::d]") == "tests/wire/test_a.py"


def test_all_tests_in_the_shared_session_of_spark_are_one_unit():
    units = {
        unit_of(path.relative_to(ROOT).as_posix())
        for path in (ROOT / "tests/spark").rglob("test_*.py")
        if any(
            isinstance(node, ast.arg) and node.arg in ("spark", "pipeline")
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    assert units == {"tests/spark/"}
