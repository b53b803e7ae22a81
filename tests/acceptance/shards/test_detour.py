"""The suites of both protocols with clients at a process that owns no topic: here a selection of them."""

import os
import subprocess
import sys

import pytest

from tests.acceptance.process import OTHER_COMMAND, ROOT
from tests.acceptance.shards.exceptions import EXCEPTIONS, SPREAD_EXCEPTIONS, reason_against

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

SELECTED = ("clients/test_across_protocols.py", "clients/test_redis_py.py")


@pytest.mark.skipif(bool(OTHER_COMMAND), reason="another command is tested")
def test_clients_of_both_protocols_can_use_a_process_that_owns_no_topic():
    tests = [f"tests/acceptance/{path}" for path in SELECTED]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    variables["MINIQUEUE_TEST_SHARDS"] = "3"
    variables["MINIQUEUE_COMMAND"] = f"{sys.executable} -m tests.acceptance.shards.detour"
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "client/src")])
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(run, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout


def test_what_is_skipped_with_shards_exists_and_nothing_else_is():
    for exception in (*EXCEPTIONS, *SPREAD_EXCEPTIONS):
        path, _, test = exception.partition("::")
        file = ROOT / "tests/acceptance" / path
        assert file.exists()
        assert not test or f"def {test}" in file.read_text()
    assert not any(reason_against(f"tests/acceptance/{path}::test") for path in SELECTED)
    assert reason_against("tests/acceptance/lifecycle/test_binary.py::test_x")
    assert not reason_against("tests/acceptance/documents/test_examples.py::test_replay_prints_x")
    assert reason_against("tests/acceptance/documents/test_examples.py::test_replay_prints_x", is_spread=True)
