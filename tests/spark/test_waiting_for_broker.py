"""`miniqueue pipeline` that is started before its broker: a job that runs on waits for it."""

import os
import signal
from collections.abc import Iterator

import pytest

from miniqueue.client import ConnectError, RefusedError
from miniqueue.spark import source
from miniqueue.spark.source import wait_for_broker
from tests.client.broker import RespBroker
from tests.spark.needs import IN_A_SESSION

pytestmark = IN_A_SESSION


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(source, "_AGAIN_SECONDS", 0.001)


@pytest.fixture
def stopped_broker(shared_broker) -> Iterator[RespBroker]:
    shared_broker.kill()
    yield shared_broker
    if not shared_broker.process.is_alive():
        shared_broker.start()


def test_a_job_that_runs_on_waits_for_a_broker_that_is_not_there_yet_and_says_so(
    pipeline, stopped_broker, client, tmp_path, monkeypatch
):
    said = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 1:
            stopped_broker.start()
            client.publish("begins-late", b"a")
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("miniqueue.tools.pipeline._say", say)
    code, out, _ = pipeline("archive", "begins-late", "-every", 1, tmp_path / "archive")
    assert (code, out) == (0, "begins-late: 1 message archived in 1 step\n")
    assert said[0].startswith(f"cannot connect to {stopped_broker.url}")
    assert said[0].endswith("; it is waited for")


def test_a_job_that_waits_for_its_broker_can_be_stopped(pipeline, stopped_broker, tmp_path, monkeypatch):
    said = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("miniqueue.tools.pipeline._say", say)
    code, out, _ = pipeline("stats", "never-begins", "-every", 1, tmp_path / "figures")
    assert (code, out) == (130, "")
    assert [line.partition(";")[0] for line in said][1:] == ["interrupted"]


def test_what_waiting_for_a_broker_does_not_mend_is_raised_at_once(spark, shared_broker):
    other = spark.newSession()
    other.conf.set("spark.miniqueue.url", shared_broker.url.replace("//", "//no-such-user:secret@"))
    with pytest.raises(RefusedError):
        wait_for_broker(other, pytest.fail, lambda: False)


def test_a_job_that_is_stopped_while_its_broker_does_not_answer_was_interrupted(pipeline, tmp_path, monkeypatch):
    def check_broker(_spark: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise ConnectError("cannot connect")

    monkeypatch.setattr(source, "check_broker", check_broker)
    code, out, err = pipeline("archive", "never-asked", tmp_path / "archive")
    assert (code, out, "interrupted; " in err) == (130, "", True)
