"""The sending end: a parcel as a command, and what became of it as the reply.

    PARCEL held number transfer number transfer …  ─▶  {"arrived":[17,19],"refused":{"lost":"the topic is full …"}}

`held` are its numbers, separated by commas. The command is only understood on links that were introduced for it.
"""

import hiredis
import orjson

from miniqueue.broker.inbox.inbox import Taken
from miniqueue.core.log.transfer import Parcel
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import Failure, Link
from miniqueue.server.shards.links.peers import Peers
from miniqueue.wire.resp_parser import encode_words

WORD = b"PARCEL"


class Sending:
    """Sends parcels to the other shards.

    Args:
      peers: the other shards.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._links: dict[int, Link] = {}

    async def __call__(self, shard: int, parcel: Parcel) -> Taken:
        """Send a parcel; return what became of it. Raises ShardAwayError if that is not known."""
        link = self._links.get(shard)
        if link is None or link.is_lost:
            name = str(self._peers.placing.number)
            link = self._links[shard] = self._peers.open(shard, Introduction("transfers", name=name))
        reply = await link.ask(encode_parcel(parcel))
        if isinstance(reply, Failure):
            raise ShardAwayError(f"shard {shard} has ended, or does not answer; messages are sent to it again")
        return decode_taken(reply)


def encode_parcel(parcel: Parcel) -> bytes:
    """Return the command."""
    words = [WORD, b",".join(b"%d" % number for number in parcel.held)]
    for number, transfer in parcel.transfers:
        words += (b"%d" % number, transfer)
    return b"*%d\r\n" % len(words) + encode_words(words)


def decode_parcel(words: list[bytes]) -> Parcel:
    """Parse the words of the command after the first; raises ValueError."""
    held, *rest = words
    numbers, transfers = rest[::2], rest[1::2]
    return Parcel([int(n) for n in held.split(b",") if n], list(zip(map(int, numbers), transfers, strict=True)))


def encode_taken(taken: Taken) -> bytes:
    """Return what became of a parcel, as the content of the reply."""
    return orjson.dumps({"arrived": taken.arrived, "refused": {t.decode(): text for t, text in taken.refused.items()}})


def decode_taken(reply: bytes) -> Taken:
    """Parse a reply; raises ShardAwayError if the other shard could take nothing."""
    reader = hiredis.Reader()
    reader.feed(reply)
    content = reader.gets()
    if not isinstance(content, bytes):
        raise ShardAwayError(f"the other shard takes no messages now: {content}")
    members = orjson.loads(content)
    return Taken(members["arrived"], {topic.encode(): text for topic, text in members["refused"].items()})
