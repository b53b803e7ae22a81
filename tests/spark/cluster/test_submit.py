"""The program of docs/pipeline.md, started by spark-submit as there, with the broker in Spark's configuration."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from miniqueue_client import Client
from tests.client.broker import RespBroker
from tests.meta.modules import ROOT
from tests.spark.needs import needs_spark

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, needs_spark]


def test_a_job_is_submitted_with_the_broker_in_the_configuration(shared_broker: RespBroker, tmp_path: Path):
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs/pipeline.md").read_text(), re.DOTALL)
    [program] = [one for one in programs if "sys.argv" in one]
    (tmp_path / "job.py").write_text(program)
    (tmp_path / "in.csv").write_text("id,name\n1,a\n2,ü\n")
    conf = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    conf += ["--conf", f"spark.miniqueue.url={shared_broker.url}"]
    ran = subprocess.run(
        [Path(sys.executable).parent / "spark-submit", *conf, "job.py", "load", "-topic", "submitted", "in.csv"],
        cwd=tmp_path,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
        | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
        text=True,
    )
    assert (ran.returncode, "submitted: 2 messages published\n" in ran.stdout) == (0, True), ran.stdout
    with Client(shared_broker.url) as client:
        published = [message.payload.decode() for message in client.receive("submitted", count=10, autoack=True)]
    assert published == ['{"id":"1","name":"a"}', '{"id":"2","name":"ü"}']
