"""A client that repeatedly publishes to a topic and deletes it, until the broker is gone; and the proof of it.

    MPUBLISH ─► MPUBLISH ─► TOPIC DELETE ─► MPUBLISH ─► …        one request at a time, no other client uses the topic
    after each crash: there is what there was before the request under way, or what it makes of that

So what the topic holds is known without a history. It is read by taking everything and leaving with it: the messages
go back to the front, in their order.
"""

import asyncio
from random import Random

from tests.durability.clients.messages import payload_of
from tests.durability.clients.publishers import Ports
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp
from tests.durability.clients.workload import PATIENCE_SECONDS, count_messages

TOPIC = "drafts"
#: So many are taken at a time; they are below the bytes that one connection may hold.
MAX_MESSAGES = 200
MAX_AT_ONCE = 20
DELETE_PROBABILITY = 0.4


class Deleter:
    """The topic, from crash to crash."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._may_hold: list[bytes] | None = None  # instead: the outcome of a request is unknown

    async def compare(self, ports: Ports, recorder: Recorder) -> None:
        """Report what is missing, and what should not be there."""
        found = await _content(ports)
        if found not in (self._held, self._may_hold):
            wanted = set(self._held).intersection(self._held if self._may_hold is None else self._may_hold)
            kind = "lost" if wanted - set(found) else "phantom"
            recorder.checker.report.add(kind, f"{TOPIC} has {_short(found)}, should have {self._expected()}")
        self._held, self._may_hold = found, None

    async def run(self, ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
        """Publish and delete; in the form of any client."""
        connection = await Resp.connect(ports.resp)
        try:
            while True:
                await self._change(connection, recorder, random)
        finally:
            connection.close()

    async def _change(self, connection: Resp, recorder: Recorder, random: Random) -> None:
        is_deletion = len(self._held) > MAX_MESSAGES - MAX_AT_ONCE or random.random() < DELETE_PROBABILITY
        payloads = [payload_of(id_) for id_ in recorder.new_ids(random.randint(1, MAX_AT_ONCE))]
        self._may_hold = [] if is_deletion else self._held + payloads
        words = (b"TOPIC", b"DELETE", TOPIC.encode()) if is_deletion else (b"MPUBLISH", TOPIC.encode(), *payloads)
        reply = await connection.ask(*words)
        assert reply == b"OK" if is_deletion else isinstance(reply, list), reply
        self._held, self._may_hold = self._may_hold, None
        recorder.checker.report.counts["deleted"] += is_deletion

    def _expected(self) -> str:
        return _short(self._held) + ("" if self._may_hold is None else f" or {_short(self._may_hold)}")


async def _content(ports: Ports) -> list[bytes]:
    """Return what the topic holds, as far as it comes."""
    connection = await Resp.connect(ports.resp)
    payloads: list[bytes] = []
    try:
        count = await count_messages(ports.monitor, TOPIC)
        connection.send((b"SUBSCRIBE", TOPIC.encode(), b"PREFETCH", b"%d" % (2 * MAX_MESSAGES)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(payloads) < count:
                delivery = await connection.hear()
                assert isinstance(delivery, list), delivery
                payloads.append(delivery[1])
    except TimeoutError:
        return payloads  # fewer than it counts: the comparison will say so
    finally:
        connection.close()
    return payloads


def _short(payloads: list[bytes]) -> str:
    return str([payload.partition(b":")[0].decode() for payload in payloads])
