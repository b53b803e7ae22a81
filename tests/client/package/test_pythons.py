"""The client runs on Python 3.10 and later: on each that this machine has, and by its syntax on the oldest."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.acceptance.process import FREE_PORTS, BrokerProcess
from tests.meta.modules import CLIENT, ROOT

OLDEST = (3, 10)
NAMES = [f"python3.{minor}" for minor in range(OLDEST[1], 20)]
PROGRAM = Path(__file__).with_name("any_python.py")
#: What the client requires, all of it without compiled code, so that it can be lent to any interpreter.
LENT = ("async_timeout", "h2", "hpack", "hyperframe", "redis")


def interpreters() -> dict[str, str]:
    """Return the path of each Python that can be run, this one included, by its version."""
    versions = {}
    for name in [sys.executable, *NAMES]:
        command = [name, "-c", "import sys; print(*sys.version_info[:2], sys.executable)"]
        if shutil.which(name):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                major, minor, path = done.stdout.split(maxsplit=2)
                versions.setdefault(f"{major}.{minor}", path.strip())
    return versions


INTERPRETERS = interpreters()


@pytest.mark.parametrize("version", INTERPRETERS)
def test_it_runs_on(version, tmp_path):
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in LENT:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (packages / name).symlink_to(Path(spec.origin).parent)
    broker = BrokerProcess([*FREE_PORTS, "-storage", "memory"], cwd=tmp_path)
    try:
        ready = broker.wait_until_ready()
        words = [f"redis://127.0.0.1:{ready.resp_port}", str(ready.https_port), str(tmp_path / "certs/ca.pem")]
        path = os.pathsep.join([str(CLIENT.parent), str(packages)])
        done = subprocess.run(
            [INTERPRETERS[version], "-W", "error", "-B", str(PROGRAM), *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, f"python{version} done\n"), done.stderr
    finally:
        broker.end()


@pytest.mark.parametrize("path", sorted(CLIENT.rglob("*.py")), ids=lambda path: str(path.relative_to(CLIENT)))
def test_its_syntax_is_that_of_the_oldest(path):
    ast.parse(path.read_text(), feature_version=OLDEST)


def test_the_oldest_is_what_the_package_and_the_linters_say():
    project = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.10"
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tools["ruff"]["per-file-target-version"]["client/**"] == "py310"
    assert re.search(r"mypy --python-version=3\.10 client/src$", (ROOT / "Makefile").read_text(), re.MULTILINE)
