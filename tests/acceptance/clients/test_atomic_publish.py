"""kill -9 in the middle: of an MPUBLISH all is there or nothing, of JSON lines whole ones, with all their options."""

import asyncio
import itertools
import threading

import orjson
import pytest
import redis

from miniqueue_client import DisconnectedError, connect
from tests.acceptance import patient
from tests.acceptance.counts import counts
from tests.serving import NDJSON

pytestmark = pytest.mark.acceptance

TOGETHER = 150
PADDING = "x" * 8000  # so many of these are cut into two chunks


def publish_together(port: int, topic: str, has_many: threading.Event, confirmed: list[int]) -> None:
    """Publish many at a time until the broker dies."""
    with patient.Redis(port=port) as client:
        for first in itertools.count(0, TOGETHER):
            try:
                client.execute_command("MPUBLISH", topic, *[f"{n} {PADDING}" for n in range(first, first + TOGETHER)])
            except redis.RedisError:
                return
            confirmed.append(first)
            if len(confirmed) >= 5:
                has_many.set()


def received(port: int, topic: str) -> list[tuple[bytes, dict[bytes, object]]]:
    """Take everything; return payloads and attributes."""
    messages = []
    with patient.Redis(port=port, protocol=3) as client:
        while part := client.execute_command("RECEIVE", topic, "COUNT", 1000, "AUTOACK"):
            messages += [(payload, words) for _, payload, words in part]
    return messages


def test_of_what_is_published_together_all_is_there_or_nothing(start_broker):
    broker = start_broker()
    for attempt in range(2):
        has_many, confirmed = threading.Event(), []
        publisher = threading.Thread(
            target=publish_together, args=(broker.resp_port, f"t{attempt}", has_many, confirmed)
        )
        publisher.start()
        assert has_many.wait(60)
        broker.kill()
        publisher.join()
        broker = start_broker()
        numbers = [int(payload.split()[0]) for payload, _ in received(broker.resp_port, f"t{attempt}")]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) % TOGETHER == 0
        assert len(numbers) - TOGETHER <= len(confirmed) * TOGETHER <= len(numbers)
    broker.stop()


async def publish_lines(port: int, cafile: str, has_many: threading.Event) -> list[str]:
    """Publish lines on one request until the broker dies; return the ids that came."""
    answers = b""
    async with await connect("localhost", port, cafile=cafile) as client:
        stream = await client._begin(b"POST", b"/publish/t", NDJSON)
        try:
            for first in itertools.count(0, 50):
                lines = [
                    orjson.dumps({"msg": "eA==", "key": f"{n}", "headers": {"number": f"{n}"}})
                    for n in range(first, first + 50)
                ]
                stream.write(b"\n".join(lines) + b"\n")
                answers += await stream.read()
                if answers.count(b"\n") > 1000:
                    has_many.set()
        except DisconnectedError:
            return [orjson.loads(line)["id"] for line in answers.splitlines(keepends=True) if line.endswith(b"\n")]
    raise AssertionError


def test_of_lines_whole_ones_are_there_with_their_options(start_broker, trust):
    broker = start_broker()
    has_many, ids = threading.Event(), []
    publisher = threading.Thread(
        target=lambda: ids.extend(asyncio.run(publish_lines(broker.https_port, trust.ca, has_many)))
    )
    publisher.start()
    assert has_many.wait(60)
    broker.kill()
    publisher.join()
    broker = start_broker()
    assert counts(broker, "t")["ready"] >= len(ids) > 1000
    given = [words for _, words in received(broker.resp_port, "t")]
    assert [int(words[b"key"]) for words in given] == list(range(len(given)))
    assert all(words[b"headers"] == [[b"number", words[b"key"]]] for words in given)
    broker.stop()
