"""The command that fuzzes for long runs its targets in processes of their own."""

import subprocess
import sys

from tests.fuzz.soak import TARGETS
from tests.meta.modules import ROOT


def test_the_command_runs_several_targets():
    names = list(TARGETS)[:2]
    command = [sys.executable, "-m", "tests.fuzz.soak", *names, "--seconds=0.1", "--seed=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[1].rstrip(":") for line in done.stdout.splitlines()] == names
