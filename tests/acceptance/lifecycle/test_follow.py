"""A copy that follows a broker over TLS, and a broker that takes its place."""

import json
import shutil
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import redis

from miniqueue import cli
from miniqueue.storage.leveldb.shards import stores_in
from tests.acceptance import patient
from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess, run_to_end
from tests.acceptance.tools import MAX_SECONDS
from tests.acceptance.users import UsersFile
from tests.serving import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

TOPIC = "letters"
IN_USE = 73


@pytest.fixture
def follow(tmp_path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a copy that follows; it is ended with the test."""
    started: list[BrokerProcess] = []

    def follow(url: str, *flags: str) -> BrokerProcess:
        words = ["backup", "-follow", url, "-interval", "50ms", "-status-port", "0", *flags, "copy"]
        started.append(BrokerProcess(words, cwd=tmp_path))
        return started[-1]

    yield follow
    for process in started:
        process.end()


@pytest.fixture
def monitor_port() -> Iterator[int]:
    """A port for a broker and its successor, which no other process gets in between."""
    with hold_port() as held:
        yield port_of(held)


def publish(client: redis.Redis, first: int, end: int) -> None:
    for number in range(first, end):
        client.execute_command("PUBLISH", TOPIC, number)


def shown(port: int, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=MAX_SECONDS) as answer:
        body: bytes = answer.read()
    return body


def received(broker: BrokerProcess) -> list[int]:
    with patient.Redis(port=broker.resp_port) as client:
        return [int(payload) for _, payload, _ in client.execute_command("RECEIVE", TOPIC, "COUNT", 1000, "AUTOACK")]


async def test_a_copy_over_tls_takes_the_place_of_its_broker(start_broker, follow, trust, tmp_path: Path):
    users = UsersFile(tmp_path)
    token = users.add("operator", "-admin", "*")
    users.add("watch", "-monitor", "*")
    broker = start_broker("data", "-users", str(users.path), "-monitor-host", "0.0.0.0")
    url = f"https://localhost:{broker.monitor_port}"
    refused = run_to_end("backup", "-follow", url, "-ca", trust.ca, "none", cwd=tmp_path)
    assert (refused.returncode, "401" in refused.stderr) == (69, True)
    watch = users.token_file("watch")
    refused = run_to_end("backup", "-follow", url, "-ca", trust.ca, "-token-file", watch, "none", cwd=tmp_path)
    assert (refused.returncode, "403" in refused.stderr) == (69, True)

    with patient.Redis(port=broker.resp_port, username="operator", password=token) as client:
        publish(client, 0, 20)
        copy = follow(url, "-ca", trust.ca, "-token-file", users.token_file("operator"))
        port = copy.wait_for_event("status")["port"]
        copy.wait_for_event("following")
        publish(client, 20, 40)

    def is_complete() -> bool:
        request = Request(f"{url}/readyz", headers={"Authorization": f"Bearer {token}"})
        with urlopen(request, timeout=MAX_SECONDS, context=ssl.create_default_context(cafile=trust.ca)) as answer:
            (follower,) = json.load(answer)["followers"].values()
        return bool(follower == {"lag_seconds": 0.0, "lag_bytes": 0})

    await eventually(is_complete)
    status = json.loads(shown(port, "/readyz"))
    assert status["status"] == "following"
    assert status["lag_seconds"] < MAX_SECONDS
    assert b"miniqueue_copy_lag_seconds" in shown(port, "/metrics")
    assert run_to_end("check", "-db", "copy", cwd=tmp_path).returncode == IN_USE

    broker.kill()
    copy.wait_for_event("the broker does not answer")
    successor = start_broker("copy")
    assert received(successor) == list(range(40))
    again = run_to_end("backup", "-follow", "http://localhost:1", "copy", cwd=tmp_path)
    assert (again.returncode, "in use" in again.stderr or "follows no" in again.stderr) == (IN_USE, True)
    assert copy.wait() == IN_USE  # even though no broker answers
    assert "a broker has used" in copy.output
    successor.stop()
    again = run_to_end("backup", "-follow", "http://localhost:1", "copy", cwd=tmp_path)
    assert (again.returncode, "a broker has used" in again.stderr) == (IN_USE, True)


def test_the_old_follower_ends_when_a_broker_has_used_its_copy(start_broker, follow, monitor_port):
    broker = start_broker("data", "-monitor-port", str(monitor_port))
    copy = follow(f"http://127.0.0.1:{monitor_port}")
    copy.wait_for_event("following")
    broker.kill()
    copy.wait_for_event("the broker does not answer")
    start_broker("copy").stop()
    start_broker("data", "-monitor-port", str(monitor_port))
    assert copy.wait() == IN_USE
    assert "follows no" in copy.output


def test_a_copy_that_was_away_too_long_is_replaced_by_a_new_one(start_broker, follow, monitor_port, tmp_path: Path):
    broker = start_broker("data", "-monitor-port", str(monitor_port))
    copy = follow(f"http://127.0.0.1:{monitor_port}")
    copy.wait_for_event("following")
    copy.kill()
    broker.stop()
    for store in stores_in(tmp_path / "data"):
        shutil.rmtree(store / "recent")  # after an hour, the broker does it
    broker = start_broker("data", "-monitor-port", str(monitor_port))
    with patient.Redis(port=broker.resp_port) as client:
        publish(client, 0, 20)
    copy = follow(f"http://127.0.0.1:{monitor_port}")
    copy.wait_for_event("copied")
    copy.wait_for_event("following")
    assert "is made again" in copy.output
    broker.kill()
    copy.wait_for_event("the broker does not answer")
    assert received(start_broker("copy")) == list(range(20))
    assert not list(tmp_path.glob(".copy*"))


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["-follow", "http://queue.example", "c"], "flag -follow: invalid URL; must be https://host[:port], or http:"),
        (["-follow", "ftp://localhost", "c"], "flag -follow: invalid URL"),
        (["-follow", "https://localhost:x", "c"], "flag -follow: invalid URL"),
        (["-follow", "http://localhost", "-db", "d", "c"], "flag -db: not with -follow"),
        (["-follow", "http://localhost", "-interval", "0s", "c"], "flag -interval: invalid duration"),
        (["-follow", "http://localhost", "-status-port", "x", "c"], "flag -status-port: must be a number"),
        (["-interval", "1s", "c"], "flag -interval: requires -follow"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags, problem, capsys):
    assert cli.main(["backup", *flags], {}) == 78
    assert problem in capsys.readouterr().err
