"""docs/cli.md is run: its blocks, in order, in a shell with `miniqueue`; what they write is what the page shows."""

import os
import re
import shutil
import stat
import subprocess
import sys

import pytest

from miniqueue.commands import COMMANDS
from tests.acceptance.process import FREE_PORTS, ROOT, BrokerProcess, environment, python_path
from tests.acceptance.tools import needs

pytestmark = [pytest.mark.acceptance, needs("bash", "redis-cli")]

PAGE = (ROOT / "docs/cli.md").read_text()
BLOCK = re.compile(r"^```sh\n(?P<text>.*?)^```\n+(?:```console\n(?P<shown>.*?)^```$)?", re.MULTILINE | re.DOTALL)
RUN_SECONDS = 60


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_on_the_page_and_in_its_contents(name):
    assert re.search(rf"\[[^]]*`{name}`[^]]*\]\(#", PAGE)
    assert f"miniqueue {name}" in "".join(match["text"] for match in BLOCK.finditer(PAGE))


@pytest.fixture
def other_broker(tmp_path):
    """A second broker, to which the page copies."""
    (tmp_path / "other").mkdir()
    process = BrokerProcess([*FREE_PORTS, "-storage", "memory"], cwd=tmp_path / "other")
    try:
        yield process.wait_until_ready()
    finally:
        process.end()


@pytest.mark.slow
def test_what_the_page_shows_is_what_happens(broker, other_broker, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    write_program(programs / "miniqueue", f'exec {sys.executable} -m miniqueue "$@"')
    write_program(programs / "redis-cli", f'exec {which("redis-cli")} -p {broker.resp_port} "$@"')
    variables = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": python_path(tmp_path),
        "HOME": str(tmp_path),
        "MINIQUEUE_URL": f"redis://localhost:{broker.resp_port}",
    }
    addresses = {"redis://old:6379": broker.resp_port, "redis://new:6379": other_broker.resp_port}
    for match in BLOCK.finditer(PAGE):
        text = match["text"]
        for address, port in addresses.items():
            text = text.replace(address, f"redis://localhost:{port}")
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text],
            cwd=tmp_path,
            env=environment(**variables),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert (done.stdout, done.stderr, done.returncode) == (match["shown"] or "", "", 0), match["text"]


def write_program(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def which(name):
    program = shutil.which(name)
    assert program is not None
    return program
