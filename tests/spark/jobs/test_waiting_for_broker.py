"""`miniqueue pipeline` that is started before its broker: a job that runs on waits for it."""

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from miniqueue.server.security.certificates import ensure_certificates
from miniqueue.spark import source
from miniqueue.spark.source import wait_for_broker
from miniqueue_client import ConnectError, RefusedError
from tests.client.broker import RespBroker
from tests.spark.needs import JOBS

pytestmark = JOBS

#: Of a certificate and its key.
NAMES = ("cert.pem", "key.pem")
FRAME = StructType([StructField("value", StringType())])


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(source, "_AGAIN_SECONDS", 0.001)


@pytest.fixture
def authorities(spark, tmp_path) -> Iterator[Path]:
    """Return the file of a job's authorities; the session, which is that of all tests, forgets them again."""
    yield tmp_path / "ca.pem"
    spark.conf.unset("spark.miniqueue.caFile")


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
        if line == "starting Spark":
            return
        said.append(line)
        if len(said) == 1:
            stopped_broker.start()
            client.publish("begins-late", b"a")
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("miniqueue.tools.spark.pipeline._say", say)
    code, out, _ = pipeline("archive", "begins-late", "-every", 1, tmp_path / "archive")
    assert (code, out) == (0, "begins-late: 1 message archived in 1 step\n")
    assert said[0].startswith(f"cannot connect to {stopped_broker.url}")
    assert said[0].endswith("; it is waited for")


def test_a_job_that_waits_for_its_broker_can_be_stopped(pipeline, stopped_broker, tmp_path, monkeypatch):
    said = []

    def say(line: str) -> None:
        if line == "starting Spark":
            return
        said.append(line)
        if len(said) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("miniqueue.tools.spark.pipeline._say", say)
    code, out, _ = pipeline("stats", "never-begins", "-every", 1, tmp_path / "figures")
    assert (code, out) == (130, "")
    assert [line.partition(";")[0] for line in said][1:] == ["interrupted"]


def test_what_waiting_for_a_broker_does_not_mend_is_raised_at_once(spark, shared_broker):
    other = spark.newSession()
    other.conf.set("spark.miniqueue.url", shared_broker.url.replace("//", "//no-such-user:secret@"))
    with pytest.raises(RefusedError):
        wait_for_broker(other, pytest.fail, lambda: False)


def test_a_certificate_that_is_not_trusted_ends_a_job_that_would_wait_for_its_broker(pipeline, authorities, tmp_path):
    ensure_certificates(*(tmp_path / name for name in NAMES), may_create=True, now=datetime.now(UTC))
    (tmp_path / "broker").mkdir()
    broker = RespBroker(tmp_path / "broker", "-resp-tls")
    try:
        address = ("-url", broker.url.replace("redis://127.0.0.1", "rediss://localhost"))
        for trust in ((), ("-ca-file", authorities)):
            code, out, err = pipeline("archive", "t", "-every", 1, *address, *trust, tmp_path / "archive")
            assert (code, out, "certificate verify failed" in err, "waited for" in err) == (69, "", True, False)
    finally:
        broker.end()


def test_authorities_that_are_none_end_a_job_that_would_wait_for_its_broker(pipeline, authorities):
    authorities.write_text("none")
    code, out, err = pipeline("stats", "t", "-every", 1, "-ca-file", authorities)
    assert (code, out, "ca.pem': no certificates can be read from it" in err) == (78, "", True)


def test_a_job_that_is_stopped_while_its_broker_does_not_answer_was_interrupted(pipeline, tmp_path, monkeypatch):
    def check_broker(_spark: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise ConnectError("cannot connect")

    monkeypatch.setattr(source, "check_broker", check_broker)
    code, out, err = pipeline("archive", "never-asked", tmp_path / "archive")
    assert (code, out, "interrupted; " in err) == (130, "", True)


@pytest.mark.parametrize("block_seconds", ["60", "inf"])
def test_a_frame_for_a_broker_that_does_not_answer_is_told_on_the_driver_before_it_waits(caplog, block_seconds):
    given = {"topic": "t", "url": "redis://ada:secret@127.0.0.1:1", "blockSeconds": block_seconds}
    source.MiniqueueSource(given).writer(FRAME, overwrite=False)
    [line] = caplog.messages
    told, _, cause = line.partition(": ")
    assert told == f"no broker for the driver; tasks that find none wait for {block_seconds} s"
    assert cause.startswith("cannot connect to redis://127.0.0.1:1: ")


def test_a_frame_for_a_broker_that_refuses_its_user_ends_before_any_task(shared_broker):
    url = shared_broker.url.replace("//", "//no-such-user:secret@")
    with pytest.raises(RefusedError, match="WRONGPASS"):
        source.MiniqueueSource({"topic": "t", "url": url}).writer(FRAME, overwrite=False)


def test_of_a_broker_that_answers_nothing_is_told(shared_broker, caplog):
    given = {"topic": "t", "url": shared_broker.url, "deduplicate": "false"}
    source.MiniqueueSource(given).writer(FRAME, overwrite=False)
    assert caplog.messages == []


def test_a_write_to_a_topic_that_forgets_ids_too_soon_warns(shared_broker, caplog):
    given = source.MiniqueueSource({"topic": "forgetful", "url": shared_broker.url})
    given.writer(FRAME, overwrite=False)
    for _ in range(3):
        given.streamWriter(FRAME, overwrite=False)  # Spark does it for each micro-batch
    assert len(caplog.messages) == 2
    assert all(line.startswith("the dedup window of forgetful is 120 s, too short for") for line in caplog.messages)
