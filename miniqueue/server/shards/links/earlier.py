"""Publishes that are repeated after their spread topic got more parts: where they were before, as far as that is known.

    PUB orders x DEDUP 7f, of 4 parts before ─▶ part 3 of 4: is 7f known? ─┬─ yes ─▶ part 3, which recognizes it
                                                                            └─ no ──▶ part 5 of 8

A message that could have been in another part is looked for there first: by its dedup id for the time of its window, by
its unique key always, as the message with it can still be there. A batch with keys that was begun among fewer parts is
completed among these, so that each of them recognizes its own messages.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import hiredis

from miniqueue.broker import Broker
from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.publish import PublishOptions, without_digest
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.spreading import Earlier
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.links.answering import Answer
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.kept import KeptLinks
from miniqueue.server.shards.links.link import Link
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

#: The kind of the links over which a shard is asked what its parts know.
KIND: Final = "earlier"
_WORD: Final = b"KNOWN"


class Published(NamedTuple):
    """What decides the parts of a publish, and by what they recognize it.

    Attributes:
      words: what chooses the part of each message.
      dedup_id: the dedup id; b"" for none.
      unique_key: the unique key; b"" for none.
      is_cut: whether it is a batch whose messages can be in several parts.
    """

    words: Sequence[bytes]
    dedup_id: bytes = b""
    unique_key: bytes = b""
    is_cut: bool = False


def published_with(options: PublishOptions) -> Published:
    """Return what decides the part of one message with these options."""
    return Published([options.placing_key], options.dedup_id, options.unique_key)


def published_batch(dedup_id: bytes, keys: Sequence[bytes]) -> Published:
    """Return what decides the parts of a batch whose messages have these keys."""
    own = without_digest(dedup_id)
    words = {key or own for key in keys} or {own}
    return Published([*words], dedup_id, is_cut=any(keys))


class _Question(NamedTuple):
    """Whether a part knows an id or a key, and which publish would have been among how many parts then."""

    publish: int
    part_count: int
    number: int
    dedup_id: bytes
    unique_key: bytes


class EarlierParts:
    """Asks the shards, for one process.

    Args:
      placing: the place of this process among the shards.
      open_link: opens a link to a shard; raises ShardAwayError.

    Attributes:
      links: the links over which it asks.
    """

    def __init__(self, placing: Placing, open_link: Callable[[int, Introduction], Link]) -> None:
        self._placing = placing
        self.links = KeptLinks(KIND, open_link)

    async def counts(
        self, topic: bytes, part_count: int, earlier: Earlier, published: Sequence[Published]
    ) -> list[int]:
        """Return the number of parts among which each publish has its place: that at which it is known, or the last.

        Raises ShardAwayError if a shard that can know one does not answer.
        """
        counts = [part_count] * len(published)
        of_shards: dict[int, list[_Question]] = {}
        for question in _questions(part_count, earlier, published):
            shard = self._placing.shard_of_part(topic, question.number)
            of_shards.setdefault(shard, []).append(question)
        for shard, questions in of_shards.items():
            for question, is_known in zip(questions, await self._ask(shard, topic, questions), strict=True):
                if is_known:
                    counts[question.publish] = question.part_count
        return counts

    async def _ask(self, shard: int, topic: bytes, questions: Sequence[_Question]) -> list[bool]:
        command = [_WORD]
        for question in questions:
            command += (part_name(topic, question.number), question.dedup_id, question.unique_key)
        return _flags(await self.links.ask(shard, command))


def needs_to_ask(part_count: int, earlier: Earlier, published: Published) -> bool:
    """Return whether a publish can be known in another part than that in which it is now."""
    return next(_questions(part_count, earlier, [published]), None) is not None


def _questions(part_count: int, earlier: Earlier, published: Sequence[Published]) -> Iterator[_Question]:
    for index, each in enumerate(published):
        for count in earlier.counts:
            dedup_id = each.dedup_id if count in earlier.recent else b""
            if not dedup_id and not each.unique_key:
                continue
            if each.is_cut:
                dedup_id = earlier.batch_id(dedup_id, count)
            for number in {part_for(word, count) for word in each.words}:
                if each.is_cut or number != part_for(each.words[0], part_count):
                    yield _Question(index, count, number, dedup_id, each.unique_key)


def _flags(reply: bytes) -> list[bool]:
    reader = hiredis.Reader()
    reader.feed(reply)
    flags = reader.gets()
    if not isinstance(flags, bytes):
        raise ShardAwayError(f"a shard does not look up what was published before: {flags}")
    return [flag == ord("1") for flag in flags]


def knowing(broker: Broker) -> Answer:
    """Return what answers for the parts of this shard."""

    async def answer(command: Command) -> bytes:
        words = command[1:]
        try:
            known = [await broker.knows(*asked) for asked in zip(words[::3], words[1::3], words[2::3], strict=True)]
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))
        return replies.bulk(b"".join(b"%d" % is_known for is_known in known))

    return answer
