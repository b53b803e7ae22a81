"""The plugin of pytest starts one broker for a run, empties it after each test, and loads nothing until then."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from miniqueue.testing import MemoryBroker, StartError
from miniqueue_client import Client, ConnectError
from tests.acceptance.process import python_path
from tests.meta.modules import ROOT

PLUGIN = "miniqueue.testing.plugin"
TESTS = """
import asyncio
from miniqueue_client import Client, connect

urls = set()

def test_a_topic_is_published_to(miniqueue_url):
    urls.add(miniqueue_url)
    with Client(miniqueue_url) as client:
        client.publish_json("orders", {"id": 17})
        client.set_schedule("hourly", "orders", "x", every_seconds=3600)
        assert client.receive("orders")[0].json() == {"id": 17}

def test_another_test_finds_nothing_in_the_same_broker(miniqueue_url):
    urls.add(miniqueue_url)
    with Client(miniqueue_url) as client:
        assert (client.topics(), client.schedules(), len(urls)) == ([], [], 1)

def test_it_speaks_http2_too(miniqueue_broker):
    async def publish():
        async with await connect("localhost", miniqueue_broker.https_port, cafile=miniqueue_broker.cafile) as client:
            await client.publish("orders", b"x")
    asyncio.run(publish())
    miniqueue_broker.clear()
"""


def run_pytest(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin, as docs/client.md says."""
    (directory / "conftest.py").write_text(f'pytest_plugins = ["{PLUGIN}"]\n')
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": python_path(directory), "MINIQUEUE_RESP_PORT": "wrong"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_tests_share_a_broker_that_is_empty_for_each(tmp_path):
    (tmp_path / "test_orders.py").write_text(TESTS)
    done = run_pytest(tmp_path, "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_pytest_rewrites_no_assertions_of_miniqueue_itself():
    """It does so in all of a package that has an entry point for it: code is slower then, and its costs are others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "entry-points" not in project


def test_a_run_that_does_not_use_it_loads_neither_the_broker_nor_the_client():
    program = f"import pytest, sys; before = set(sys.modules); import {PLUGIN}; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.startswith("miniqueue")} == {
        "miniqueue",
        "miniqueue.testing",
        "miniqueue.testing.broker",
        PLUGIN,
    }
    assert {name.split(".")[0] for name in loaded} <= {"miniqueue", "json", "_json"}


def test_a_broker_that_cannot_start_says_why(tmp_path):
    with pytest.raises(StartError, match=r"exit code 78:\n(.|\n)*-max-topics"):
        MemoryBroker(tmp_path, "-max-topics", "many")


def test_its_log_is_kept_and_it_ends_at_once(tmp_path):
    with MemoryBroker(tmp_path) as broker, Client(broker.url, retries=0) as client:
        client.publish("orders", "x")
        [message] = client.receive("orders")
        assert message.payload == b"x"
        broker.stop()
        with pytest.raises(ConnectError):
            client.ping()
    assert '"event":"ready"' in (tmp_path / "broker.log").read_text()


def test_it_can_be_stopped_after_it_has_died(tmp_path):
    broker = MemoryBroker(tmp_path)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for child in children:
        if b"-storage" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), signal.SIGKILL)
    broker.stop()
    broker.stop()
