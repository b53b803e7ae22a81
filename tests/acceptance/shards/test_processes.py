"""The processes of a broker with shards: killed, suspended, stopped, and started on a wrong store."""

import os
import signal
import time

import pytest
import redis

from tests.acceptance.process import FREE_PORTS, BrokerProcess, run_to_end
from tests.acceptance.shards.conftest import SHARDS, ShardedBroker, topic_in

pytestmark = pytest.mark.acceptance

#: Far longer than a shard takes to start, on a machine that does nothing else.
LIMIT_SECONDS = 60


def client_of(broker: BrokerProcess) -> redis.Redis:
    return redis.Redis(port=broker.resp_port, decode_responses=True, socket_timeout=LIMIT_SECONDS)


def publish_until_stored(broker: BrokerProcess, topic: str, payload: str, *options: str) -> list[str]:
    """Publish a message until its shard accepts it; return the codes of the errors before."""
    errors: list[str] = []
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        try:
            client_of(broker).execute_command("PUB", topic, payload, "DEDUP", payload, *options)
        except redis.ResponseError as exc:
            errors.append(code_of(exc))
            time.sleep(0.05)
        else:
            return errors
    raise AssertionError(f"{topic} was not stored:\n{broker.output}")


def receive_until_answered(broker: BrokerProcess, topic: str) -> list[str]:
    """Return the payloads that a topic has, as soon as the process that is asked knows that its shard answers again."""
    until = time.monotonic() + LIMIT_SECONDS
    while True:
        try:
            received = client_of(broker).execute_command("RECEIVE", topic, "COUNT", 10)
        except redis.exceptions.TryAgainError:
            assert time.monotonic() < until, broker.output
            time.sleep(0.05)
        else:
            return [payload for _, payload, *_ in received]


def test_a_shard_that_is_killed_comes_back_and_the_others_go_on(sharded):
    topics = [topic_in(number, "killed-") for number in range(SHARDS)]
    for topic in topics:
        client_of(sharded).execute_command("PUB", topic, "before")
    os.kill(sharded.shard(1), signal.SIGKILL)
    for topic in (topics[0], topics[2]):
        assert publish_until_stored(sharded, topic, "meanwhile") == []
    assert set(publish_until_stored(sharded, topics[1], "after")) <= {"UNKNOWN", "TRYAGAIN"}
    assert receive_until_answered(sharded, topics[1]) == ["before", "after"]
    sharded.wait_for_line("a shard ended and is started again")


def test_a_suspended_shard_answers_tryagain_within_five_seconds_and_comes_back(sharded):
    topics = [topic_in(number, "suspended-") for number in range(SHARDS)]
    with sharded.stopped(2):
        for _ in range(8):  # what connects now is accepted by another process
            client = client_of(sharded)
            begun_at = time.monotonic()
            with pytest.raises(redis.ResponseError) as refused:
                client.execute_command("PUB", topics[2], "x")
            assert code_of(refused.value) in ("TRYAGAIN", "UNKNOWN")
            assert time.monotonic() - begun_at < LIMIT_SECONDS
            assert client.execute_command("PUB", topics[0], "y")
    publish_until_stored(sharded, topics[2], "after")


def code_of(error: redis.ResponseError) -> str:
    """Return the code of an error; redis-py has a class for one of them, and drops its code."""
    return "TRYAGAIN" if isinstance(error, redis.exceptions.TryAgainError) else str(error).split()[0]


def test_messages_are_there_after_a_stop_and_after_a_kill(directory):
    topics = [topic_in(number, "kept-") for number in range(SHARDS)]
    for end in ("stop", "kill"):
        broker = ShardedBroker(directory)
        try:
            broker.wait_until_ready()
            for topic in topics:
                client_of(broker).execute_command("PUB", topic, end)
            getattr(broker, end)()
        finally:
            broker.end()
    broker = ShardedBroker(directory)
    try:
        broker.wait_until_ready()
        for topic in topics:
            received = client_of(broker).execute_command("RECEIVE", topic, "COUNT", 10)
            assert [payload for _, payload, *_ in received] == ["stop", "kill"]
    finally:
        broker.end()


def test_the_log_names_the_shard(sharded):
    lines = [line for line in sharded.output.splitlines() if "the shard is ready" in line]
    assert len(lines) >= SHARDS
    assert all('"shard":' in line for line in lines)


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (["-shards", "3"], ["-shards", "2"], "use -shards 3, or change the number with miniqueue reshard"),
        (["-shards", "3"], [], "use -shards 3, or change the number with miniqueue reshard"),
        ([], ["-shards", "3"], "start without -shards, or change the number with miniqueue reshard"),
    ],
    ids=["another number", "none", "a store of one process"],
)
def test_a_store_with_another_number_of_shards_is_refused(directory, first, second, problem):
    store = ("-db", str(directory / "store"))
    broker = BrokerProcess([*FREE_PORTS, *store, *first], cwd=directory)
    try:
        broker.wait_until_ready()
        broker.stop()
    finally:
        broker.end()
    before = sorted(path for path in (directory / "store").rglob("*"))
    broker = BrokerProcess([*FREE_PORTS, *store, *second], cwd=directory)
    try:
        assert broker.wait() == 78
        assert problem in broker.output
    finally:
        broker.end()
    assert sorted(path for path in (directory / "store").rglob("*")) == before


def test_a_backup_and_an_export_of_a_running_broker_have_all_shards(sharded, directory):
    topics = [topic_in(number, "copied-") for number in range(SHARDS)]
    for topic in topics:
        client_of(sharded).execute_command("PUB", topic, topic)
    source = ("-monitor-port", str(sharded.monitor_port))
    assert run_to_end("backup", *source, "copy", cwd=directory).stdout.endswith(f"in {SHARDS} shards\n")
    assert run_to_end("restore", "-db", "store", "copy", cwd=directory).returncode == 0
    exported = run_to_end("export", *source, *topics, cwd=directory)
    assert [f'"text":"{topic}"' in exported.stdout for topic in topics] == [True] * SHARDS
    assert run_to_end("export", "-db", "store", *topics, cwd=directory).stdout == exported.stdout
    broker = ShardedBroker(directory)
    try:
        broker.wait_until_ready()
        for topic in topics:
            [[_, payload, *_]] = client_of(broker).execute_command("RECEIVE", topic)
            assert payload == topic
    finally:
        broker.end()


def test_a_second_broker_on_the_same_store_ends_with_73(sharded):
    database = sharded.process.args[sharded.process.args.index("-db") + 1]
    broker = BrokerProcess([*FREE_PORTS, "-db", database, "-shards", str(SHARDS)], cwd="/")
    try:
        assert broker.wait() == 73
    finally:
        broker.end()
    assert client_of(sharded).ping()


def test_a_stop_waits_for_what_consumers_hold_in_any_shard(directory):
    topic = topic_in(0, "held-")
    broker = ShardedBroker(directory, "-settle-time", f"{LIMIT_SECONDS}s")
    try:
        broker.wait_until_ready()
        clients = [client_of(broker) for _ in range(8)]  # at the doors of several processes
        receipts = []
        for client in clients:
            client.execute_command("PUB", topic, "x")
            [[receipt, *_]] = client.execute_command("RECEIVE", topic)
            receipts.append(receipt)
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_for_line("waiting for what consumers hold")
        for client, receipt in zip(clients, receipts, strict=True):
            assert client.execute_command("ACK", topic, receipt) == "OK"
        assert broker.wait() == 0
    finally:
        broker.end()
