"""h2load publishes over many streams at once."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.counts import counts
from tests.acceptance.process import BrokerProcess
from tests.acceptance.tools import needs, on_both_http_servers

pytestmark = [pytest.mark.acceptance, needs("h2load"), on_both_http_servers]


def test_every_publish_is_answered_and_counted(broker: BrokerProcess, topic: str, tmp_path: Path):
    body = tmp_path / "body"
    body.write_bytes(b"0123456789")
    command = ["h2load", "-n", "2000", "-c", "4", "-m", "8", "-d", str(body), broker.url(f"/publish/{topic}")]
    report = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in report
    assert "status codes: 2000 2xx" in report
    assert counts(broker, topic)["published"] == 2000
