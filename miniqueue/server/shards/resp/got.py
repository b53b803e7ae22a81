"""GET on spread topics: which part has given the message that the connection holds, as its settle names no receipt.

    GET orders ─▶ one part after the other, beginning at another each time ─▶ held by the connection in its shard
    ACK orders ─▶ the part that has given it ─▶ OK: nothing is held

The shard of the part returns the message when its link ends.
"""

from typing import Final

from miniqueue.core.message.parts import part_name
from miniqueue.core.settings.placing import Placing
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.shards.resp.gathering import Ask
from miniqueue.server.shards.resp.parts.parting import SETTLES, names_receipts, turn
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import OK

#: The replies to GET without a message, in both versions.
_NULLS: Final = (b"$-1", b"_")


class Got:
    """What a connection holds by GET of spread topics.

    Args:
      client: the connection.
      placing: the place of this process among the shards.
      ask: asks a shard.
    """

    def __init__(self, client: Client, placing: Placing, ask: Ask) -> None:
        self._client = client
        self._shard_of = placing.shard_of
        self._ask = ask
        self._parts: dict[bytes, int] = {}  # the parts that have given the messages, by topic

    def is_about(self, command: Command) -> bool:
        """Return whether a command gets a message, or settles one that is held."""
        word = command[0].upper()
        return word == b"GET" or (word in SETTLES and command[1] in self._parts and not names_receipts(command))

    async def carry_out(self, part_count: int, command: Command) -> bytes:
        """Return the reply to such a command; raises MiniqueueError."""
        word, topic = command[0].upper(), command[1]
        return await (self._get(topic, part_count) if word == b"GET" else self._settle(command))

    def clear(self) -> None:
        """Forget everything: the links end."""
        self._parts.clear()

    async def _get(self, topic: bytes, part_count: int) -> bytes:
        start, reply = self._parts.get(topic, turn()), b""  # a part whose message is held refuses
        for number in range(start, start + part_count):
            part = part_name(topic, number % part_count)
            reply = await self._ask(self._shard_of(part), [b"GET", part])
            self._client.check_client()
            if not reply.startswith(_NULLS):
                if reply.startswith(b"$"):
                    self._parts[topic] = number % part_count
                break
        return reply

    async def _settle(self, command: Command) -> bytes:
        word, topic, *words = command
        part = part_name(topic, self._parts[topic])
        reply = await self._ask(self._shard_of(part), [word, part, *words])
        if reply == OK:
            self._parts.pop(topic, None)
        return reply
