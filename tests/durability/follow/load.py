"""Clients of a broker that is killed again and again: what was published, and when it was confirmed."""

import threading
import time
from abc import ABC, abstractmethod

import redis

from tests.acceptance import patient

#: Number of messages of 1 KiB that are published together, as ballast.
BALLAST_COUNT = 50


class Client(threading.Thread, ABC):
    """Repeats an act on a connection of its own until `stop` is called; a subclass defines the act."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._is_stopped = threading.Event()

    def run(self) -> None:
        while not self._is_stopped.is_set():
            try:
                with patient.Redis(port=self._port) as client:
                    while not self._is_stopped.is_set():
                        self.act(client)
            except (redis.RedisError, OSError):
                self._is_stopped.wait(0.05)

    def stop(self) -> None:
        self._is_stopped.set()
        self.join()

    @abstractmethod
    def act(self, client: redis.Redis) -> None:
        """Do what is repeated; errors of redis are ignored."""


class Publisher(Client):
    """Publishes numbers, each once, and notes when each was confirmed; a number that failed is not repeated."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port)
        self.topic = topic
        self.tried_count = 0
        self.confirmed: dict[int, float] = {}

    def act(self, client: redis.Redis) -> None:
        number = self.tried_count
        self.tried_count += 1
        client.execute_command("PUBLISH", self.topic, number)
        self.confirmed[number] = time.time()


class Ballast(Client):
    """Publishes and drains a topic, so that the store is busy, but does not grow."""

    def act(self, client: redis.Redis) -> None:
        client.execute_command("MPUBLISH", "ballast", *[bytes(1024)] * BALLAST_COUNT)
        client.execute_command("RECEIVE", "ballast", "COUNT", 2 * BALLAST_COUNT, "AUTOACK")
