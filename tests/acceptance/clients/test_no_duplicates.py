"""kill -9 in the middle of publishes that are sent again until they are confirmed: each message is there once."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
import redis

from tests.acceptance import patient

pytestmark = pytest.mark.acceptance

TOGETHER = 20
RETRY_SECONDS = 0.02


class StubbornPublisher(threading.Thread):
    """Publishes one thing after the other; what is not confirmed is sent again, to whatever broker there is.

    Attributes:
      port: the port of the current broker.
      confirmed: number of confirmed publishes.
    """

    def __init__(self, port: int, words: Callable[[int], tuple[object, ...]]) -> None:
        super().__init__()
        self.port = port
        self.confirmed = 0
        self.is_enough = threading.Event()
        self._words = words

    def run(self) -> None:
        is_over = False
        while not is_over:
            with suppress(redis.RedisError), patient.Redis(port=self.port) as client:
                is_over = self._publish(client)
            time.sleep(RETRY_SECONDS)  # the broker was killed, and starts again

    def _publish(self, client: redis.Redis) -> bool:
        """Publish until something is not confirmed, or what was begun is confirmed and it is enough."""
        while True:
            client.execute_command(*self._words(self.confirmed))
            self.confirmed += 1
            if self.is_enough.is_set():
                return True


def one_with_an_id(number: int) -> tuple[object, ...]:
    return "PUB", "t", f"{number}", "DEDUP", f"id{number}"


def one_with_a_key(number: int) -> tuple[object, ...]:
    return "PUB", "t", f"{number}", "UNIQUE", f"key{number}"


def a_batch(number: int) -> tuple[object, ...]:
    first = number * TOGETHER
    return "PUBBATCH", "t", f"id{number}", *(f"{n}" for n in range(first, first + TOGETHER))


@pytest.mark.parametrize(("words", "count"), [(one_with_an_id, 1), (one_with_a_key, 1), (a_batch, TOGETHER)])
def test_what_is_sent_again_is_there_once_through_kills(start_broker, words, count):
    broker = start_broker()
    publisher = StubbornPublisher(broker.resp_port, words)
    publisher.start()
    try:
        for _ in range(3):
            wanted = publisher.confirmed + 50
            while publisher.confirmed < wanted:
                time.sleep(0.01)
            broker.kill()
            broker = start_broker()
            publisher.port = broker.resp_port
    finally:
        publisher.is_enough.set()
        publisher.join()
    with patient.Redis(port=broker.resp_port) as client:
        payloads = []
        while part := client.execute_command("RECEIVE", "t", "COUNT", 1000, "AUTOACK"):
            payloads += [int(payload) for _, payload, _ in part]
    assert payloads == list(range(publisher.confirmed * count))
    broker.stop()
