"""Every example runs against a real broker, does what its docstring says, and ends when asked to."""

import importlib.util
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.example import EXAMPLES, RUN_SECONDS, Example
from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess, Trust, python_path

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]


Run = Callable[..., Example]


@pytest.fixture
def run() -> Iterator[Run]:
    """Start examples; whatever still runs at the end is killed."""
    with ExitStack() as started:

        def start(name: str, *options: str) -> Example:
            example = Example(name, *options)
            started.callback(example.stop)
            return example

        yield start


@pytest.fixture
def https(broker: BrokerProcess, trust: Trust) -> list[str]:
    return ["--port", str(broker.https_port), "--cafile", trust.ca]


@pytest.fixture
def resp(broker: BrokerProcess) -> list[str]:
    return ["--port", str(broker.resp_port)]


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[redis.Redis]:
    with patient.Redis(port=broker.resp_port) as client:
        yield client


@pytest.fixture
def without_spark(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process that finds no pyspark."""
    (tmp_path / "pyspark.py").write_text('raise ImportError("not installed")')
    return {**os.environ, "PYTHONPATH": python_path(tmp_path)}


def counts(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    topics: dict[str, dict[str, Any]] = json.loads(broker.monitor("/stats"))["topics"]
    return topics[topic]


def wait_until_all_acknowledged(broker: BrokerProcess, topic: str, count: int) -> None:
    """Ask until it is so: what a consumer has printed may not have been acknowledged yet."""
    ends_at = monotonic() + RUN_SECONDS
    while (now := counts(broker, topic))["acknowledged"] < count:
        assert monotonic() < ends_at, now
    assert now["acknowledged"] == now["published"] == count


def consume(broker: BrokerProcess, topic: str, count: int) -> list[bytes]:
    connection = patient.Connection(port=broker.resp_port, socket_timeout=RUN_SECONDS)
    connection.send_command("SUBSCRIBE", topic)
    messages = []
    for _ in range(count):
        messages.append(connection.read_response())
        connection.send_command("ACK")
        assert connection.read_response() == b"OK"
    connection.disconnect()
    return messages


def test_echo_prints_what_it_is_given(run, https, broker, topic):
    example = run("echo.py", *https, "--topic", topic)
    example.process.stdin.write("one\nzwölf\n\nlast without its newline")
    assert example.end(code=0) == "one\nzwölf\n\nlast without its newline\n"
    wait_until_all_acknowledged(broker, topic, 4)


def test_echo_ends_when_interrupted_while_it_waits_for_input(run, https, topic):
    example = run("echo.py", *https, "--topic", topic)
    example.process.stdin.write("one\n")
    example.process.stdin.flush()
    example.wait_for("one")
    example.interrupt()


def test_workers_do_every_job_although_some_fail(run, resp, client, broker, topic):
    for number in range(40):
        client.execute_command("PUBLISH", topic, f"job {number}")
    example = run("workers.py", *resp, "--topic", topic, "--failure-rate", "0.3")
    done = example.wait_for("did job", 40)
    wait_until_all_acknowledged(broker, topic, 40)
    assert {line.partition(": did ")[2] for line in done} == {f"job {number}" for number in range(40)}
    example.interrupt()


def test_workers_come_back_when_the_broker_does(run, trust, tmp_path):
    with ExitStack() as started:

        def start(*ports: str) -> BrokerProcess:
            broker = BrokerProcess([*ports, *trust.flags], cwd=tmp_path)
            started.callback(broker.end)
            return broker.wait_until_ready()

        ports = ("-port", "0", "-monitor-port", "0", "-resp-port", str(port_of(started.enter_context(hold_port()))))
        broker = start(*ports)
        example = run("workers.py", "--port", str(broker.resp_port), "--topic", "jobs")
        patient.Redis(port=broker.resp_port).execute_command("PUBLISH", "jobs", "before")
        example.wait_for("did before")
        broker.kill()
        example.wait_for("again in", 4)
        broker = start(*ports)
        patient.Redis(port=broker.resp_port).execute_command("PUBLISH", "jobs", "after")
        example.wait_for("did after")
        example.interrupt()
        broker.stop()


def test_backoff_doubles_the_delay_and_gives_up_in_the_end(run, https, client, broker, topic):
    example = run("exponential_backoff.py", *https, "--topic", topic, "--first-delay", "0.01", "--max-attempts", "4")
    client.execute_command("PUBLISH", topic, "2")
    assert example.wait_for("^2: ", 3) == [
        "2: failed 1 times: again in 0.01 s",
        "2: failed 2 times: again in 0.02 s",
        "2: done",
    ]
    client.execute_command("PUBLISH", topic, "9")
    assert example.wait_for("^9: ", 4)[2:] == [
        "9: failed 3 times: again in 0.04 s",
        "9: failed 4 times: given up",
    ]
    wait_until_all_acknowledged(broker, topic, 2)
    assert consume(broker, f"{topic}-failed", 1) == [b"9"]
    example.interrupt()


def test_the_benchmark_consumes_all_that_it_published(run, resp, broker, topic):
    example = run("consume_benchmark.py", *resp, "--topic", topic, "--messages", "1500", "--connections", "3")
    assert re.fullmatch(r"1500 messages in [\d.]+ s: [\d,]+ a second\n", example.end(code=0))
    wait_until_all_acknowledged(broker, topic, 1500)


def test_the_h2_consumer_prints_and_acknowledges(run, https, client, broker, topic):
    example = run("h2_consumer.py", *https, "--topic", topic)
    messages = ["one", "zwölf", "x" * 200_000, ""]  # the third is more than the windows of stream and connection
    for message in messages:
        client.execute_command("PUBLISH", topic, message)
    assert example.wait_for("", len(messages)) == messages
    wait_until_all_acknowledged(broker, topic, len(messages))
    example.interrupt()


def test_the_h2_consumer_says_why_it_was_refused(run, https):
    example = run("h2_consumer.py", *https, "--topic", "two words")
    example.end(code=1)


def test_publish_prints_the_id_of_each_line(run, resp, client, topic):
    example = run("publish.py", *resp, "--topic", topic, "--header", "source=shell", "--key", "k")
    example.process.stdin.write("one\nzwölf\n")
    assert example.end(code=0) == "0-0\n0-1\n"
    first, second = client.execute_command("RECEIVE", topic, "COUNT", "2")
    assert (first[1], second[1].decode()) == (b"one", "zwölf")
    assert first[2][b"headers"] == [[b"source", b"shell"]]


def test_replay_prints_what_was_acknowledged_and_what_was_not(run, resp, client, broker, topic):
    client.execute_command("TOPIC", "CREATE", topic, "retention_seconds", 3600)
    messages = [f"message {number}" for number in range(2500)]
    client.execute_command("MPUBLISH", topic, *messages)
    assert consume(broker, topic, 2) == [b"message 0", b"message 1"]
    example = run("replay.py", *resp, "--topic", topic, "--hours", "1")
    assert example.end(code=0) == "".join(f"0-{number} {message}\n" for number, message in enumerate(messages))
    assert counts(broker, topic)["ready"] == 2498


def test_fan_out_gives_each_group_everything_and_repeats_what_failed_to_one_of_them(run, resp, topic):
    lines = run("fan_out.py", *resp, "--topic", topic, "--orders", "3").end(code=0).splitlines()
    assert [line for line in lines if line.startswith("mail")] == [f"mail: order {n}, delivery 1" for n in range(3)]
    assert [line for line in lines if line.startswith("billing")] == [
        "billing: order 0, delivery 1",
        "billing: order 1 failed",
        "billing: order 1, delivery 2",
        "billing: order 2, delivery 1",
    ]


def test_keyed_workers_do_the_changes_of_an_account_in_order_although_some_fail(run, resp, topic):
    options = ("--accounts", "3", "--changes", "5", "--workers", "4", "--failure-rate", "0.2")
    lines = run("keyed_workers.py", *resp, "--topic", topic, *options).end(code=0).splitlines()
    for account in range(3):
        own = [line for line in lines if line.startswith(f"account {account}:")]
        assert own == [f"account {account}: change {number}" for number in range(5)]


def test_who_asks_gets_the_reply_or_is_told_that_there_is_none(run, resp, topic):
    answering = run("request_reply.py", *resp, "--topic", topic, "--answer")
    asking = run("request_reply.py", *resp, "--topic", topic, "--timeout", str(RUN_SECONDS), "3", "4")
    assert asking.end(code=0) == "3: 9.0\n4: 16.0\n"
    asking = run("request_reply.py", *resp, "--topic", topic, "--timeout", "0.3", "nonsense")
    assert asking.end(code=0) == "nonsense: no reply\n"
    answering.process.send_signal(signal.SIGTERM)
    answering.end(code=0)


def test_dead_letters_are_shown_and_moved_back(run, resp, client, topic):
    client.execute_command("MPUBLISH", topic, "sound", "broken")
    (sound, *_), (broken, *_) = client.execute_command("RECEIVE", topic, "COUNT", 2)
    client.execute_command("ACK", topic, sound)
    client.execute_command("REJECT", topic, broken, "no such account")
    line = "0-1 broken: no such account; it had come back 0 times\n"
    assert run("dead_letters.py", *resp, "--topic", topic).end(code=0) == line
    assert run("dead_letters.py", *resp, "--topic", topic, "--redrive").end(code=0) == line + "1 moved back\n"
    assert run("dead_letters.py", *resp, "--topic", topic).end(code=0) == ""
    assert client.execute_command("LEN", topic) == 1


def test_orders_that_do_not_fit_their_schema_are_refused(run, resp, client, topic):
    sound, broken = '{"id":1,"items":[{"price":5}]}', '{"id":2,"items":[{"price":5},{"price":"free"}]}'
    told = run("schemas.py", *resp, "--topic", topic, sound, broken).end(code=1)
    assert told == '0-0\nrefused: /items/1/price: the value is not of type "number"\n'
    assert run("schemas.py", *resp, "--topic", topic, sound).end(code=0) == "0-1\n"
    assert client.execute_command("LEN", topic) == 2


def test_schedules_are_set_listed_and_ended(run, resp, client, topic):
    set_cron = run(
        "schedules.py", *resp, "--name", "a", "--cron", "0 7 * * MON-FRI", "--zone", "Europe/Berlin", "report"
    )
    assert re.fullmatch(r"a: 0 7 \* \* MON-FRI Europe/Berlin, to jobs, next at .* UTC\n", set_cron.end(code=0))
    set_every = run("schedules.py", *resp, "--topic", topic, "--name", "b", "--every", "1", "beat")
    assert f"b: every 1 s, to {topic}, next at " in set_every.end(code=0)
    assert client.execute_command("RECEIVE", topic, "WAIT", RUN_SECONDS)[0][1] == b"beat"
    left = run("schedules.py", *resp, "--name", "b", "--delete").end(code=0)
    assert left.startswith("a: ")
    assert run("schedules.py", *resp, "--name", "a", "--delete").end(code=0) == ""


@pytest.mark.parametrize("name", ["worker.py", "async_worker.py"])
def test_a_worker_does_jobs_gives_up_what_is_none_and_stops_when_asked(run, resp, client, topic, name):
    for job in ("0.01", "0.02", "nonsense", "0.03"):
        client.execute_command("PUBLISH", topic, job)
    example = run(name, *resp, "--topic", topic)
    assert len(example.wait_for("^did", 3)) == 3
    example.process.send_signal(signal.SIGTERM)
    example.end(code=0)
    assert client.execute_command("LEN", topic) == 0
    assert client.execute_command("LEN", f"{topic}.dlq") == 1


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
def test_spark_publishes_every_row_once(run, resp, broker, topic):
    example = run("spark_publish.py", *resp, "--topic", topic, "--rows", "12000")
    example._limit.cancel()  # a Java process has to start; the test's own limit counts
    assert f"published 12000 rows to {topic}\n" in example.end(code=0)
    assert counts(broker, topic)["published"] == 12000
    rows = [json.loads(message) for message in consume(broker, topic, 12000)]
    assert sorted(row["id"] for row in rows) == list(range(12000))
    assert all(row["square"] == row["id"] ** 2 for row in rows)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_explains_itself_and_is_tested_and_in_the_readme(path, monkeypatch, capsys):
    """Also without pyspark; in this process, since another one takes longer than all else."""
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0
    assert "--host" in capsys.readouterr().out
    assert f'"{path.name}"' in Path(__file__).read_text()
    assert f"(examples/{path.name})" in (EXAMPLES.parent / "README.md").read_text()


def test_the_spark_example_without_spark_says_what_to_install(without_spark):
    run = [sys.executable, EXAMPLES / "spark_publish.py"]
    ran = subprocess.run(run, env=without_spark, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "pyspark is not installed; run make install EXTRAS=dev,client,spark\n")
