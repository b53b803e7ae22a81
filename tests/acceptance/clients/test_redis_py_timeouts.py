"""Programs on redis-py wait for messages as long as it takes, whatever redis-py's own time limit is.

The examples all run with `HASTY_REDIS_PY`, too: see `example.py`.
"""

import re
import subprocess
import sys

import pytest

from tests.acceptance import patient
from tests.acceptance.example import EXAMPLES, HASTY_REDIS_PY, RUN_SECONDS

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

README = (EXAMPLES.parent / "README.md").read_text()
PROGRAM = re.findall(r"^\.venv/bin/python <<'END'\n(.*?)^END$", README, re.MULTILINE | re.DOTALL)
RELYING_ON_THE_DEFAULT = """
import redis
connection = redis.Connection(port=6379)
connection.send_command("SUBSCRIBE", "idle")
connection.read_response()
"""


def run_on(port: int, program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program.replace("6379", str(port))],
        env=HASTY_REDIS_PY,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def test_a_program_that_relies_on_the_default_timeout_fails_at_once(start_broker):
    done = run_on(start_broker().resp_port, RELYING_ON_THE_DEFAULT)
    assert "Timeout value out of range" in done.stderr


def test_the_program_of_the_readme_does_not_rely_on_the_default_timeout(start_broker):
    broker = start_broker()
    with patient.Redis(port=broker.resp_port) as client:
        client.execute_command("MPUBLISH", "letters", "one", "two")
    (program,) = PROGRAM
    done = run_on(broker.resp_port, program)
    assert (done.stdout, done.stderr) == ("one\ntwo\n", "")
