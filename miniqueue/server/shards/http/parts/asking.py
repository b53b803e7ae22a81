"""Asks the parts of a spread topic: the same request, with the name of a part in its path.

    /topics/orders/ack ─▶ /topics/orders%1F3/ack ─▶ the shard with part 3 ─▶ its reply

The text of an error can contain the name of a part, which clients see as that of the topic.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from starlette.types import Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.batch import BatchOptions
from miniqueue.server.asgi.request import parameters_of
from miniqueue.server.shards.http.owners import Answer, Gathering, Owners, together
from miniqueue.server.shards.links.earlier import Published
from miniqueue.server.shards.links.peers import Peers

_SEPARATOR_IN_PATH: Final = b"%1F"


class Spread(NamedTuple):
    """A spread topic.

    Attributes:
      name: its name, as clients know it.
      part_count: how many parts it has.
    """

    name: bytes
    part_count: int

    @property
    def numbers(self) -> range:
        """The numbers of all parts."""
        return range(self.part_count)

    def part(self, number: int) -> bytes:
        """Return the name of a part."""
        return part_name(self.name, number)


class Parts:
    """The parts of spread topics, for one port.

    Args:
      owners: the owners of all shards.
      peers: choose parts for messages without keys, and report changes of parts.
      broker: the broker of this shard, which knows all spread topics.

    Attributes:
      owners: the same.
      spread_of, earlier_of: return over how many parts a topic is spread, 0 for others, and how many it had before.
      max_message_bytes: maximum size of a payload.
      growth: reports changes of the parts of spread topics.
    """

    def __init__(self, owners: Owners, peers: Peers, broker: Broker) -> None:
        self.owners = owners
        self.spread_of = broker.spread_of
        self.earlier_of = broker.earlier_of
        self.growth = peers.growth
        self.max_message_bytes = broker.max_message_bytes
        self._peers = peers
        self._broker = broker

    def choose(self, topic: Spread, message_count: int) -> int:
        """Return the number of the part of messages without a key, which come together."""
        return self._peers.choose_part(topic.name, topic.part_count, message_count, self._broker.open_commit)

    async def placed(self, topic: Spread, published: Sequence[Published]) -> Sequence[Spread]:
        """Return the topic with the number of parts among which each publish has its place; raises ShardAwayError.

        It is the present one, unless a publish is known to a part where it was before there were as many.
        """
        earlier = self.earlier_of(topic.name)
        if not earlier.counts:
            return [topic] * len(published)
        counts = await self._peers.earlier.counts(topic.name, topic.part_count, earlier, published)
        return [topic._replace(part_count=count) for count in counts]

    def part_for(self, topic: Spread, key: bytes, message_count: int = 1) -> int:
        """Return the number of the part of a key, or of what is in its place; of none, a part that is chosen."""
        return part_for(key, topic.part_count) if key else self.choose(topic, message_count)

    def shard_of(self, topic: Spread, number: int) -> int:
        """Return the shard with a part."""
        return self.owners.placing.shard_of(topic.part(number))

    def check_all(self, topic: Spread) -> None:
        """Raise ShardAwayError if a shard with a part is known not to answer."""
        for shard in {self.shard_of(topic, number) for number in topic.numbers}:
            self.owners.check(shard)

    def check_batch(self, topic: Spread, numbers: Iterable[int], each: BatchOptions) -> None:
        """Raise an error if a part would refuse the options of a batch, or is known not to answer: none gets a line."""
        each.attributes(self._broker.clock.now_ms())
        for shard in {self.shard_of(topic, number) for number in numbers}:
            self.owners.check(shard)

    async def pass_on(self, topic: Spread, number: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to a part, and its reply back; raises as `Owners.pass_on`."""
        named = scope_of_part(scope, topic, number)
        await self.owners.pass_on(self.shard_of(topic, number), named, receive, send)

    async def ask(self, topic: Spread, number: int, scope: Scope, gathering: Gathering, body: bytes = b"") -> Answer:
        """Return the answer of a part to a request with this body; raises as `Owners.ask`."""
        named = scope_of_part(scope, topic, number)
        return await self.owners.ask(self.shard_of(topic, number), named, gathering, body)

    async def ask_each(
        self, topic: Spread, numbers: Iterable[int], scope: Scope, gathering: Gathering, body: bytes = b""
    ) -> Sequence[Answer]:
        """Return the answers of parts, in the order of `numbers`; raises as `ask`."""
        return await together(self.ask(topic, number, scope, gathering, body) for number in numbers)


def scope_of_part(scope: Scope, topic: Spread, number: int) -> Scope:
    """Return the scope of a request for a part of the topic that the request names, in its path or its query."""
    raw_path: bytes = scope["raw_path"]
    if raw_path == b"/leases":
        return with_query(scope, {"topic": topic.part(number)})
    path: str = scope["path"]
    segments = raw_path.split(b"/")
    names_topic_second = segments[1] == b"topics" and len(segments) > 2
    at = 2 if names_topic_second else len(segments) - 1
    segments[at] += b"%b%d" % (_SEPARATOR_IN_PATH, number)
    decoded = path.split("/")
    decoded[at] = topic.part(number).decode("utf-8", "replace")
    return {**scope, "raw_path": b"/".join(segments), "path": "/".join(decoded)}


def with_query(scope: Scope, query: Mapping[str, bytes | None]) -> Scope:
    """Return the scope of a request with other parameters, without those that are None."""
    if not query:
        return scope
    kept = [(name, value) for name, value in parameters_of(scope) if name not in query]
    changed = [(name, value) for name, value in query.items() if value is not None]
    return {**scope, "query_string": urlencode([*kept, *changed], encoding="latin-1").encode()}
