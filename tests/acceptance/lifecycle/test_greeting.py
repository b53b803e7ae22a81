"""A broker that starts on a terminal says what to do next; one in a pipe writes its log only."""

import json
import os
import pty
import signal
import subprocess

import pytest

from tests.acceptance.process import COMMAND, FREE_PORTS, START_SECONDS, BrokerProcess, environment

pytestmark = pytest.mark.acceptance


def test_a_terminal_shows_what_to_do_next(tmp_path, trust):
    ours, theirs = pty.openpty()
    command = [*COMMAND, *FREE_PORTS, *trust.flags, "-storage", "memory"]
    with (
        os.fdopen(ours, "rb", buffering=0) as screen,
        subprocess.Popen(command, cwd=tmp_path, env=environment(), stdin=theirs, stderr=theirs) as process,
    ):
        os.close(theirs)
        shown = b""
        while b"  try " not in shown or not shown.endswith(b"\r\n\r\n"):
            part = screen.read(1 << 16)
            assert part, shown
            shown += part
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_SECONDS) == 0
    *_, greeting = shown.decode().replace("\r\n", "\n").partition("\nminiqueue ")
    lines = greeting.splitlines()
    assert lines[0].endswith(" is ready")
    assert [line.split()[0] for line in lines if line.strip()][1:] == [
        *("store", "http", "resp", "monitoring", "security", "try"),
    ]


def test_a_pipe_has_the_log_only(tmp_path, trust):
    process = BrokerProcess([*FREE_PORTS, *trust.flags, "-storage", "memory"], cwd=tmp_path)
    try:
        process.wait_until_ready().stop()
    finally:
        process.end()
    assert all(json.loads(line)["event"] for line in process.output.splitlines())
