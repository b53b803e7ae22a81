"""The service is one that systemd understands, and that can do little but its work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.tools import needs

UNIT = Path(__file__).parents[3] / "examples/miniqueue.service"
#: Of 10, by systemd-analyze; what stands there when everything is taken that a server of the network can lack.
MAX_EXPOSURE = 0.9

pytestmark = [pytest.mark.acceptance, needs("systemd-analyze")]


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The file, with a program that is there."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/miniqueue/bin/miniqueue", sys.executable))
    return path


def analyze(*words: str | Path) -> str:
    done = subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_finds_nothing_wrong(unit):
    assert analyze("verify", "--man=no", unit) == ""


def test_little_is_exposed(unit):
    rated = analyze("security", "--offline=true", "--no-pager", unit)
    (level,) = re.findall(r"Overall exposure level for miniqueue\.service: ([\d.]+)", rated)
    assert float(level) <= MAX_EXPOSURE
