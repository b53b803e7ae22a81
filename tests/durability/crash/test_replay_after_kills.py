"""A log that is kept, over kills in the middle of publishing, consuming and giving back: all of it can be read again.

publish ─▶ acknowledge ─▶ given back with every tick ─▶ kill -9 ─▶ start ─▶ read from the earliest to the end
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust, run_to_end

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]

TOPIC = "letters"
KILLS = 5
BATCH = 100
#: Of which a few commits' worth is kept, so that there is always something to give back.
RETENTION_BYTES = 50_000
LOAD_SECONDS = 0.4
#: More than is kept, also where a machine has hardly time for it.
MIN_BATCHES = 8


def payload(number: int) -> bytes:
    return b"message %d " % number + b"." * 80


def page_of(client: "redis.Redis", offset: int) -> dict[bytes, object]:
    answer = client.execute_command("READ", TOPIC, 0, offset, "COUNT", 10_000)
    return dict(zip(answer[::2], answer[1::2], strict=True))


def log_of(client: "redis.Redis") -> tuple[int, int]:
    """Read all that there is, message by message; return where it begins and ends.

    Meanwhile a tick may give more back: a page then begins where the log does, and says what was missed.
    """
    first = page_of(client, 0)
    earliest, end, offset = first[b"earliest"], first[b"end"], 0
    while offset < end:
        page = page_of(client, offset) if offset else first
        assert page[b"missed"] == max(0, page[b"earliest"] - offset)
        offset += page[b"missed"]
        for message_id, content, _attributes in page[b"messages"]:
            assert message_id == b"0-%d" % offset
            assert content == payload(offset)
            offset += 1
        assert offset == page[b"next"]
    return earliest, end


def work(client: "redis.Redis", first: int) -> Iterator[int]:
    """Publish and acknowledge; yield how many messages were acknowledged to the publisher by then."""
    for start in count(first, BATCH):
        ids = client.execute_command("MPUBLISH", TOPIC, *map(payload, range(start, start + BATCH)))
        assert ids[0] == b"0-%d" % start
        yield start + BATCH
        client.execute_command("RECEIVE", TOPIC, "COUNT", BATCH, "AUTOACK")
        if start % (7 * BATCH) == 0:
            client.execute_command("RECEIVE", TOPIC, "COUNT", 3, "LEASE", 0.05)


def test_what_is_kept_can_be_read_after_every_kill(trust: Trust, tmp_path: Path) -> None:
    published = earliest = 0
    for _ in range(KILLS):
        broker = BrokerProcess([*FREE_PORTS, *trust.flags, "-period", "20ms"], cwd=tmp_path).wait_until_ready()
        try:
            client = patient.Redis(port=broker.resp_port, protocol=2)
            if not published:
                client.execute_command("TOPIC", "CREATE", TOPIC, "retention_bytes", RETENTION_BYTES)
            start, end = log_of(client)
            assert start >= earliest
            assert published <= end
            earliest, ends_at, working = start, monotonic() + LOAD_SECONDS, work(client, end)
            while monotonic() < ends_at or published < end + MIN_BATCHES * BATCH:
                published = next(working)
            broker.kill()
            client.close()
        finally:
            broker.end()
    assert earliest > 0, "nothing was given back"
    checked = run_to_end("check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
