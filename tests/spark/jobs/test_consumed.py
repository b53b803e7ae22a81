"""How long messages waited is asked of the broker, as far as it knows."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from miniqueue.spark.jobs.figures import percentiles
from miniqueue.spark.jobs.waits import Waits
from miniqueue_client import Client, RefusedError
from tests.client.broker import RespBroker


def seen(topic: str, message_id: str) -> SimpleNamespace:
    return SimpleNamespace(topic=topic, id=message_id, published_at=datetime.now(UTC))


def test_what_was_acknowledged_has_waited_and_what_is_not_traced_is_not_told(tmp_path):
    broker = RespBroker(tmp_path)
    try:
        with Client(broker.url) as client:
            client.create_topic("traced", retention="forever", trace=True)
            for topic in ("traced", "other"):
                client.publish_many(topic, ["a", "b"])
                client.ack(topic, *client.receive(topic))
            client.reject("traced", *client.receive("traced"), reason="no")
            places = ["traced 0-0", "traced 0-0", "traced 0-1", "other 0-0", "gone 0-0"]
            waits = Waits(client).of(seen(*place.split()) for place in places)
            assert len(waits) == 1
            assert 0 <= waits[0] < 60_000
            assert Waits(client).of([]) == []
            with pytest.raises(RefusedError):
                Waits(client).of([seen("no topic", "0-0")])
    finally:
        broker.end()


def test_percentiles_are_of_messages_that_were_there():
    assert percentiles([]) == (0, None, None)
    assert percentiles([7]) == (1, 7, 7)
    assert percentiles([4, 2, 3, 1]) == (4, 2, 4)
    assert percentiles(range(1, 201)) == (200, 100, 198)
