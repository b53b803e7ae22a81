"""The steps of a measurement: threads that publish and consume, each on a connection of its own.

    number of messages left ─▶ thread: takes up to a pipeline ─▶ a round trip ─▶ its time ─▶ Samples

A step ends when the messages are used up or when its time is over. An error of one thread ends all, and is raised.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock
from typing import Final

from miniqueue.commands.measuring.samples import Samples
from miniqueue_client import Client, RefusedError
from miniqueue_client.calls import messages

#: Wait of the receive that a delivery interrupts, and how many messages the last step delivers at most.
_WAIT_SECONDS: Final = 10.0
MAX_DELIVERED: Final = 1000


@dataclass(frozen=True, slots=True)
class Load:
    """How to load the broker.

    Attributes:
      topic: the topic, which is used for nothing else.
      message_count: number of messages of a step.
      seconds: maximum time of a step.
      payload: the payload of each message.
      connections: number of connections.
      pipeline: number of messages of one round trip.
    """

    topic: str
    message_count: int
    seconds: float
    payload: bytes
    connections: int
    pipeline: int


class Bench:
    """A measurement of one broker.

    Args:
      client: a client of the broker that neither retries nor deduplicates; it has a connection for each thread.
      load: how to load the broker.
      clock: returns a time in seconds.
      advance: called with each number of messages that are done.
    """

    def __init__(self, client: Client, load: Load, clock: Callable[[], float], advance: Callable[[int], None]) -> None:
        self._client = client
        self._load = load
        self._clock = clock
        self._advance = advance
        self._is_over = Event()

    def stop(self) -> None:
        """End the current step after its round trips."""
        self._is_over.set()

    def publish(self) -> Samples:
        """Publish the messages; raises ClientError."""
        call = messages.publish(self._load.topic, self._load.payload)
        pipelines = [[call] * size for size in range(self._load.pipeline + 1)]

        def round_trip(count: int) -> int:
            for result in self._client.execute_all(pipelines[count]):
                if isinstance(result, RefusedError):
                    raise result
            return count

        return self._run("publish", self._load.message_count, round_trip)

    def consume(self, message_count: int) -> Samples:
        """Receive and acknowledge a number of messages; raises ClientError."""
        topic = self._load.topic

        def round_trip(count: int) -> int:
            received = self._client.receive(topic, count=count)
            if received:
                self._client.ack(topic, *received)
            return len(received)

        return self._run("consume", message_count, round_trip)

    def deliver(self) -> Samples:
        """Publish messages one at a time to a consumer that waits; raises ClientError."""
        samples, topic = Samples("deliver"), self._load.topic
        begun_at = self._clock()
        with ThreadPoolExecutor(1) as pool:
            while samples.message_count < min(self._load.message_count, MAX_DELIVERED) and not self._is_over.is_set():
                receipt = pool.submit(self._client.receive, topic, wait_seconds=_WAIT_SECONDS, autoack=True)
                published_at = self._clock()
                self._client.publish(topic, self._load.payload)
                received = receipt.result()
                samples.latencies.append(self._clock() - published_at)
                samples.message_count += len(received)
                samples.byte_count += sum(len(message.payload) for message in received)
                self._advance(1)
                if self._clock() - begun_at >= self._load.seconds:
                    break
        samples.seconds = self._clock() - begun_at
        return samples

    def _run(self, step: str, message_count: int, round_trip: Callable[[int], int]) -> Samples:
        """Make round trips in all threads; each returns the number of its messages, 0 at the end."""
        samples, remaining, lock = Samples(step), message_count, Lock()
        begun_at = self._clock()

        def take() -> int:
            nonlocal remaining
            with lock:
                count = min(self._load.pipeline, remaining)
                remaining -= count
            return count

        def work() -> None:
            nonlocal remaining
            while not self._is_over.is_set() and self._clock() - begun_at < self._load.seconds and (count := take()):
                started_at = self._clock()
                done = round_trip(count)
                seconds = self._clock() - started_at
                if not done:
                    return
                with lock:
                    remaining += count - done  # a receive returns fewer messages if they are large
                    samples.latencies.append(seconds)
                    samples.message_count += done
                    samples.byte_count += done * len(self._load.payload)
                    self._advance(done)

        self._in_threads(work)
        samples.seconds = self._clock() - begun_at
        return samples

    def _in_threads(self, work: Callable[[], None]) -> None:
        with ThreadPoolExecutor(self._load.connections) as pool:
            running = [pool.submit(work) for _ in range(self._load.connections)]
            try:
                for thread in running:
                    thread.result()
            except BaseException:  # a thread failed, or a signal came; the end of the block waits for the other threads
                self.stop()
                raise
