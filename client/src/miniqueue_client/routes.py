"""Which node gets a call: that with its topic, if the broker is a cluster, which says so in its reply to HELLO.

    standalone ─▶ the URL of the client, for all calls
    cluster ─▶ CLUSTER SLOTS ─▶ topic ─▶ slot ─▶ the URL of its node; any node serves the rest, and is asked if that one
                                                 cannot be reached
    a failure ─▶ the nodes are read again
    a topic whose ids show that it is spread ─▶ one node for each client, so that all nodes have clients of the topic

Does not know connections. All nodes serve all topics, so that a wrong choice costs time and nothing else.
"""

import os
import random
import time
from binascii import crc_hqx
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from miniqueue_client.address import Address
from miniqueue_client.calls.call import Call, Reply

#: Asks a cluster for its nodes.
SLOTS: Final[Call[Reply]] = Call(("CLUSTER", "SLOTS"), lambda reply: reply)
#: How long a node is left out after it could not be reached, and after a connection to it was lost.
UNREACHABLE_SECONDS: Final = 60.0
LOST_SECONDS: Final = 1.0
_SLOT_COUNT: Final = 16_384
_DEAD_LETTER_SUFFIX: Final = b".dlq"
#: The calls whose replies begin with the id of a message, or with a receipt, and where these have the number of a part.
_WITH_IDS: Final = frozenset({"PUB", "MPUBLISH", "PUBBATCH", "PUBEACH", "PUBPACKED"})
_WITH_RECEIPTS: Final = frozenset({"RECEIVE"})
_PARTITION_BITS: Final = 10
_RECEIPT_BITS: Final = 57
#: The position of the topic in commands that have one, and where a command has subcommands.
_SECOND: Final = frozenset(
    {"PUB", "MPUBLISH", "PUBBATCH", "PUBEACH", "PUBPACKED", "CANCEL", "REQUEST", "REPLY", "RECEIVE"}
    | {"ACK", "NACK", "BACK", "DACK", "REJECT", "EXTEND"}
    | {"REDRIVE", "PURGE", "PAUSE", "RESUME"}
    | {"LEN", "PEEK", "SEARCH", "TRACE", "READ", "PARTITIONS"}
)
_THIRD: Final = frozenset(("TOPIC", "GROUP"))


def is_cluster(connection: Any) -> bool:  # noqa: ANN401 - redis-py has two classes, without a base
    """Whether the broker of a connection has said that it has nodes."""
    greeting = getattr(connection, "handshake_metadata", None) or {}
    return greeting.get(b"mode", greeting.get("mode")) in (b"cluster", "cluster")


def slot_of(topic: bytes) -> int:
    """Return the slot of a topic as the broker computes it: that of its tag, or of the topic of its dead letters."""
    while topic.endswith(_DEAD_LETTER_SUFFIX):
        topic = topic[: -len(_DEAD_LETTER_SUFFIX)]
    start = topic.find(b"{")
    end = topic.find(b"}", start + 1)
    if start >= 0 and end > start + 1:
        topic = topic[start + 1 : end]
    return crc_hqx(topic, 0) % _SLOT_COUNT


def topic_of(call: Call[Any]) -> bytes | None:
    """Return the topic by which a call is placed; None if any node may get it."""
    words = call.words
    at = 1 if words[0] in _SECOND else 2 if words[0] in _THIRD else len(words)
    topic = words[at] if at < len(words) else None
    return topic.encode() if isinstance(topic, str) else topic if isinstance(topic, bytes) else None


def shows_a_part(call: Call[Any], reply: Reply) -> bool:
    """Whether the reply to a call contains an id, or a receipt, of any part of a spread topic but the first."""
    if call.words[0] not in _WITH_IDS and call.words[0] not in _WITH_RECEIPTS:
        return False
    while isinstance(reply, list) and reply:
        reply = reply[0]
    if not isinstance(reply, bytes):
        return False
    if call.words[0] in _WITH_IDS:
        digits, shift = reply.partition(b"-")[0], _PARTITION_BITS
    else:
        digits, shift = reply.rpartition(b"-")[2], _RECEIPT_BITS
    return digits.isdigit() and int(digits) >> shift > 0


class _Nodes(NamedTuple):
    """The nodes in the order of their slots: the first slot and the URL of each."""

    starts: list[int]
    urls: list[str]

    def url_of(self, topic: bytes) -> str:
        return self.urls[max(0, bisect(self.starts, slot_of(topic)) - 1)]


class Routes:
    """The nodes of a broker, as they were when they were last read.

    Args:
      address: the address of the broker.
      monotonic: the clock, in seconds.
    """

    def __init__(self, address: Address, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._monotonic = monotonic
        self._nodes: _Nodes | None = None
        self._left_out_until: dict[str, float] = {}
        self._spread: set[bytes] = set()  # the topics that are known to be spread
        self._luck = random.randrange(1 << 16)

    @property
    def is_known(self) -> bool:
        """Whether the nodes have been read."""
        return self._nodes is not None

    def learn(self, slots: Reply) -> None:
        """Learn the nodes from the reply to CLUSTER SLOTS."""
        ranges = sorted((first, self._url_of(node)) for first, _last, node, *_ in slots)
        self._nodes = _Nodes([first for first, _ in ranges], [url for _, url in ranges])

    def forget(self) -> None:
        """Forget the nodes: they may have changed."""
        self._nodes = None
        self._spread.clear()

    def note(self, calls: Sequence[Call[Any]], replies: Sequence[Reply]) -> None:
        """Learn from the replies to calls which topics are spread."""
        for call, reply in zip(calls, replies, strict=True):
            topic = topic_of(call)
            if topic is not None and topic not in self._spread and shows_a_part(call, reply):
                self._spread.add(topic)

    def leave_out(self, url: str, seconds: float) -> None:
        """Leave out a node for some time, unless none else can be reached."""
        self._left_out_until[url] = self._monotonic() + seconds

    def urls_for(self, calls: Sequence[Call[Any]]) -> list[str]:
        """Return the URLs to which calls may be sent together, the best one first."""
        nodes = self._nodes
        if nodes is None:  # another thread has just forgotten them
            return [self._address.url]
        topic = next(filter(None, map(topic_of, calls)), None)
        best = [] if topic is None else [self._url_in(nodes, topic)]
        urls = list(dict.fromkeys([*best, self._address.url, *nodes.urls]))
        if self._left_out_until:
            now = self._monotonic()
            urls.sort(key=lambda url: self._left_out_until.get(url, now) > now)
        return urls

    def parts_of(self, calls: Sequence[Call[Any]]) -> list[list[int]]:
        """Return the positions of the calls for each node, in order.

        Calls stay together if one of them has no topic, since it can depend on those before it, and in a transaction.
        """
        nodes = self._nodes
        if nodes is None:
            return [[*range(len(calls))]]
        parts: dict[str, list[int]] = {}
        for position, call in enumerate(calls):
            topic = topic_of(call)
            if topic is None:
                return [[*range(len(calls))]]
            parts.setdefault(self._url_in(nodes, topic), []).append(position)
        return [*parts.values()]

    def _url_in(self, nodes: _Nodes, topic: bytes) -> str:
        """Return the URL of the node for a topic; of a spread one, each process and each client has its own."""
        if topic in self._spread:
            return nodes.urls[(self._luck + os.getpid()) % len(nodes.urls)]
        return nodes.url_of(topic)

    def address_of(self, url: str) -> Address:
        """Return the address of a node."""
        return self._address if url == self._address.url else replace(self._address, url=url)

    def _url_of(self, node: Sequence[Any]) -> str:
        """Return the URL of a node: that of the client, with another host and port."""
        parts = urlsplit(self._address.url)
        host, port = node[0], node[1]
        host = (host.decode() if isinstance(host, bytes) else host) or parts.hostname or "localhost"
        user, at, _ = parts.netloc.rpartition("@")
        shown = f"[{host}]" if ":" in host else host
        return urlunsplit(parts._replace(netloc=f"{user}{at}{shown}:{port}"))
