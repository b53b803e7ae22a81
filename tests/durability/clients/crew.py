"""Members of a group that come, leave and die, while others publish with keys; and the proof that order holds.

    publishers ─ key ─▶ partition 0 ─▶ one member at a time ─▶ …        each partition is a topic in the history
                        partition 1 ─▶ …

Members are streams, each with a name of its own, that end in good order or without a word. After some crashes there is
a partition more, so keys go elsewhere from then on.
"""

import asyncio
from collections import deque
from random import Random
from zlib import crc32

import hiredis

from tests.durability.clients.consumers import Consumer, marks_of, several, streams
from tests.durability.clients.events import Act, Drained
from tests.durability.clients.messages import id_of, payload_of
from tests.durability.clients.publishers import Ports, is_refusal
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp
from tests.durability.clients.workload import PATIENCE_SECONDS, count_messages

TOPIC = "crews"
KEYS = [b"key-%d" % n for n in range(12)]
#: Longer than members work on anything here, so that none loses what it works on.
HANDOVER_SECONDS = b"60"
FEWEST, MOST = 3, 8
LEAVE_PROBABILITY = 0.05
GROW_PROBABILITY = 0.2
DRAIN_PREFETCH = 100


def place(partition: int) -> str:
    """Return what a partition is called in the history."""
    return f"{TOPIC}/{partition}"


class Crew:
    """The topic, from crash to crash."""

    def __init__(self) -> None:
        self._partition_count = 0
        self._homes: dict[int, str] = {}  # topics of messages, by their numbers

    async def prepare(self, ports: Ports, recorder: Recorder, random: Random) -> None:
        """Take everything, as the only member; then have the topic made, or another partition."""
        connection = await Resp.connect(ports.resp)
        try:
            found = await connection.ask(b"PARTITIONS", TOPIC.encode())
            if isinstance(found, list):
                self._partition_count = len(found)
                await self.drain(ports, recorder)
                if random.random() < GROW_PROBABILITY and self._partition_count < MOST:
                    await self._set(connection, b"SET", b"partitions", b"%d" % (self._partition_count + 1))
                    self._partition_count += 1
            else:
                settings = (b"partitions", b"%d" % FEWEST, b"handover_seconds", HANDOVER_SECONDS)
                await self._set(connection, b"CREATE", *settings)
                self._partition_count = FEWEST
        finally:
            connection.close()

    async def _set(self, connection: Resp, word: bytes, *settings: bytes) -> None:
        reply = await connection.ask(b"TOPIC", word, TOPIC.encode(), *settings)
        assert reply == b"OK", reply

    # --- at work ----------------------------------------------------------------------------------------------

    async def publish(self, ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
        """Publish with keys, a few at a time; in the form of any client."""
        connection = await Resp.connect(ports.resp)
        client, asked = recorder.new_client("keyed"), deque[tuple[int, int]]()
        try:
            while True:
                for _ in range(random.choice((1, 2, 10))):
                    self._ask(connection, recorder, client, random.choice(KEYS), asked)
                while asked:
                    self._note(recorder, asked[0], await connection.hear())
                    asked.popleft()
        finally:
            connection.close()
            for op, _ in asked:
                recorder.unknown(op)

    def _ask(
        self, connection: Resp, recorder: Recorder, client: str, key: bytes, asked: deque[tuple[int, int]]
    ) -> None:
        (id_,) = recorder.new_ids(1)
        partition = crc32(key) % self._partition_count
        self._homes[id_] = place(partition)
        asked.append((recorder.invoke(client, Act.PUBLISH, place(partition), (id_,)), partition))
        connection.send((b"PUB", TOPIC.encode(), payload_of(id_), b"KEY", key))

    def _note(self, recorder: Recorder, asked: tuple[int, int], reply: object) -> None:
        op, partition = asked
        if isinstance(reply, hiredis.ReplyError):
            (recorder.fail if is_refusal(reply) else recorder.unknown)(op)
            return
        assert isinstance(reply, bytes), reply
        found, _, seq = reply.partition(b"-")
        assert int(found) == partition, f"a message for partition {partition} is {reply!r}"
        recorder.ok(op, (int(seq),))

    async def work(self, ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
        """Be one member after the other; in the form of any client."""
        while True:
            member = _Member(recorder, random, self._homes)
            connection = await Resp.connect(ports.resp)
            try:
                await several(connection, member, random.choice((1, 3, 20)), b"MEMBER", member.name.encode())
            finally:
                member.leave()
                (connection.abort if random.random() < 0.5 else connection.close)()

    async def work_over_http(self, ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
        """The same over HTTP/2, where settles have no answer."""

        def next_one() -> tuple[Consumer, int, str]:
            member = _Member(recorder, random, self._homes)
            return member, random.choice((0, 3, 20)), f"member={member.name}"

        await streams(ports, next_one)

    # --- to the end -------------------------------------------------------------------------------------------

    async def drain(self, ports: Ports, recorder: Recorder) -> None:
        """Take and acknowledge everything; raises ConnectionError."""
        member = _Member(recorder, Random(0), self._homes)
        connection = await Resp.connect(ports.resp)
        words = (b"PREFETCH", b"%d" % DRAIN_PREFETCH, b"MEMBER", member.name.encode())
        connection.send((b"SUBSCRIBE", TOPIC.encode(), *words))
        left = 0
        try:
            while (left := await count_messages(ports.monitor, TOPIC)) or member.is_busy:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._take(connection, member)
        except TimeoutError:
            pass  # what must come does not: the checker will say so
        finally:
            member.leave()
            connection.close()
        for partition in range(self._partition_count):
            recorder.log(Drained(place(partition), left=0 if partition else left))
        self._homes = {id_: home for id_, home in self._homes.items() if recorder.checker.knows(id_)}

    async def _take(self, connection: Resp, member: "_Member") -> None:
        reply = await connection.hear()
        if isinstance(reply, list):
            receipt, payload, marks = reply
            member.receive(receipt, payload, marks_of(marks))
            member.acknowledge(receipt)
            connection.send((b"ACK", receipt))
        else:
            assert reply == b"OK", reply
            member.answered()


class _Member(Consumer):
    """A consumer of whatever partitions it is given."""

    def __init__(self, recorder: Recorder, random: Random, homes: dict[int, str]) -> None:
        super().__init__(recorder, "member", TOPIC, random)
        self._homes = homes

    @property
    def name(self) -> str:
        return self._client

    @property
    def is_busy(self) -> bool:
        return bool(self._asked)

    def receive(self, receipt: bytes, payload: bytes, marks: dict[str, int] | None) -> None:
        id_ = id_of(payload)
        home = self._homes.get(-1 if id_ is None else id_, TOPIC)
        if self._recorder.deliver(self._client, home, payload, marks, reader=home) is not None:
            self.held[receipt] = id_ or 0

    def acknowledge(self, receipt: bytes) -> None:
        """Log that one is about to be acknowledged."""
        self._asked.append(self._recorder.invoke(self._client, Act.ACK, self.topic, (self.held.pop(receipt),)))

    def wants_to_leave(self) -> bool:
        return self.random.random() < LEAVE_PROBABILITY
