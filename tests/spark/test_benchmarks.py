"""The scenarios of Spark run, and their commands on the page are those that a reader can run."""

import json
import re
import subprocess
import sys
from pathlib import Path

from benchmarks import running
from benchmarks.bench import Bench
from benchmarks.results import verdicts
from benchmarks.scenarios import spark
from tests.spark.needs import JOBS

pytestmark = JOBS
ROOT = Path(__file__).parents[2]


def test_the_command_of_a_job_runs_as_it_is_printed(tmp_path):
    measured = running.run(spark.SCENARIOS[0], Bench(tmp_path, scale=0.001), 1, lambda text: None)
    assert measured.values("miniqueue", spark.RATE)[0] > 0
    assert all(measured.values("miniqueue", figure)[0] > 10 for figure in spark.SPARK_MEMORY.values())
    assert all(
        verdict.value is not None
        for verdict in verdicts(spark.SCENARIOS[0], measured)
        if "memory" in verdict.goal.figure
    )
    (command,) = measured.commands[spark.NO_SINK]
    assert '"rows": 1000,' in command
    command = re.sub(r"\bpython\b", sys.executable, command).replace("…", str(tmp_path))
    answer = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=True).stdout
    assert json.loads(answer.splitlines()[-1])["rate"] > 0
