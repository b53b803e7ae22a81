"""The parent of the processes: what it says of a start that is interrupted, or impossible."""

import os
import subprocess
import sys
import tempfile

import pytest

from miniqueue.errors import ConfigError
from miniqueue.server.shards.parent import backs
from tests.acceptance.process import ROOT, STOP_SECONDS, environment, python_path

#: A broker of two processes without a server: the first one is ready at once, and the second only when it is to stop.
PROGRAM = """
import os, signal, sys
from contextlib import nullcontext
from miniqueue.server.shards.parent import READY, Parent

def say(word):
    print(word, flush=True)

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
role = Parent(2, lambda: say("ready"), lambda: say("stopping"), nullcontext, lambda: None).run()
if isinstance(role, int):
    sys.exit(role)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
if role.number == 0:
    role.parent.send(READY)
    os.kill(os.getppid(), signal.SIGTERM)
signal.sigwait({signal.SIGTERM})
if role.number == 1:
    role.parent.send(READY)
"""


def test_a_start_that_is_interrupted_is_not_reported_as_ready():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment(PYTHONPATH=python_path(ROOT)),
        capture_output=True,
        text=True,
        timeout=STOP_SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("stopping\n", "", 143)


def test_a_directory_whose_name_is_too_long_for_sockets_is_refused(tmp_path, monkeypatch):
    there = tmp_path / ("x" * 100)
    there.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(there))
    with pytest.raises(ConfigError, match=r"variable TMPDIR: .* cannot have their sockets there: .*too long"), backs(2):
        pass
    assert os.listdir(there) == []


def test_a_directory_for_sockets_that_is_missing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"variable TMPDIR: .*No such file"), backs(2):
        pass
