"""The same runs are made every time, whatever else the process has done, and they do the same."""

import os
import subprocess
import sys

import pytest

from tests.meta.modules import ROOT

#: Runs of the machine; prints what became of them, after every step.
RUNS = """
import hashlib
from tests.model.machine import BrokerMachine
from tests.model.soak import check

made = hashlib.sha256()

class Noting(BrokerMachine):
    def compare(self):
        super().compare()
        entries = [entry for topic in self.model.topics.values() for entry in topic.entries]
        places = [(entry.place, entry.key, entry.payload) for entry in entries]
        made.update(repr((self.step, self.model.write_count, self.model.horizon_ms, places)).encode())

print(check(Noting, 25, is_repeatable=True), made.hexdigest())
"""


@pytest.mark.slow
def test_the_same_runs_do_the_same_in_every_process():
    alone, beside_others = (
        subprocess.run(
            [sys.executable, "-c", f"{others}\n{RUNS}"],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed, others in (("1", ""), ("2", "import miniqueue.server.run"))
    )
    assert "0 divergences" in alone
    assert alone == beside_others
