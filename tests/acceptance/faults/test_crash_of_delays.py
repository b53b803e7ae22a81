"""kill -9 while delayed messages become due and schedules have ticks: each is there exactly once afterwards."""

import time
from contextlib import suppress

import pytest
import redis

from tests.acceptance import patient

pytestmark = pytest.mark.acceptance

KILLS = 4
MESSAGES = 300


def delay_until_killed(client: redis.Redis, first: int) -> list[int]:
    """Publish numbers, due within a second; return those that were acknowledged."""
    acknowledged = []
    with suppress(redis.ConnectionError):
        for start in range(first, first + MESSAGES, 50):
            numbers = range(start, start + 50)
            pipeline = client.pipeline(transaction=False)
            for number in numbers:
                pipeline.execute_command("PUB", "later", number, "DELAY", f"{number % 10 / 10 + 0.05:.2f}")
            pipeline.execute()
            acknowledged += numbers
    return acknowledged


def test_each_delayed_message_and_each_tick_is_there_exactly_once(start_broker):
    acknowledged: list[int] = []
    for round_number in range(KILLS):
        broker = start_broker("data", "-period", "50ms")
        client = patient.Redis(port=broker.resp_port)
        if not round_number:
            assert client.execute_command("SCHEDULE", "SET", "beat", "EVERY", "1", "beats", "x")
        acknowledged += delay_until_killed(client, round_number * MESSAGES)
        time.sleep(0.3 + round_number / 10)  # some are due by now, and some are not
        broker.kill()
    broker = start_broker("data", "-period", "50ms")
    client = patient.Redis(port=broker.resp_port)
    while client.execute_command("PEEK", "later", "STATE", "delayed", "COUNT", 1):
        time.sleep(0.05)
    found: list[int] = []
    after: tuple = ()
    while page := client.execute_command("PEEK", "later", "COUNT", 1000, *after):
        found += [int(payload) for _, payload, _ in page]
        after = "AFTER", page[-1][0]
    assert sorted(found) == sorted(acknowledged)
    client.execute_command("SCHEDULE", "DELETE", "beat")
    beats = client.execute_command("PEEK", "beats", "COUNT", 1000)
    ticks = [int(dict(told[b"headers"])[b"schedule-at-ms"]) for _, _, told in beats]
    assert len(ticks) >= 2
    assert ticks == list(range(ticks[0], ticks[0] + 1000 * len(ticks), 1000))
    broker.stop()
