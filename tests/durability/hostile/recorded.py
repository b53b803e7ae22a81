"""An innocent producer and an innocent consumer whose history is recorded, so that a loss is found."""

import asyncio
import time
from collections import deque
from contextlib import suppress

import hiredis

from tests.durability.clients.consumers import marks_of
from tests.durability.clients.events import Act, Drained
from tests.durability.clients.messages import payload_of
from tests.durability.clients.publishers import REFUSALS
from tests.durability.clients.recorder import Recorder
from tests.durability.hostile.innocent import signed_in

TOPIC = "recorded"
PREFETCH = 100
#: Between two publishes: 100 a second are enough to lose one, and leave the processor to the broker.
PAUSE_SECONDS = 0.01
#: How long the last messages may take.
PATIENCE_SECONDS = 60.0
#: Errors after which nothing was published.
REFUSED = (*REFUSALS, "LIMIT")


class Recorded:
    """A producer and a consumer of one topic.

    Attributes:
      took_seconds: how long each publish took, since it was last emptied.
      refused_count: number of publishes that the broker refused.
    """

    def __init__(self, recorder: Recorder, port: int, token: str) -> None:
        self.took_seconds: list[float] = []
        self.refused_count = 0
        self._recorder = recorder
        self._port = port
        self._token = token
        self._outstanding: set[int] = set()  # ids that were confirmed or delivered, and not yet both
        self._asked: deque[int] = deque()
        self._is_over = False

    async def work(self) -> None:
        """Publish until `finish`, and consume everything; raises what a client could not go on for."""
        consuming = asyncio.create_task(self._consume())
        publishing = asyncio.create_task(self._publish())
        try:
            await asyncio.wait([publishing, consuming], return_when=asyncio.FIRST_COMPLETED)
            if consuming.done():
                consuming.result()  # raises, since it never ends by itself
            await publishing
            with suppress(TimeoutError):  # what must come does not: the checker will say so
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while self._outstanding or self._asked:  # noqa: ASYNC110 - the consumer sets no event
                        await asyncio.sleep(PAUSE_SECONDS)
            self._recorder.log(Drained(TOPIC, left=len(self._outstanding)))
        finally:
            consuming.cancel()
            publishing.cancel()
            await asyncio.gather(consuming, publishing, return_exceptions=True)

    def finish(self) -> None:
        """Publish no more."""
        self._is_over = True

    async def _publish(self) -> None:
        connection, client = await signed_in(self._port, self._token), self._recorder.new_client("publisher")
        try:
            while not self._is_over:
                (id_,) = self._recorder.new_ids(1)
                operation = self._recorder.invoke(client, Act.PUBLISH, TOPIC, (id_,))
                begun = time.monotonic()
                async with asyncio.timeout(PATIENCE_SECONDS):
                    reply = await connection.ask(b"PUBLISH", TOPIC.encode(), payload_of(id_))
                self.took_seconds.append(time.monotonic() - begun)
                if isinstance(reply, hiredis.ReplyError):
                    assert str(reply).startswith(REFUSED), reply
                    self._recorder.fail(operation)
                    self.refused_count += 1
                else:
                    self._recorder.ok(operation)
                    self._outstanding ^= {id_}
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await connection.end()

    async def _consume(self) -> None:
        connection, client = await signed_in(self._port, self._token), self._recorder.new_client("consumer")
        try:
            connection.send((b"SUBSCRIBE", TOPIC.encode(), b"PREFETCH", b"%d" % PREFETCH))
            while True:
                reply = await connection.hear()
                if not isinstance(reply, list):
                    assert reply == b"OK", reply
                    self._recorder.ok(self._asked.popleft())
                    continue
                receipt, payload, marks = reply
                id_ = self._recorder.deliver(client, TOPIC, payload, marks_of(marks))
                if id_ is not None:
                    self._outstanding ^= {id_}
                    self._asked.append(self._recorder.invoke(client, Act.ACK, TOPIC, (id_,)))
                connection.send((b"ACK", receipt))
        finally:
            await connection.end()
