"""PUBs with keys that come together: each part publishes its own together, and the replies have their order.

    PUB orders one KEY a   PUB orders two KEY b   PUB orders three KEY a
      ─▶ part 5, here: one, three  ─▶ 5120-17, 5120-18 ─┐
      ─▶ part 2, in another shard: PUB … two KEY b      ─▶ 2048-9 ─┴▶ 5120-17  2048-9  5120-18

All parts of another shard get theirs in one piece, in the order of the parts, so that they are published together
there, too.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat

from miniqueue.broker import Accepted, Commit
from miniqueue.core.message.partitioning import indexes_by_number
from miniqueue.core.message.parts import part_for
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import MiniqueueError, ProtocolError
from miniqueue.server.resp.keyed import KeyedRun, encode_keyed, ids_of
from miniqueue.server.resp.replies import LateReply
from miniqueue.server.resp.router import RoutedClient
from miniqueue.wire.resp_splitting import split_each

#: What a part has accepted: the indexes of the messages in the run, and their ids.
Published = tuple[Sequence[int], Accepted]
#: Sends commands to a shard, whose replies, as many as the last argument says, are given to the third one.
Gather = Callable[[int, bytes, LateReply, int], None]


def publish_run(
    client: RoutedClient, gather: Gather, own: int, places: Sequence[tuple[bytes, int]], run: KeyedRun
) -> None:
    """Publish messages; `gather` sends those of other shards, `places` are the parts, with the shard of each."""
    joining = _Joining(client, len(run.keys), sum(map(len, run.payloads)))
    of_others: dict[int, list[tuple[bytes, list[int]]]] = {}
    here: list[Published] = []
    for number, indexes in indexes_by_number(list(map(part_for, run.keys, repeat(len(places))))).items():
        part, shard = places[number]
        if shard != own:
            of_others.setdefault(shard, []).append((part, indexes))
        else:
            here += _publish_here(client, part, indexes, run, joining)
    for shard, shares in of_others.items():
        topics = [part for part, indexes in shares for _ in indexes]
        order = [index for _, indexes in shares for index in indexes]
        data = encode_keyed(topics, _at(order, run.payloads), _at(order, run.keys))
        gather(shard, data, _Share(joining, order), len(order))
    for commit in {accepted.commit: None for _, accepted in here}:
        own_shares = [(indexes, accepted) for indexes, accepted in here if accepted.commit is commit]
        client.wait_for(commit, b"", 0, sum(accepted.size_bytes for _, accepted in own_shares))
        commit.add_listener(partial(_give, client, commit, joining, own_shares))


def _publish_here(
    client: RoutedClient,
    part: bytes,
    indexes: Sequence[int],
    run: KeyedRun,
    joining: "_Joining",
) -> list[Published]:
    """Publish the messages of a part of this shard: together, or if some are refused, one by one."""
    payloads, keys = _at(indexes, run.payloads), _at(indexes, run.keys)
    try:
        return [(indexes, client.broker.publish_batch(part, payloads, b"", BatchOptions(keys)))]
    except MiniqueueError:
        published: list[Published] = []
    for index, payload, key in zip(indexes, payloads, keys, strict=True):
        try:
            published.append(([index], client.broker.publish_with(part, payload, PublishOptions(key=key))))
        except MiniqueueError as exc:
            joining.take([index], client.refusal(exc))
    return published


def _at(indexes: Sequence[int], words: Sequence[bytes]) -> list[bytes]:
    return list(map(words.__getitem__, indexes))


def _give(client: RoutedClient, commit: Commit, joining: "_Joining", shares: Sequence[Published]) -> None:
    for indexes, accepted in shares:
        count = len(indexes)
        ids = ids_of(accepted.message_id, count)
        joining.take(indexes, ids if commit.error is None else client.refusal(commit.error) * count)


class _Joining:
    """Collects the replies to the messages of a run, and gives the client all of them, in its order."""

    def __init__(self, client: RoutedClient, count: int, size_bytes: int) -> None:
        self._client = client
        self._whole = client.await_reply(size_bytes)
        self._count = count
        self._replies: dict[int, bytes] = {}

    def take(self, indexes: Sequence[int], replies: bytes) -> None:
        """Take the replies to some messages; with the last ones, the client gets all."""
        try:
            self._replies.update(zip(indexes, split_each(replies, len(indexes)), strict=True))
        except ProtocolError:
            self._client.abort()
            return
        if len(self._replies) == self._count:
            ordered = b"".join(map(self._replies.__getitem__, range(self._count)))
            self._client.give_out([self._whole], [ordered])


class _Share(LateReply):
    """The replies of another shard to its messages, which no client waits for as they are."""

    __slots__ = ("_indexes", "_joining")

    def __init__(self, joining: _Joining, indexes: Sequence[int]) -> None:
        super().__init__()
        self._joining = joining
        self._indexes = indexes

    def give(self, reply: bytes) -> None:
        """Hand the replies over."""
        super().give(reply)
        self._joining.take(self._indexes, reply)
