"""The steps of `miniqueue bench`, with a clock of the test."""

from dataclasses import replace
from itertools import count

import pytest

from miniqueue.commands.measuring.steps import Bench, Load
from miniqueue_client import RefusedError


@pytest.fixture
def load():
    return Load("bench", 25, 1000.0, b"12345", 2, 10)


def ticking():
    moments = count()
    return lambda: float(next(moments))


def test_all_messages_are_published_consumed_and_delivered(client, load):
    progress = []
    bench = Bench(client, load, ticking(), progress.append)
    published = bench.publish()
    assert (published.message_count, published.byte_count, len(published.latencies)) == (25, 125, 3)
    assert client.length("bench") == 25
    assert bench.consume(25).message_count == 25
    assert client.length("bench") == 0
    delivered = bench.deliver()
    assert (delivered.message_count, delivered.byte_count, len(delivered.latencies)) == (25, 125, 25)
    assert sum(progress) == 75


def test_large_messages_are_all_consumed_though_a_receive_returns_fewer_than_a_pipeline(client, load):
    bench = Bench(client, replace(load, payload=bytes(600_000), connections=1), ticking(), str)
    bench.publish()
    consumed = bench.consume(25)
    assert consumed.message_count == 25
    assert len(consumed.latencies) > 3
    assert client.length("bench") == 0


def test_a_step_ends_when_its_time_is_over(client, load):
    bench = Bench(client, replace(load, seconds=3.0), ticking(), str)
    assert bench.publish().message_count < 25
    assert bench.deliver().message_count < 25


def test_a_step_that_was_stopped_ends(client, load):
    bench = Bench(client, load, ticking(), str)
    bench.stop()
    assert bench.publish().message_count == 0
    assert bench.deliver().message_count == 0


def test_an_error_ends_all_threads_and_is_raised(client, load):
    client.create_topic("bench", max_messages=12)
    bench = Bench(client, load, ticking(), str)
    with pytest.raises(RefusedError, match="LIMIT"):
        bench.publish()


def test_consuming_ends_when_nothing_is_left(client, load):
    assert Bench(client, load, ticking(), str).consume(25).message_count == 0
