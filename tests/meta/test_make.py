"""What `make` would run, as far as it depends on what it is given."""

import subprocess

from tests.acceptance.tools import needs
from tests.meta.modules import ROOT

pytestmark = needs("make")


def make(*words: str) -> str:
    return subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_all_tests_are_run_with_a_check_of_what_they_cover():
    assert "--cov" in make("-n", "test", "ARGS=")
    assert "coverage report --fail-under=95" in make("-n", "test", "ARGS=")
    assert "\nmake test ARGS=\n" in (ROOT / ".ci/run").read_text()


def test_some_tests_are_run_without_a_check_of_what_they_cover():
    commands = make("-n", "test", "ARGS=tests/core")
    assert "tests/core" in commands
    assert "cov" not in commands


def test_the_help_says_how_long_all_tests_take():
    (line,) = (line for line in make("help").splitlines() if line.startswith("  make test "))
    assert "minutes" in line
