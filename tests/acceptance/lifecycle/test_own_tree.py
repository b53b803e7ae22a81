"""Processes with hooks of the tests run the source tree of the tests, also where another one is installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.example import EXAMPLES, HASTY_REDIS_PY, RUN_SECONDS

pytestmark = pytest.mark.acceptance


def test_an_example_imports_the_miniqueue_beside_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import miniqueue; print(miniqueue.__file__)"],
        env=HASTY_REDIS_PY,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(EXAMPLES.parent)
