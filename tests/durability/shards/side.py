"""The clients of the topic of one shard, at the doors of all, and the history of what they see.

They go on while the shard is away: a publish that is refused was not carried out, one that is unknown may have been. A
consumer leaves with the first error, and comes again as another.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from random import Random

import hiredis

from tests.acceptance.shards.conftest import topic_in
from tests.durability.clients.consumers import KNOWN_WORDS, Consumer, marks_of
from tests.durability.clients.events import Act, Crash
from tests.durability.clients.messages import payload_of
from tests.durability.clients.publishers import is_refusal
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp

#: Ids of messages are below this in each shard; so no id is that of a message of another shard.
IDS_OF_SHARD = 10**9
PREFETCH = 20
#: The time between two commands of a client, which leaves the processor to the broker.
PAUSE_SECONDS = 0.01
#: A receive whose reply is lost keeps its messages for so long.
LEASE_SECONDS = b"3"
#: Errors with which a shard, or a door to it, may answer while it is away, or after that.
AWAY = ("TRYAGAIN", "UNKNOWN", "NOLEASE", "FULL", "READONLY")


class _AwayError(Exception):
    """The shard does not do what was asked."""


class Side:
    """The topic of one shard, with its clients.

    Args:
      shard: the number of the shard.
      directory: gets the history.
      ports: the RESP port of each shard.
      random: chooses what clients do.
    """

    def __init__(self, shard: int, directory: Path, ports: Sequence[int], random: Random) -> None:
        self.shard = shard
        self.topic = topic_in(shard, "faults-")
        first_id = shard * IDS_OF_SHARD + 1
        self.recorder = Recorder(directory / f"history-{shard}.jsonl", first_id=first_id, leases_end=True)
        self._ports = ports
        self._random = random
        self._consumers = (self._stream, self._receive)
        self._running: dict[tuple[str, int], asyncio.Task[None]] = {}

    def begin(self, *, consumes: bool = True) -> None:
        """Start a publisher and, unless they are to wait, two consumers at each door, if they do not run yet."""
        acts: dict[str, Callable[[int], Coroutine[object, object, None]]] = {"publish": self._publish}
        if consumes:
            acts |= {act.__name__: partial(self._consume, act) for act in self._consumers}
        for door in range(len(self._ports)):
            for name, act in acts.items():
                if (name, door) not in self._running:
                    self._running[name, door] = asyncio.create_task(act(door))

    def end(self, door: int | None = None, *, publishes: bool = False) -> list["asyncio.Task[None]"]:
        """End the clients, or only those at one door, or all but publishers; return the tasks, to be waited for."""
        ending = []
        for (name, at), task in list(self._running.items()):
            if door in (None, at) and not (publishes and name == "publish"):
                task.cancel()
                ending.append(self._running.pop((name, at)))
        return ending

    def crash(self) -> None:
        """Log that the process was killed, whose clients have ended."""
        self.recorder.log(Crash())

    def check(self) -> None:
        """Raise what a client has found that it must not."""
        for task in self._running.values():
            if task.done():
                task.result()

    # --- publishers -------------------------------------------------------------------------------------------

    async def _publish(self, door: int) -> None:
        client = self.recorder.new_client("publisher")
        while True:
            asked: deque[int] = deque()
            try:
                connection = await Resp.connect(self._ports[door])
                try:
                    while True:
                        await self._publish_some(connection, client, asked)
                        await asyncio.sleep(PAUSE_SECONDS)
                finally:
                    connection.close()
                    for op in asked:
                        self.recorder.unknown(op)
            except ConnectionError:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _publish_some(self, connection: Resp, client: str, asked: deque[int]) -> None:
        recorder, topic = self.recorder, self.topic.encode()
        for _ in range(self._random.choice((1, 1, 2, 5))):
            ids = recorder.new_ids(self._random.choice((1, 1, 1, 3)))
            asked.append(recorder.invoke(client, Act.PUBLISH, self.topic, ids))
            connection.send((b"MPUBLISH", topic, *map(payload_of, ids)))
        while asked:
            reply = await connection.hear()
            op = asked.popleft()
            if isinstance(reply, list):
                recorder.ok(op, tuple(int(id_.partition(b"-")[2]) for id_ in reply))
            else:
                _expect_away(reply)
                assert isinstance(reply, hiredis.ReplyError)
                (recorder.fail if is_refusal(reply) else recorder.unknown)(op)

    # --- consumers --------------------------------------------------------------------------------------------

    async def _consume(self, act: Callable[[Resp, Consumer], Coroutine[object, object, None]], door: int) -> None:
        while True:
            try:
                connection = await Resp.connect(self._ports[door])
            except ConnectionError:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            consumer = Consumer(self.recorder, act.__name__.strip("_"), self.topic, self._random)
            try:
                await act(connection, consumer)
            except (_AwayError, ConnectionError):
                await asyncio.sleep(PAUSE_SECONDS)
            finally:
                consumer.leave()
                connection.close()

    async def _stream(self, connection: Resp, consumer: Consumer) -> None:
        connection.send((b"SUBSCRIBE", self.topic.encode(), b"PREFETCH", b"%d" % PREFETCH))
        while not consumer.wants_to_leave():
            reply = await connection.hear()
            if isinstance(reply, list):
                receipt, payload, marks = reply
                consumer.receive(receipt, payload, marks_of(marks))
            else:
                _expect_ok(reply)
                consumer.answered()
            if receipts := consumer.some_held(PREFETCH):
                act, delay_seconds = consumer.settle(receipts)
                words = [b"%.3f" % delay_seconds] if act is Act.DACK else []
                connection.send((act.upper().encode(), *words, *receipts))

    async def _receive(self, connection: Resp, consumer: Consumer) -> None:
        topic = self.topic.encode()
        while not consumer.wants_to_leave():
            await asyncio.sleep(PAUSE_SECONDS)
            received = await connection.ask(
                b"RECEIVE", topic, b"COUNT", b"20", b"WAIT", b"0.1", b"LEASE", LEASE_SECONDS
            )
            if not isinstance(received, list):
                _expect_away(received)
                raise _AwayError
            for receipt, payload, attributes in received:
                consumer.receive(receipt, payload, marks_of(attributes[KNOWN_WORDS:]))
            while consumer.held:
                receipts = [*consumer.held][: self._random.choice((1, 5, PREFETCH))]
                act, delay_seconds = consumer.settle(receipts)
                words = [b"%.3f" % delay_seconds] if act is Act.DACK else []
                reply = await connection.ask(act.upper().encode(), topic, *receipts, *words)
                for each in reply if isinstance(reply, list) else [reply]:
                    _expect_ok(each)
                consumer.answered()


def _expect_ok(reply: object) -> None:
    """Raise _AwayError for an error of a shard that is, or was, away."""
    if reply != b"OK":
        _expect_away(reply)
        raise _AwayError


def _expect_away(reply: object) -> None:
    """Fail unless a reply is an error of a shard that is, or was, away."""
    text = reply.decode() if isinstance(reply, bytes) else str(reply)
    assert text.startswith(AWAY), reply
